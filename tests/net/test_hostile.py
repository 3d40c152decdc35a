"""A real raft group under hostile input: no code runs, memory stays bounded, whoever is honest is served (G5, G6).

Knows: processes, what the system counts of them. Must not know: the product's inside.
"""

from __future__ import annotations

import functools
import os
import random
import resource
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

import tenure
from cluster.env import boot_clock
from cluster.limits import UNAUTHENTICATED_MAX
from cluster.sockets import allow_descriptors
from tests.net.attackers import babble, call, deaf, half_open, messages, refusal_of, say_and_listen, unfinished
from tests.net.siege import Siege
from tests.support import eventually
from tests.support_cluster import NodeGroup

RSS_MAX_KB = 300 * 1024
GRANT_MAX_S = 1.0
GRANTS = 20
GRANTS_WITHIN_S = 60.0
# More than are closed for being silent, a thousand in HANDSHAKE_TIMEOUT_S: so the oldest go for the newest, and as many always stand.
SILENT_PER_S = 400
SPARE = 200
# What has been accepted and what has been closed is not seen in one moment.
STANDING = UNAUTHENTICATED_MAX - 20
STANDS_WITHIN_S = 60.0
DRIPS = 200
GARBAGE_PER_S = 100
DEAF = 40
HALF_OPEN = 20
LEASES = 250
DESCRIPTORS = 3 * (UNAUTHENTICATED_MAX + SPARE + DRIPS + GARBAGE_PER_S + 2 * DEAF + HALF_OPEN) + 500
CAME_LEAST = {
    "silent": UNAUTHENTICATED_MAX,
    "drip": DRIPS,
    "garbage": 100,
    "deaf": DEAF,
    "unfinished": DEAF,
    "half open": HALF_OPEN,
}


def peak_kb(pid: int) -> int:
    """The most memory that a process has had at a time."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")


def sockets_of(pid: int) -> int:
    """How many sockets a process has open."""
    count = 0
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        # It may be closed meanwhile.
        with suppress(FileNotFoundError):
            count += os.readlink(descriptor).startswith("socket:")
    return count


def test_what_strangers_say_first_is_refused_and_runs_nothing__G6(tmp_path: Path) -> None:
    bomb = tmp_path / "the bomb went off"
    with NodeGroup(tmp_path, size=1) as group:
        (node,) = group.nodes
        codes = [
            refusal_of(say_and_listen(node.address, said))
            for said in messages(bomb, random.Random(6))
            if len(said) >= 4
        ]
        assert set(codes) <= {"protocol", "member", "identity", "tls", ""}
        assert codes.count("protocol") + codes.count("tls") > len(codes) * 3 // 4
        with tenure.connect(node.address) as coordinator:
            assert coordinator.acquire("after") is not None
        assert "Traceback" not in node.log()
    assert not bomb.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")
def test_a_group_under_siege_grants_within_a_second_and_stays_small__G5(tmp_path: Path) -> None:
    """Per node a thousand silent connections that stand while grants are timed; then besides two hundred slow ones, a flood of pickles,
    random bytes and 4 GiB headers, forty known clients that ask and do not read, forty that never finish a frame, and half-open ones."""
    allow_descriptors(DESCRIPTORS)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < DESCRIPTORS:
        pytest.skip(f"the siege needs {DESCRIPTORS} file descriptors, and this process may have {limit}")
    bomb = tmp_path / "the bomb went off"
    with NodeGroup(tmp_path) as group, tenure.connect(group.endpoints) as coordinator:
        text = {"text": "x" * 4000}
        held: list[Any] = [
            coordinator.acquire(f"held/{number}", metadata=text, lease_time=600) for number in range(LEASES)
        ]
        assert all(held)
        before = {node.address: sockets_of(node.pid) for node in group.nodes}

        def stands() -> bool:
            """Whether each node has as many strangers as it takes, none of which was there before the siege."""
            return all(sockets_of(node.pid) - before[node.address] >= STANDING for node in group.nodes)

        with Siege().laid() as siege:
            for node in group.nodes:
                silent = functools.partial(call, node.address)
                siege.flood("silent", [silent], SILENT_PER_S, UNAUTHENTICATED_MAX + SPARE)
            eventually(stands, STANDS_WITHIN_S, "a thousand silent connections on every node")
            among_the_silent = _grants(group.endpoints, coordinator, "silent", stands)
            for number, node in enumerate(group.nodes):
                _besiege(siege, node.address, number, bomb)
            among_all = _grants(group.endpoints, coordinator, "all", stands)
            siege.wait()
            leader = group.leader()
            eventually(
                lambda: "budget.exceeded what=unread answers" in leader.log(), 30.0, "who does not read is closed"
            )
            afterwards = _grants(group.endpoints, coordinator, "afterwards", stands)
            peaks = {node.address: peak_kb(node.pid) for node in group.nodes}
        assert not siege.faults, siege.faults
        for what, least in CAME_LEAST.items():
            assert siege.came[what] >= least * len(group.nodes), (siege.came, siege.turned_away)
        for took in (among_the_silent, among_all, afterwards):
            assert max(took) < GRANT_MAX_S, sorted(took)
        assert max(peaks.values()) < RSS_MAX_KB, peaks
        assert all(lease.release() for lease in held[:5]), "what was held is held"
        assert not [node.address for node in group.nodes if "Traceback" in node.log()], group.logs()
    assert not bomb.exists()


def _besiege(siege: Siege, address: str, number: int, bomb: Path) -> None:
    said = messages(bomb, random.Random(number))
    siege.flood("garbage", [functools.partial(babble, address, text) for text in said], GARBAGE_PER_S, GARBAGE_PER_S)
    siege.drip(address, DRIPS)
    for index in range(DEAF):
        client = 1_000 * number + index
        siege.lead("deaf", functools.partial(deaf, address, client, 12))
        siege.lead("unfinished", functools.partial(unfinished, address, 500 + client))
    for _ in range(HALF_OPEN):
        siege.lead("half open", functools.partial(half_open, address))


def _grants(endpoints: str, coordinator: tenure.Coordinator, name: str, stands: Callable[[], bool]) -> list[float]:
    """How long each of some grants took that began and ended while the strangers stood; every other one to a client that has just come."""
    took: list[float] = []
    counted = 0
    until = boot_clock() + GRANTS_WITHIN_S
    while counted < GRANTS:
        assert boot_clock() < until, f"only {counted} of {len(took)} grants were made while the strangers stood"
        stood = stands()
        before = boot_clock()
        with tenure.connect(endpoints) if len(took) % 2 else nullcontext(coordinator) as client:
            lease = client.acquire(f"{name}/{len(took)}", timeout=20)
            took.append(boot_clock() - before)
            assert lease is not None
            assert lease.release()
        counted += stood and stands()
    return took
