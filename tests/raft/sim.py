"""A raft group in random weather: everything is drawn from the seed, so a seed and a profile say everything.

Knows: faults, when they come, what must hold at the end. Must not know: the adapter's inside.

Faults: a node is killed (its disk keeps what the kernel had) or loses power (its disk keeps what was synced and any part of
the rest), also in the middle of any disk call; it is paused, timers first when it wakes; it is wiped; a connection breaks and
what is under way is lost; one direction stands still; a message comes twice; a machine fails; nodes are cut off from each other;
leadership is handed over.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from cluster.raft import snapsend
from cluster.raft.adapter import Adapter
from tests.raft.lab import Link
from tests.raft.labenv import LabEnv
from tests.raft.mishaps import Mishaps
from tests.raft.profiles import PROFILES, Profile
from tests.raft.watched import watched
from tests.storage.simdisk import Crash

HEAL_S = 12.0
ECHO_S = 4.0


class Weather(Mishaps):
    """One run."""

    def __init__(self, seed: int, profile: Profile, adapter_class: type[Adapter] = Adapter) -> None:
        self.durability = profile.durability
        self.profile = profile
        self.seed = seed
        self.agenda: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self.link_free: dict[tuple[int, str], float] = {}
        self.stalled: dict[tuple[str, str], float] = {}
        self.apart: set[frozenset[str]] = set()
        self.asleep: dict[str, list[tuple[Callable[..., None], tuple[Any, ...]]]] = {}
        self.calm = False
        self.stopped: list[str] = []
        names = "ABCDEFG"[: profile.nodes + profile.spares]
        founders = names[: profile.nodes]
        single = {"single": True} if profile.nodes == 1 else {}
        super().__init__(names, watched(adapter_class, self), seed=seed, connect=False, compact_bytes=4000, tail_bytes=1000, **single)
        self.outside = dict.fromkeys(names[profile.nodes :])
        self.ledger.counts_holders = not (profile.wipes or profile.changes)
        for name in names:
            node = self[name]
            node.rate = 1.0 + self.rng.uniform(-profile.drift, profile.drift)
            if name in founders:
                node.told = tuple(founders)
                self.at(self.rng.random() * 0.05, self.start_node, name)
        self.plan()

    # The agenda.

    def at(self, delay_s: float, fn: Callable[..., None], *args: Any) -> None:
        heapq.heappush(self.agenda, (self.now + delay_s, self.next_number(), fn, args))

    def advance(self, until: float) -> None:
        events = 0
        while self.agenda and self.agenda[0][0] <= until and not self.ledger.violations:
            self.now, _, fn, args = heapq.heappop(self.agenda)
            fn(*args)
            events += 1
            if events % 200 == 0:
                self.look()
        self.now = max(self.now, until)

    def on(self, name: str, fn: Callable[..., None], *args: Any) -> None:
        """Run on a node: later if it is paused; and it may die of it."""
        node = self[name]
        if not node.alive:
            return
        if name in self.asleep:
            self.asleep[name].append((fn, args))
            return
        try:
            fn(*args)
            node.env.run_soon()
        except Crash:
            self.died(name)
            return
        if node.fatal and "was removed from its raft group" in node.fatal[0]:
            self.removed(name)
        elif node.fatal and node.machine.failed:
            self.failed(name)
        elif node.fatal:
            self.stopped.append(f"{name}: {node.fatal[0]}")
            self.ledger.fail("Stopped", self.stopped[-1])

    def died(self, name: str) -> None:
        node = self[name]
        node.drive.crash_at = 0
        self.kill(name, power=self.profile.power)
        self.asleep.pop(name, None)
        self.at(self.rng.uniform(0.05, 2.0), self.start_node, name)

    def kill(self, name: str, *, power: bool = False) -> None:
        # A dying process says nothing: the others learn it a little later.
        node = self[name]
        node.alive = False
        others = list(node.net.links)
        for other in others:
            link = node.net.links.pop(other)
            link.open = False
            self.at(self.rng.uniform(0.0, 0.05), self.lost_link, other, name, link)
        super().kill(name, power=power)

    def lost_link(self, name: str, other: str, link: Link) -> None:
        node = self[name]
        if node.alive and node.net.links.get(other) is link:
            del node.net.links[other]
            self.on(name, node.net.on_disconnected, other)
        self.at(self.rng.uniform(0.02, 0.3), self.try_connect, name, other)

    def start_node(self, name: str) -> None:
        if self[name].alive or name in self.outside:
            return
        try:
            self[name].boot()
        except Crash:
            self[name].drive.crash_at = 0
            self[name].drive.crash_power() if self.profile.power else self[name].drive.crash_process()
            self.at(0.1, self.start_node, name)
            return
        for other in self.names:
            if other != name:
                self.at(self.rng.uniform(0.0, 0.2), self.try_connect, *sorted((name, other)))

    # What the parts of a node ask for.

    def timer_set(self, env: LabEnv, at: float) -> None:
        self.at(max(0.0, at - self.now), self.timer_due, env)

    def timer_due(self, env: LabEnv) -> None:
        for name, node in self.nodes.items():
            if node.alive and node.env is env:
                self.on(name, env.fire_due)

    def disk_job(self, env: LabEnv) -> None:
        self.at(self.rng.expovariate(1 / self.profile.disk_s), self.disk_due, env)

    def disk_due(self, env: LabEnv) -> None:
        for name, node in self.nodes.items():
            if node.alive and node.env is env:
                self.on(name, env.do_disk_job)

    def sent(self, link: Link, sender: str) -> None:
        receiver = link.ends[1] if link.ends[0] == sender else link.ends[0]
        delay = self.profile.delay_s * (0.2 + self.rng.expovariate(1.0))
        if self.rng.random() < 0.005:
            delay += self.rng.uniform(0.0, 0.3)
        when = max(
            self.now + delay, self.link_free.get((id(link), sender), 0.0), self.stalled.get((sender, receiver), 0.0)
        )
        self.link_free[id(link), sender] = when
        self.at(when - self.now, self.arrive, link, sender, receiver)
        if self.profile.echoes and self.rng.random() < self.profile.echoes:
            again = when - self.now + self.rng.choice((0.02, ECHO_S)) * self.rng.random()
            self.at(again, self.on, receiver, self.echo, receiver, sender, link, link.queues[sender][-1])

    def arrive(self, link: Link, sender: str, receiver: str) -> None:
        if link.open and link.queues[sender]:
            payload = link.queues[sender].popleft()
            self.on(receiver, self.read, receiver, sender, link, payload)

    def read(self, receiver: str, sender: str, link: Link, payload: bytes) -> None:
        # What was in the socket when its connection broke is not read any more.
        if self[receiver].net.links.get(sender) is link:
            self[receiver].net.on_frame(sender, payload)

    def try_connect(self, a: str, b: str) -> None:
        if not self[a].alive or not self[b].alive or b in self[a].net.links or a in self[b].net.links:
            return
        if frozenset((a, b)) in self.apart or a in self.asleep or b in self.asleep:
            self.at(0.1, self.try_connect, a, b)
            return
        try:
            if not (self.calls(a, b) or self.calls(b, a)):
                if self[a].alive and self[b].alive and (b in self[a].net.known or a in self[b].net.known):
                    self.at(self.rng.uniform(0.1, 0.3), self.try_connect, a, b)
                return
            self.link(a, b)
        except Crash:
            dead = a if self[a].drive._life is None else b
            self.died(dead)

    # Faults.

    def plan(self) -> None:
        profile = self.profile
        kinds: list[tuple[float, Callable[[], None]]] = [
            (profile.proposals, self.some_proposal),
            (profile.crashes, self.some_crash),
            (profile.mid_crashes, self.some_mid_crash),
            (profile.pauses, self.some_pause),
            (profile.breaks, self.some_break),
            (profile.partitions, self.some_partition),
            (profile.stalls, self.some_stall),
            (profile.wipes, self.some_wipe),
            (profile.handovers, self.some_handover),
            (profile.changes, self.some_change),
            (profile.returns, self.some_return),
            (profile.failures, self.some_failure),
            (20.0, self.check_leases),
        ]
        for rate, fault in kinds:
            t = 1.0
            while rate and (t := t + self.rng.expovariate(rate)) < profile.duration_s:
                self.at(t, fault)

    def some(self) -> str:
        return self.rng.choice(self.names)

    def some_proposal(self) -> None:
        name = self.some()
        for candidate in self.names if self.rng.random() < 0.8 else (name,):
            node = self[candidate]
            if node.alive and node.raft.is_leader and candidate not in self.asleep:
                self.on(candidate, self.do_propose, candidate)

    def do_propose(self, name: str) -> None:
        command = b"%s-%d-" % (name.encode(), self.next_number())
        command += b"." * self.rng.choice((0, 10, 100, 300))
        index = self[name].raft.propose(command)
        if index is not None:
            self.ledger.proposed(name, index, self[name].raft.term, command)

    def some_crash(self) -> None:
        name = self.some()
        if self[name].alive:
            self.died(name)

    def some_mid_crash(self) -> None:
        drive = self[self.some()].drive
        drive.crash_at = drive.calls + self.rng.randint(1, 12)

    def some_pause(self) -> None:
        name = self.some()
        if name not in self.asleep and self[name].alive:
            self.asleep[name] = []
            self.at(self.rng.choice((0.05, 0.5, 1.5)) * self.rng.uniform(0.5, 1.5), self.wake, name)

    def wake(self, name: str) -> None:
        waiting = self.asleep.pop(name, [])
        # A loop looks at its timers before its sockets.
        waiting.sort(key=lambda job: getattr(job[0], "__name__", "") != "fire_due")
        for number, (fn, args) in enumerate(waiting, 1):
            self.unread[name] = {later[1] for read, later in waiting[number:] if read == self.read}
            self.on(name, fn, *args)

    def some_break(self) -> None:
        a, b = self.rng.sample(self.names, 2)
        if self[a].alive and self[b].alive and b in self[a].net.links and not {a, b} & set(self.asleep):
            link = self[a].net.links[b]
            link.open = False
            for me, other in ((a, b), (b, a)):
                self.at(self.rng.uniform(0.0, 0.02), self.lost_link, me, other, link)

    def some_partition(self) -> None:
        some = set(self.rng.sample(self.names, self.rng.randint(1, len(self.names) // 2)))
        pairs = {frozenset((a, b)) for a in some for b in self.names if b not in some}
        self.apart |= pairs
        for a, b in sorted(map(sorted, pairs)):
            if self[a].alive and self[b].alive and b in self[a].net.links and not {a, b} & set(self.asleep):
                self.cut(a, b)
        self.at(self.rng.uniform(0.2, 4.0), self.rejoin, pairs)

    def rejoin(self, pairs: set[frozenset[str]]) -> None:
        self.apart -= pairs
        for a, b in sorted(map(sorted, pairs)):
            self.at(self.rng.uniform(0.0, 0.2), self.try_connect, a, b)

    def some_stall(self) -> None:
        a, b = self.rng.sample(self.names, 2)
        self.stalled[a, b] = self.now + self.rng.uniform(0.1, 2.0)

    def some_wipe(self) -> None:
        """One disk is lost, while all others are members: no more than a minority at a time."""
        name = self.some()
        if self.profile.changes:
            leader = next((n for n in self.nodes.values() if n.alive and n.raft.has_fresh_majority()), None)
            if leader is None or len(leader.adapter._lists) > 1:
                return
            names = leader.adapter._members
        else:
            names = self.names
        nodes = [self[each] for each in names]
        minority = len(names) >= 3 or not self.profile.changes
        if minority and name in names and all(node.alive and node.storage.meta.joined for node in nodes):
            self.died(name)
            self.wipe(name)

    # Checks.

    def look(self) -> None:
        for name, node in self.nodes.items():
            if node.alive:
                self.ledger.check_log(name, node.storage.journal)

    def check_leases(self) -> None:
        """A leader that a majority answered lately is the newest one."""
        for name, node in self.nodes.items():
            if node.alive and name not in self.asleep and node.raft.has_fresh_majority():
                newest = max(self.ledger.leaders)
                if newest != node.raft.term:
                    self.ledger.fail(
                        "LeaseViolated",
                        f"{name} trusts its reign of term {node.raft.term} while term {newest} has a leader",
                    )

    def heal(self) -> None:
        self.calm = True
        self.apart.clear()
        self.stalled.clear()
        for node in self.nodes.values():
            node.drive.crash_at = 0
            if node.alive:
                node.machine.fails = False
        for name in list(self.asleep):
            self.wake(name)
        for name in self.names:
            self.start_node(name)
        for a, b in itertools.combinations(self.names, 2):
            self.at(0.01, self.try_connect, a, b)

    def converged(self) -> bool:
        leaders = [node for node in self.nodes.values() if node.alive and node.raft.is_leader]
        if len(leaders) != 1:
            return False
        members = self.members()
        if not all(node.alive for node in members):
            return False
        target = leaders[0].raft.status()
        return target["commit_index"] == target["last_index"] and all(
            node.raft.status()["applied_index"] == target["last_index"] and node.storage.meta.joined for node in members
        )

    def describe(self, name: str) -> str:
        node = self[name]
        if not node.alive:
            return f"{name} dead"
        status = node.raft.status()
        fields = ("role", "term", "leader", "member", "commit_index", "last_index", "snapshot_index")
        shown = " ".join(f"{field}={status[field]}" for field in fields)
        return f"{name} {','.join(node.adapter._members)} {shown} to={''.join(node.net.links)}"

    def run(self) -> None:
        """The whole run; ``ledger.violations`` says what was wrong."""
        self.advance(self.now + self.profile.duration_s)
        self.heal()
        end = self.now + HEAL_S
        while self.now < end and not self.ledger.violations and not self.converged():
            self.advance(self.now + 0.1)
        if self.ledger.violations:
            return
        if not self.converged():
            self.ledger.fail(
                "Stuck", f"not converged {HEAL_S:g} s after all is well: {[self.describe(name) for name in self.names]}"
            )
            return
        self.look()
        for node in self.members():
            self.ledger.check_state(node.name, node.raft.status()["applied_index"], node.machine.commands)
            self.ledger.check_kept(node.name, node.machine.commands)


def run_seed(seed: int, profile: str, adapter_class: type[Adapter] = Adapter, **changes: Any) -> Weather:
    weather = Weather(seed, replace(PROFILES[profile], **changes), adapter_class)
    with patch.object(snapsend, "PIECE_BYTES", weather.profile.piece_bytes):
        weather.run()
    return weather


def main() -> None:
    """``python -m tests.raft.sim PROFILE SEED``: one run, with the log of all nodes."""
    profile, seed = sys.argv[1], int(sys.argv[2])
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s", stream=sys.stdout)
    weather = run_seed(seed, profile)
    sys.stdout.write(f"{len(weather.ledger.acked)} acknowledged, {weather.ledger.elections} elections\n")
    for rule, what in weather.ledger.violations:
        sys.stdout.write(f"{rule}: {what}\n")
    sys.exit(1 if weather.ledger.violations else 0)


if __name__ == "__main__":
    main()
