"""A follower that was away for long gets a large snapshot over a slow link that breaks in the middle.

Knows: links, memory of processes, the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

import tenure
from cluster.env import boot_clock
from tests.faults.support_group import LinkedGroup, caught_up, said
from tests.support import eventually

VALUE = bytes(60_000)
RECORDS = 1_000
# More than the log keeps: the follower cannot be caught up from the log.
WRITES = 1_800
AT_ONCE = 16
STATE_BYTES = RECORDS * len(VALUE)
BYTES_PER_S = 6e6
TRANSFER_WITHIN_S = 120.0
# Besides the snapshot itself, which the leader reads once: what is under way, and the log that grows meanwhile.
MORE_MEMORY_BYTES = 200 << 20
SERVED_WITHIN_S = 5.0

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory of a process in /proc"),
]


def memory_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def _write(coordinator: tenure.Coordinator) -> None:
    for first in range(0, WRITES, AT_ONCE):
        keys = [f"state/{number % RECORDS}" for number in range(first, first + AT_ONCE)]
        await asyncio.gather(*(coordinator.aio.records.put(key, VALUE) for key in keys))


def test_a_large_snapshot_over_a_slow_link_that_breaks__E10(tmp_path: Path) -> None:
    with LinkedGroup(tmp_path) as group, tenure.connect(group.endpoints, timeout=60.0) as coordinator:
        leader, away = group.leader(), group.followers()[0]
        away.kill()
        asyncio.run(_write(coordinator))
        eventually(lambda: "raft.compacted" in leader.log(), 60.0, "the log is compacted")
        term = said(leader).term
        memory_before = memory_bytes(leader.pid)
        carried_before = group.links.carried[leader.address, away.address]
        group.links.throttle(leader.address, away.address, BYTES_PER_S)
        away.start()
        begun = boot_clock()

        def carried() -> int:
            return group.links.carried[leader.address, away.address] - carried_before

        memory, slowest_s = 0, 0.0

        def is_done() -> bool:
            nonlocal memory, slowest_s
            memory = max(memory, memory_bytes(leader.pid))
            asked = boot_clock()
            lease = coordinator.acquire("meanwhile", lease_time=60.0)
            slowest_s = max(slowest_s, boot_clock() - asked)
            assert lease is not None
            assert lease.release()
            return caught_up(group, away, all_but=100)

        eventually(lambda: is_done() or carried() > STATE_BYTES / 2, TRANSFER_WITHIN_S, "half of it is there")
        half = carried()
        assert group.links.cut(leader.address, away.address) > 0
        installed = "raft.snapshot_installed"
        eventually(lambda: is_done() or installed in away.log(), TRANSFER_WITHIN_S, f"it is all there\n{group.logs()}")
        # Without the log behind it, which may be half as large again.
        sent = carried()
        eventually(is_done, TRANSFER_WITHIN_S, f"the follower has caught up\n{group.logs()}")
        assert half > STATE_BYTES / 2
        assert sent < 1.4 * STATE_BYTES, f"{sent} bytes were sent: it went on where it was, and did not begin anew"
        assert slowest_s < SERVED_WITHIN_S, f"others waited for {slowest_s:.2f} s"
        assert memory - memory_before < STATE_BYTES + MORE_MEMORY_BYTES, f"{memory - memory_before} bytes more"
        assert said(leader).term == term, "nobody stood for election"
    sys.stderr.write(
        f"{sent / 1e6:.0f} MB in {boot_clock() - begun:.1f} s, slowest grant {slowest_s:.2f} s, "
        f"leader's memory +{(memory - memory_before) / 1e6:.0f} MB\n"
    )
