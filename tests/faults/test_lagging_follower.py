"""Reads beside a follower that lags behind the raft leader: what was written before is seen, and what has expired is free.

Knows: links, the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

from pathlib import Path

import tenure
from tests.faults.support_group import LinkedGroup, said, wait
from tests.support import eventually

LEASE_S = 1.0
LAG_S = 0.8
ROUNDS = 5


def test_reads_by_a_lagging_follower__E16(tmp_path: Path) -> None:
    with LinkedGroup(tmp_path, options=("--durability", "process", "--election-timeout", "2")) as group:
        leader, lagging = group.leader(), group.followers()[0]
        # What the leader tells it comes late, and its answers do. It votes for nobody meanwhile, since it hears its leader.
        group.links.delay(leader.address, lagging.address, LAG_S)
        lagged = 0
        with (
            tenure.connect(leader.address, timeout=20.0) as writer,
            tenure.connect(lagging.address, timeout=20.0) as reader,
        ):
            for turn in range(ROUNDS):
                lease = writer.acquire("job", lease_time=60.0)
                assert lease is not None
                written = writer.records.put("last", str(turn).encode(), lease=lease)
                lagged += said(lagging).applied_index < said(leader).applied_index
                assert reader.records.get("last") == written
                state = reader.state("job", consistent=True)
                assert state.leader is not None
                assert state.leader.token == lease.token
                assert lease.release()
                assert reader.state("job", consistent=True).leader is None

            assert lagged, "nothing was shown: the follower never lagged"
            short = writer.acquire("short", lease_time=LEASE_S)
            assert short is not None
            wait(LEASE_S)
            eventually(lambda: short.confidence == "lost", 5.0, "its holder knows that it is over")
            # Nothing else happens in this group: nobody has proposed anything since, and the name is free nevertheless.
            eventually(lambda: reader.state("short").leader is None, 5.0, "an expired lease is not shown")
            taken = reader.acquire("short", lease_time=60.0)
            assert taken is not None
            assert taken.token > short.token
            assert taken.release()
