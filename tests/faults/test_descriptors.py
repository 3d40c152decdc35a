"""Strangers use up the file descriptors of a node: it takes part in an election all the same, and its door is open again afterwards.

Knows: limits of a process, sockets. Must not know: the product's inside.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

import pytest

import tenure
from tests.faults.support_machine import descriptors_limited, open_descriptors
from tests.support import eventually
from tests.support_cluster import NodeGroup

MORE = 24
STRANGERS = 120


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sets another process's limits, which only Linux does")
def test_descriptors_run_out_and_come_back__E14_G5(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group, tenure.connect(group.endpoints, timeout=20.0) as coordinator:
        lease = coordinator.acquire("job", lease_time=60.0)
        assert lease is not None
        leader, victim = group.leader(), group.followers()[0]
        limit = open_descriptors(victim.pid) + MORE
        host, _, port = victim.address.rpartition(":")
        with descriptors_limited(victim.pid, limit), contextlib.ExitStack() as strangers:
            for _ in range(STRANGERS):
                strangers.enter_context(socket.create_connection((host, int(port)), timeout=10.0))
            # Whoever was let in got a descriptor; the rest stands at the door, and the last descriptors are not for them.
            eventually(lambda: open_descriptors(victim.pid) > limit - MORE, 10.0, "strangers were let in")
            # Without its vote, which it has to write down in a new file, there is no other leader.
            leader.kill()
            other = coordinator.acquire("other", lease_time=60.0)
            assert other is not None
            assert other.release()
            assert open_descriptors(victim.pid) <= limit
            assert victim.alive
        leader.start()
        with tenure.connect(victim.address, timeout=20.0) as newcomer:
            assert newcomer.acquire("job") is None
        assert lease.release()
