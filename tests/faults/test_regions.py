"""Nodes in three regions, 100 ms round trip between any two: a stable raft leader, grants, a failover, consistent reads.

Knows: links, the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

import tenure
from cluster.embedded import ELECTIONS
from cluster.env import boot_clock
from tests.faults.support_group import LinkedGroup, said

ONE_WAY_S = 0.05
ROUNDS = 20
# The rhythm that is documented for it.
SHORTEST_S, LONGEST_S, _ = ELECTIONS["region"]
# The longest patience, two round trips for votes and one for the first entry; and the machine may be busy.
FAILOVER_S = LONGEST_S + 6 * ONE_WAY_S + 5.0


@pytest.mark.long
def test_a_group_in_three_regions__E16_A4(tmp_path: Path) -> None:
    options = ("--durability", "process", "--election-timeout", str(SHORTEST_S))
    with (
        LinkedGroup(tmp_path, options=options, delay_s=ONE_WAY_S) as group,
        tenure.connect(group.endpoints, timeout=30.0) as coordinator,
    ):
        kept = coordinator.acquire("kept", lease_time=600.0)
        assert kept is not None
        leader = group.leader()
        term = said(leader).term
        took_s = []
        for _ in range(ROUNDS):
            begun = boot_clock()
            lease = coordinator.acquire("job", lease_time=60.0)
            took_s.append(boot_clock() - begun)
            assert lease is not None
            assert lease.release()
        assert said(leader).term == term, f"nobody stood for election\n{group.logs()}"
        assert min(took_s) >= 2 * ONE_WAY_S, "a grant takes a round trip to a majority"

        leader.kill()
        killed_at = boot_clock()
        after = coordinator.acquire("job", lease_time=60.0)
        failover_s = boot_clock() - killed_at
        assert after is not None
        assert after.token > kept.token
        assert failover_s < FAILOVER_S, f"{failover_s:.2f} s\n{group.logs()}"
        state = coordinator.state("kept", consistent=True)
        assert state.leader is not None
        assert state.leader.token == kept.token
        assert after.release()
        assert kept.release()
    sys.stderr.write(f"a grant: {1000 * statistics.median(took_s):.0f} ms, failover: {failover_s:.2f} s\n")
