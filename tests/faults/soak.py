"""``python -m tests.faults.soak --minutes 10 --seed N``: workers and nodes under random faults, and the verdict over what was seen.

Knows: the three workloads, how to judge them. Must not know: how a fault is done.

A mutex (three workers who look at their lease); a counter that trusts in the lease alone (two; it is allowed to lose increments); and a
counter behind the fencing gate (two; it must not). Which faults come, and in which order, is drawn from the seed; when they meet what, is
up to the machine, so a seed does not repeat a run.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import tenure
from tests.faults.support_crew import CrewMember, at_work, diaries
from tests.faults.support_diary import merged
from tests.faults.support_group import LinkedGroup
from tests.faults.support_machine import SmallDisk, forget_faketime, wall_clock
from tests.faults.support_store import Store
from tests.faults.support_storm import Storm
from tests.history.checker import check
from tests.history.counter import lost_increments
from tests.history.record import Record, save
from tests.support import eventually

DISK_BYTES = 48 << 20
SERVED_WITHIN_S = 60.0
TELLS_EVERY_S = 10.0
# From so long on every fault must have come.
COVERS_S = 600.0
NAMES = ("mutex", "plain", "fenced")


@dataclass
class Verdict:
    """What a soak showed. ``objections``: empty is good."""

    objections: list[str] = field(default_factory=list)
    history: list[Record] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    not_here: list[str] = field(default_factory=list)
    grants: int = 0
    looks: int = 0
    increments: int = 0
    refused: int = 0
    lost: int = 0

    def lines(self) -> list[str]:
        """For people."""
        faults = [f"  {name}, {role}: {count}" for (name, role), count in sorted(self.counts.items())]
        found = [
            f"{sum(self.counts.values())} faults:",
            *faults,
            *(f"  not here: {reason}" for reason in self.not_here),
            f"{len(self.history)} events, {self.grants} grants, {self.looks} looks at leases",
            f"counter behind the gate: {self.increments} increments, {self.refused} writes refused",
            f"counter without a gate: {self.lost} increments lost (allowed)",
        ]
        return [*found, *self.objections, f"verdict: {len(self.objections)} objections"]


def _tell(text: str) -> None:
    sys.stderr.write(f"soak: {text}\n")
    sys.stderr.flush()


def _equip(storm: Storm, directory: Path, stack: ExitStack, verdict: Verdict) -> None:
    """A small disk for each node, and a wall clock for each node and worker, where the machine can have them."""
    disks = {}
    for node in storm.group.nodes:
        disk = SmallDisk(node.data_dir, DISK_BYTES)
        if not disk.mount():
            verdict.not_here.append(f"disk full: {disk.why_not}")
            break
        stack.callback(disk.close)
        disks[node] = disk
    if len(disks) == len(storm.group.nodes):
        storm.disks = disks
        for node, disk in disks.items():
            node.prefix = disk.prefix
    clocks = []
    for number in range(len(storm.group.nodes)):
        clock = wall_clock(directory / f"clock-{number}")
        if isinstance(clock, str):
            verdict.not_here.append(f"wall clocks set: {clock}")
            return
        clocks.append(clock)
    storm.clocks = clocks
    stack.callback(lambda: forget_faketime(*(node.pid for node in storm.group.nodes)))
    for node, clock in zip(storm.group.nodes, clocks, strict=True):
        node.environ.update(clock.environ)


def _crew(group: LinkedGroup, directory: Path, stores: dict[str, Store]) -> list[CrewMember]:
    crew = []
    for name, count in zip(NAMES, (3, 2, 2), strict=True):
        arguments = ["--connect", group.endpoints, "--name", name]
        store = stores.get(name)
        arguments += ["--work", "counter", "--store", str(store.port)] if store is not None else ["--work", "mutex"]
        crew += [CrewMember(f"{name}-{number}", directory, arguments) for number in range(count)]
    return crew


def _grants(member: CrewMember) -> int:
    return sum(diary.read_text().count('"grants": [[') for diary in member.diaries)


def soak(directory: Path, seconds: float, seed: int) -> Verdict:
    """Run it. Whatever ends by itself, hangs or is not served is an objection, as is what the history shows."""
    rng = random.Random(seed)
    verdict = Verdict()
    with ExitStack() as stack:
        stores = {name: stack.enter_context(Store(name, fenced=name == "fenced").running()) for name in NAMES[1:]}
        group = LinkedGroup(directory)
        crew = _crew(group, directory, stores)
        storm = Storm(group, crew, NAMES, rng)
        verdict.counts = storm.counts
        _equip(storm, directory, stack, verdict)
        for reason in verdict.not_here:
            _tell(f"not here: {reason}")
        stack.enter_context(group)
        try:
            with at_work(crew, seed), tenure.connect(group.endpoints) as storm.asking:
                _wait_for_grants(crew)
                _run(storm, time.monotonic() + seconds)
                # The faults are over: every worker gets its turn, and ends when it is told to.
                _wait_for_grants(crew)
                for member in crew:
                    member.end()
        except AssertionError as error:
            verdict.objections.append(f"{error}\n{group.logs()}")
    if not verdict.objections:
        verdict.objections += uncovered(storm, seconds)
    _judge(verdict, crew, stores)
    return verdict


def uncovered(storm: Storm, seconds: float) -> list[str]:
    """What did not come in so long a soak and should have: some fault; in a long one all of them, on leader and follower."""
    if seconds >= COVERS_S:
        return [f"never came: {name}" for name in storm.missing()]
    return [] if storm.counts else ["no fault came"]


def _run(storm: Storm, until: float) -> None:
    begun = told = time.monotonic()
    while time.monotonic() < until:
        storm.blow(until)
        if time.monotonic() - told >= TELLS_EVERY_S:
            told = time.monotonic()
            grants = sum(_grants(member) for member in storm.crew)
            _tell(f"{told - begun:.0f} s, {sum(storm.counts.values())} faults, {grants} grants")


def _wait_for_grants(crew: list[CrewMember]) -> None:
    before = {member: _grants(member) for member in crew}
    eventually(
        lambda: all(_grants(member) > before[member] for member in crew),
        SERVED_WITHIN_S,
        "every worker is served\n" + "\n".join(member.said() for member in crew),
    )


def _judge(verdict: Verdict, crew: list[CrewMember], stores: dict[str, Store]) -> None:
    verdict.history = merged(diaries(crew), stores["fenced"].events)
    verdict.objections += check(verdict.history)
    verdict.grants = sum(_grants(member) for member in crew)
    verdict.looks = sum(event["kind"] == "look" for event in verdict.history)
    verdict.increments = sum(event["took"] for event in stores["fenced"].events)
    verdict.refused = len(stores["fenced"].events) - verdict.increments
    verdict.lost = len(lost_increments(stores["plain"].events))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="of the choice of faults [drawn]")
    parser.add_argument(
        "--history", type=Path, default=Path("soak-history.jsonl"), help="written if there are objections"
    )
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 31) if args.seed is None else args.seed
    _tell(f"seed {seed}, {args.minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="tenure-soak-") as directory:
        verdict = soak(Path(directory), 60.0 * args.minutes, seed)
    sys.stdout.write("".join(f"{line}\n" for line in verdict.lines()))
    if not verdict.objections:
        return 0
    save(verdict.history, args.history)
    sys.stdout.write(f"the history: {args.history}; check it again: python -m tests.history {args.history}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
