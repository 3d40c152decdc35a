"""An idle raft group costs next to nothing.

Knows: what the system counts of a process. Must not know: the product's inside.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import tenure
from cluster.env import boot_clock
from tests.support import eventually
from tests.support_cluster import NodeGroup

WATCHED_S = 8.0
LEASES = 1_000


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the process times of /proc")
def test_an_idle_node_takes_less_than_one_percent_of_a_core(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group, tenure.connect(group.endpoints) as coordinator:
        for number in range(LEASES):
            assert coordinator.acquire(f"idle/{number}", lease_time=3600.0) is not None
        settled = boot_clock() + 1.0
        eventually(lambda: boot_clock() >= settled, 5.0)
        before = {node.address: cpu_seconds(node.pid) for node in group.nodes}
        begun = boot_clock()
        eventually(lambda: boot_clock() >= begun + WATCHED_S, WATCHED_S + 5.0)
        lasted = boot_clock() - begun
        used = {node.address: (cpu_seconds(node.pid) - before[node.address]) / lasted for node in group.nodes}
        assert max(used.values()) < 0.01, {address: f"{share:.2%}" for address, share in used.items()}
        assert sum(1 for _ in coordinator.leases("idle/")) == LEASES
