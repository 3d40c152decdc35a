"""What an epoch entry does to time: nothing. Played with the server itself, on the raft laboratory's logs (B4, I3).

Knows: servers that lead one after the other, the moment at which each applied what. Must not know: how a stamp is found.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from cluster.codec import pack
from cluster.opcodes import Op
from cluster.server.batcher import batch_of
from cluster.server.server import Server
from tests.server.test_levels import Group, grown, table
from tests.sim.mutants import epoch_entry_is_a_base

pytestmark = pytest.mark.fast

ROUNDING_MS = 2


def server(group: Group, name: str) -> Server:
    return cast(Server, group[name].machine)


def tick(group: Group, leader: str, followers: str) -> int:
    """A batch of this leader, applied by all; the cluster time that it brought."""
    server(group, leader).batcher.submit(pack([int(Op.TICK)]), lambda answer: None)
    group[leader].env.run_soon()
    group.beat(leader, followers, 2)
    times: set[int] = {table(group, name).time_ms for name in leader + followers}
    assert len(times) == 1
    return times.pop()


def elections_in_a_row(rounds: int = 3) -> tuple[float, float]:
    """Nothing but elections, one a second or so, and at the end a batch. What passed of real time, and of cluster time, in milliseconds."""
    group = grown()
    before_ms = tick(group, "A", "BC")
    began = group.now  # The followers have just applied it; A did so a little before.
    leaders = ["B", "C", "A"] * rounds
    for leader in leaders:
        others = "ABC".replace(leader, "")
        epoch = table(group, leader).epoch
        group.elect(leader, others)
        group.beat(leader, others, 2)
        assert table(group, leader).epoch > epoch, "its epoch entry is applied"
        assert table(group, leader).time_ms == before_ms, "an epoch entry moves no time"
    stamped = group.now
    return (stamped - began) * 1000, tick(group, leaders[-1], "ABC".replace(leaders[-1], "")) - before_ms


def test_elections_in_a_row_do_not_stretch_leases__B4() -> None:
    real_ms, cluster_ms = elections_in_a_row()
    assert real_ms > 6_000
    assert real_ms - ROUNDING_MS <= cluster_ms <= real_ms + 500, (
        "all of it passed: the followers knew the last batch when it began"
    )


def test_without_the_rule_time_stands_still_from_the_last_batch_to_each_epoch_entry__B4() -> None:
    with epoch_entry_is_a_base():
        real_ms, cluster_ms = elections_in_a_row()
    assert cluster_ms < real_ms - 5_000


def test_a_batch_of_a_past_epoch_is_no_base_either__I3() -> None:
    group = grown()
    before_ms = tick(group, "A", "BC")
    epoch, began = table(group, "A").epoch, group.now
    group.elect("B", "AC")
    group.beat("B", "AC", 2)
    group.now += 1.0
    # A deposed leader's batch that comes late: refused whole by every node, and the clock of whoever leads next does not begin with it.
    group["B"].raft.propose(batch_of(pack([int(Op.TICK)]), epoch, before_ms + 600_000))
    group.beat("B", "AC", 2)
    late: Any = {table(group, name).time_ms for name in "ABC"}
    assert late == {before_ms}
    group.elect("C", "AB")
    group.beat("C", "AB", 2)
    real_ms = (group.now - began) * 1000
    cluster_ms = tick(group, "C", "AB") - before_ms
    assert real_ms - ROUNDING_MS <= cluster_ms <= real_ms + 500
