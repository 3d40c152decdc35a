"""A real raft group under hostile input: no code runs, memory stays bounded, whoever is honest is served (G5, G6).

Knows: processes, what the system counts of them. Must not know: the product's inside.
"""

from __future__ import annotations

import functools
import os
import random
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

import tenure
from cluster.env import boot_clock
from cluster.sockets import allow_descriptors
from tests.net.attackers import Siege, call, deaf, half_open, messages, refusal_of, say_and_listen, unfinished
from tests.support import eventually
from tests.support_cluster import NodeGroup

RSS_MAX_KB = 300 * 1024
GRANT_MAX_S = 1.0
SILENT = 1_000
DEAF = 40
LEASES = 250


def peak_kb(pid: int) -> int:
    """The most memory that a process has had at a time."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise AssertionError("no VmHWM")


def test_what_strangers_say_first_is_refused_and_runs_nothing__G6(tmp_path: Path) -> None:
    bomb = tmp_path / "the bomb went off"
    with NodeGroup(tmp_path, size=1) as group:
        (node,) = group.nodes
        codes = [refusal_of(say_and_listen(node.address, said)) for said in messages(bomb, random.Random(6)) if len(said) >= 4]
        assert set(codes) <= {"protocol", "member", "identity", "tls", ""}
        assert codes.count("protocol") + codes.count("tls") > len(codes) * 3 // 4
        with tenure.connect(node.address) as coordinator:
            assert coordinator.acquire("after") is not None
        assert "Traceback" not in node.log()
    assert not bomb.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of processes from /proc")
def test_a_group_under_siege_grants_within_a_second_and_stays_small__G5(tmp_path: Path) -> None:
    """Per node: a thousand silent connections, forty known clients that ask and do not read, forty that never finish a frame, half-open
    ones, slow ones, pickles, random bytes, 4 GiB headers."""
    allow_descriptors(3 * SILENT + 1_000)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    silent = min(SILENT, (limit - 700) // 3)
    bomb = tmp_path / "the bomb went off"
    siege = Siege()
    with NodeGroup(tmp_path) as group, tenure.connect(group.endpoints) as coordinator:
        text = {"text": "x" * 4000}
        held: list[Any] = [
            coordinator.acquire(f"held/{number}", metadata=text, lease_time=600) for number in range(LEASES)
        ]
        assert all(held)
        try:
            for number, node in enumerate(group.nodes):
                _besiege(siege, node.address, number, silent, bomb)
            siege.drip([node.address for node in group.nodes])
            under_fire = _grants(coordinator, "during", 20)
            siege.wait()
            leader = group.leader()
            eventually(lambda: "budget.exceeded what=unread answers" in leader.log(), 30.0, "who does not read is closed")
            afterwards = _grants(coordinator, "after", 20)
            peaks = {node.address: peak_kb(node.pid) for node in group.nodes}
        finally:
            siege.close()
        assert not siege.faults, siege.faults
        for took in (under_fire, afterwards):
            assert sorted(took)[len(took) * 9 // 10] < GRANT_MAX_S, sorted(took)
        assert max(peaks.values()) < RSS_MAX_KB, peaks
        assert all(lease.release() for lease in held[:5]), "what was held is held"
        assert not [node.address for node in group.nodes if "Traceback" in node.log()], group.logs()
    assert not bomb.exists()
    assert os.listdir(tmp_path)


def _besiege(siege: Siege, address: str, number: int, silent: int, bomb: Path) -> None:
    said = messages(bomb, random.Random(number))
    siege.lead("silent", lambda: [call(address) for _ in range(silent)])
    siege.lead("half open", lambda: [half_open(address) for _ in range(20)])
    siege.lead("babble", lambda: [caller for text in said for caller in _say(address, text)])
    for index in range(DEAF):
        client = 1_000 * number + index
        siege.lead("deaf", functools.partial(_one, deaf, address, client, 12))
        siege.lead("unfinished", functools.partial(_one, unfinished, address, 500 + client))


def _one(make: Any, *args: Any) -> list[Any]:
    return [make(*args)]


def _say(address: str, text: bytes) -> list[Any]:
    caller = call(address)
    caller.sendall(text)
    return [caller]


def _grants(coordinator: tenure.Coordinator, name: str, count: int) -> list[float]:
    """How long each of some grants took."""
    took = []
    for number in range(count):
        before = boot_clock()
        lease = coordinator.acquire(f"{name}/{number}", timeout=20)
        took.append(boot_clock() - before)
        assert lease is not None
    return took
