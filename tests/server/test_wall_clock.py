"""A wall clock that tokens cannot begin at forms no raft group: the node says so, and serves nothing (I2).

Knows: one process without a network, a real node, servers on the raft laboratory's logs. Must not know: how tokens are counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from cluster.address import Address
from cluster.env import RealEnv
from cluster.errors import CoordinationError
from cluster.limits import WALL_MAX_MS
from cluster.local import LocalNode
from cluster.node import Node, NodeConfig
from cluster.opcodes import Status
from cluster.ports import Env, Hello
from tests.raft.lab import LabNode, World
from tests.server.test_levels import Bound

pytestmark = pytest.mark.fast

NONE_TO_BEGIN_WITH = [4294967296.0, -5.0, -0.001, 2.0**64 / 1000]


class Group(World):
    """Nodes whose machine is the server: each asks its own raft node for the wall clocks, as a real one does."""

    def __init__(self, cluster_id: bytes = b"c" * 16, connect: bool = True) -> None:
        self._cluster_id = cluster_id
        super().__init__("ABC", connect=connect)

    def machine_of(self, node: LabNode) -> Any:
        def wall_s() -> float:
            return max(node.env.wall(), node.raft.peers_wall_ms() / 1000)

        return Bound(cast(Env, node.env), new_cluster_id=lambda: self._cluster_id, peers_wall_s=wall_s)

    def server(self, name: str) -> Any:
        return self[name].machine


def set_wall(group: Group, name: str, wall_s: float) -> None:
    group[name].env.wall = lambda: wall_s  # type: ignore[method-assign]


def test_one_process_whose_clock_is_none_to_begin_with_does_not_begin__I2() -> None:
    async def begin(wall_s: float) -> int:
        env = RealEnv(asyncio.get_running_loop())
        env.wall = lambda: wall_s
        try:
            node = LocalNode(env)
            for _ in range(20):
                await asyncio.sleep(0)
            assert node.server.table.cluster_id
            node.close()
            return int(node.server.table.next_token)
        finally:
            env.close()

    for wall_s in NONE_TO_BEGIN_WITH:
        with pytest.raises(CoordinationError, match="Set the clock of this machine"):
            asyncio.run(begin(wall_s))
    assert asyncio.run(begin(0.0)) == 1
    assert asyncio.run(begin(WALL_MAX_MS // 1000)) == (WALL_MAX_MS // 1000) << 21


@pytest.mark.core
def test_a_node_whose_clock_is_none_to_begin_with_stops_with_one_line__I2(tmp_path: Path) -> None:
    async def begin(wall_s: float) -> tuple[list[str], bool, bool]:
        env = RealEnv(asyncio.get_running_loop())
        env.wall = lambda: wall_s
        said: list[str] = []
        config = NodeConfig(Address.parse(f"unix:{tmp_path}/node"), single=True, ephemeral=True)
        node = await Node.start(env, config, said.append)
        try:
            with pytest.raises(CoordinationError, match="Set the clock"):
                await node.ready(10.0)
            return said, node.server.batcher.serving, bool(node._storage.meta.joined)
        finally:
            node.close()
            await node.net.wait_closed()
            env.close()

    for wall_s in NONE_TO_BEGIN_WITH[:3]:
        (why,), serving, joined = asyncio.run(begin(wall_s))
        assert why.startswith(f"the wall clock says {wall_s:.0f} s since 1970")
        assert not serving
        assert not joined


@pytest.mark.parametrize("wall_s", NONE_TO_BEGIN_WITH)
def test_a_member_whose_clock_is_none_to_begin_with_forms_no_group_until_it_is_set__I2(wall_s: float) -> None:
    group = Group(connect=False)
    for name in "ABC":
        group[name].boot()
    set_wall(group, "B", wall_s)
    for a, b in ("AB", "BC", "AC"):
        group.link(a, b)
    (why,) = group["B"].fatal
    assert "Set the clock of this machine" in why
    assert not group["B"].storage.meta.joined
    assert not group["A"].fatal + group["C"].fatal
    group.kill("B")
    group["B"].fatal.clear()
    group.restart("B", "AC")
    group.form("A")
    group.beat("A", "BC", 6)
    begins = int(1_700_000_000.0 + group.now - 60) << 21
    assert [group.server(name).table.cluster_id for name in "ABC"] == [b"c" * 16] * 3
    assert all(begins < group.server(name).table.next_token < begins + (60 << 21) for name in "ABC")


@pytest.mark.parametrize("said", [2**63, 2**64 - 1, WALL_MAX_MS + 1, -1, -(2**63)])
def test_a_peer_that_says_an_impossible_time_takes_no_token_away__I2(said: int) -> None:
    group = Group()
    hello = group["B"].hello()
    group["A"].adapter._peers["B"].hello = Hello(
        "peer", "B", hello.incarnation, hello.cluster_id, {**hello.info, "wall_ms": said}
    )
    group.form("A")
    group.beat("A", "BC", 6)
    assert not group["A"].fatal
    begins = int(1_700_000_000.0 + group.now - 60) << 21
    assert begins < group.server("A").table.next_token < begins + (60 << 21)


@pytest.mark.parametrize("said", [WALL_MAX_MS - 2_999, 2**63, -1, -(2**63)])
def test_peers_wall_ms_passes_over_a_time_that_no_group_can_begin_with__I2(said: int) -> None:
    w = World("ABC")
    hello = w["B"].hello()
    w["A"].adapter._peers["B"].hello = Hello(
        "peer", "B", hello.incarnation, hello.cluster_id, {**hello.info, "wall_ms": said}
    )
    w.now += 3.0
    assert w["A"].raft.peers_wall_ms() == int((1_700_000_000.0 + w.now) * 1000)
    if said > 0:
        w["A"].adapter._peers["B"].hello.info["wall_ms"] = WALL_MAX_MS - 3_000
        assert w["A"].raft.peers_wall_ms() == WALL_MAX_MS


def _clock_was_set(group: Group) -> None:
    set_wall(group, "A", 4294967296.0)


def _nothing_else(group: Group) -> None:
    pass


@pytest.mark.parametrize(
    ("cluster_id", "meanwhile", "says"),
    [
        (b"c" * 16, _clock_was_set, "Set the clock of this machine"),
        (b"too short", _nothing_else, f"INIT was answered with {int(Status.INVALID)}"),
    ],
)
def test_a_raft_leader_that_cannot_begin_serves_nothing__I2(
    cluster_id: bytes, meanwhile: Callable[[Group], None], says: str
) -> None:
    group = Group(cluster_id)
    meanwhile(group)
    with pytest.raises(AssertionError, match="A was not elected"):
        # It was, and has stopped within.
        group.elect("A", "BC")
    (why,) = group["A"].fatal
    assert says in why
    assert not group.server("A").batcher.serving
    assert not group["A"].raft.is_leader
    assert not group["B"].fatal + group["C"].fatal, "another one, whose clock is right, may begin"
