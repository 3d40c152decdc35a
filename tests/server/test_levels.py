"""A command of a newer format: the node that does not know it stops, before anything of it or after it is applied (E12, s16).

Knows: servers on the raft laboratory's logs. Must not know: what a newer format would say.

A node that went on would have another state than its newer neighbours, and say so in its snapshot for ever.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from cluster._table import LEVEL
from cluster.codec import pack
from cluster.errors import CoordinationError
from cluster.opcodes import Op
from cluster.ports import Env
from cluster.raft import snapshot
from cluster.raft.adapter import Adapter
from cluster.raft.commit import Poison
from cluster.server.batcher import batch_of
from cluster.server.server import Server
from tests.raft.lab import LabNode, World
from tests.raft.variants import PassesOver, variant

pytestmark = pytest.mark.fast

NEWER = bytes([LEVEL + 1]) + batch_of(pack([int(Op.TICK)]), 1, 5_000)[1:]


class Bound(Server):
    """A server that is given its log when there is one."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "raft":
            self.bind(value)


class NewRelease(Bound):
    """Knows one format level more, in which nothing is different."""

    def apply(self, index: int, term: int, command: bytes) -> None:
        super().apply(index, term, bytes([min(command[0], LEVEL)]) + command[1:])


class Group(World):
    """Nodes whose machine is the server, with its table. ``upgraded``: those that run a newer release."""

    def __init__(self, adapter: type[Adapter], upgraded: str) -> None:
        self._upgraded = upgraded
        super().__init__("ABC", adapter, compact_bytes=1, tail_bytes=0)

    def machine_of(self, node: LabNode) -> Any:
        server = NewRelease if node.name in self._upgraded else Bound
        return server(cast(Env, node.env), new_cluster_id=lambda: b"c" * 16, peers_wall_s=lambda: 1.0)


def grown(adapter: type[Adapter] = Adapter, upgraded: str = "") -> Group:
    """Three nodes in their first epoch, which A leads."""
    group = Group(adapter, upgraded)
    group.form("A")
    group.beat("A", "BC", 6)
    assert [table(group, name).epoch for name in "ABC"] == [group["A"].raft.term] * 3
    return group


def table(group: Group, name: str) -> Any:
    return cast(Any, group[name].machine).table


def told(group: Group, name: str) -> str:
    (why,) = group[name].fatal
    return why


def stops(group: Group, leader: str, others: str, index: int, state: bytes) -> None:
    """This leader commits what it does not know: it says why it stops, and has the state from before."""
    if not group[leader].raft.is_leader:
        group.elect(leader, others, and_no_more=True)
    group.beat(leader, others, 6)
    assert told(group, leader) == f"the raft group uses batch format level {LEVEL + 1}, this node knows {LEVEL}: upgrade it"
    assert table(group, leader).snapshot() == state
    group.work(leader)
    newest = group[leader].storage.snapshots.latest()
    assert newest is None or newest[0] < index, "no snapshot says that it was applied"
    assert group[leader].raft.propose(b"another") is None


def test_a_command_of_a_newer_format_stops_the_node_before_anything_after_it__E12() -> None:
    group = grown()
    state = table(group, "A").snapshot()
    # One acknowledgement commits both: the older one behind it must not be applied either.
    index = group["A"].raft.propose(NEWER)
    group["A"].raft.propose(batch_of(pack([int(Op.TICK)]), table(group, "A").epoch, 9_000))
    assert index is not None
    stops(group, "A", "BC", index, state)
    group.isolate("A")
    # The next leader has it in its log, and comes to the same end; also after a restart.
    stops(group, "B", "C", index, state)
    assert not group["C"].fatal, "nobody has told it that it is committed"
    group.kill("B")
    group["B"].fatal.clear()
    group.restart("B", "C")
    stops(group, "B", "C", index, state)


def s16_an_old_node_meets_a_new_command(adapter: type[Adapter]) -> Group:
    """A and B are upgraded; C is not. A name is granted in the newer format, and something is done in the older one."""
    group = grown(adapter, "AB")
    grant = pack([int(Op.ACQUIRE), b"a" * 16, b"job", 60_000, 1, 0, 0, b"test:1", b""])
    epoch = table(group, "A").epoch
    assert group["A"].raft.propose(bytes([LEVEL + 1]) + batch_of(grant, epoch, 5_000)[1:]) is not None
    group["A"].raft.propose(batch_of(pack([int(Op.TICK)]), epoch, 6_000))
    group.beat("A", "BC", 6)
    return group


def test_no_node_goes_on_with_another_state__s16() -> None:
    whole = s16_an_old_node_meets_a_new_command(Adapter)
    assert table(whole, "A").snapshot() == table(whole, "B").snapshot()
    assert "upgrade it" in told(whole, "C")
    assert whole["C"].raft.status()["applied_index"] < whole["B"].raft.status()["applied_index"]
    passed = s16_an_old_node_meets_a_new_command(variant({Poison: PassesOver}))
    assert not passed["C"].fatal
    assert len({passed[name].raft.status()["applied_index"] for name in "ABC"}) == 1
    assert table(passed, "A").snapshot() == table(passed, "B").snapshot() != table(passed, "C").snapshot()


def test_a_group_that_was_raised_leaves_an_older_node_behind__E12() -> None:
    group = grown()
    epoch = table(group, "A").epoch
    group["A"].raft.propose(batch_of(pack([int(Op.FORMAT_LEVEL), LEVEL + 1]), epoch, 5_000))
    group.beat("A", "BC", 6)
    assert [table(group, name).level for name in "ABC"] == [LEVEL + 1] * 3
    state = table(group, "A").snapshot()
    index = group["A"].raft.propose(batch_of(pack([int(Op.TICK)]), epoch, 9_000))
    assert index is not None
    stops(group, "A", "BC", index, state)


def test_a_snapshot_of_a_newer_format_is_not_loaded__E12() -> None:
    group = grown()
    node = group["A"]
    state = table(group, "A").snapshot()
    newer = state.replace(b"tenure table" + bytes([LEVEL]), b"tenure table" + bytes([LEVEL + 1]))
    assert newer != state
    index, term = node.last, node.raft.term
    node.storage.snapshots.save(index, term, snapshot.encode(index, term, "ABC", newer), lambda error: None)
    group.work("A")
    group.kill("A")
    with pytest.raises(CoordinationError, match=f"not a snapshot of a lease table of level {LEVEL} or below"):
        node.boot()
