"""Faults that meet a node just while it catches up: in the middle of a snapshot, or when it has no memory and is no member yet.

Knows: how to bring that about, and what may happen then. Must not know: what would go wrong if a rule were broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.sim.kinds import Count, Fault
from tests.sim.node import SimNode, restarted
from tests.sim.plots import both_ways, cut_for, find_leader

if TYPE_CHECKING:
    from tests.sim.world import World

LOOK_S = 0.003
SLOW_S = 0.03
NEVER_COMPACTS_BYTES = 1 << 20


async def _until(world: World, true: Callable[[], bool], within_s: float) -> bool:
    until = world.loop.time() + within_s
    while not true():
        if world.loop.time() >= until:
            return False
        await asyncio.sleep(LOOK_S)
    return True


def _receives(leader: SimNode, node: SimNode) -> bool:
    """Whether a part of a snapshot has arrived there, and not yet all."""
    if not (leader.up and node.up and leader.adapter.is_leader):
        return False
    under_way = any(peer.id.startswith(node.name + ":") and peer.transfer for peer in leader.adapter._others)
    return under_way and bool(node.adapter._arrived)


async def _something_happens(world: World, count: Count, leader: SimNode, node: SimNode) -> None:
    """To the one or the other: it is gone, stands still, is cut off, or somebody else shall lead."""
    rng = world.rng
    victim = rng.choice([leader, node])
    what = rng.choice(["crash", "power cut", "pause", "isolate", "reset", "handover"])
    if what == "handover":
        if leader.node is not None:
            count(what, leader)
            leader.node.raft.transfer(None)
        return
    count(what, victim)
    if what in ("crash", "power cut"):
        victim.crash(power=what == "power cut")
        await asyncio.sleep(rng.choice([0.02, 0.9]))
        await restarted(victim)
    elif what == "pause":
        victim.host.pause()
        await asyncio.sleep(rng.uniform(0.1, 1.2))
        victim.host.resume()
    elif what == "isolate":
        others = [host.name for host in world.hosts() if host is not victim.host]
        await cut_for(world, both_ways([victim.name], others), rng.uniform(0.2, 1.2))
    else:
        world.network.reset(leader.name, node.name)


async def broken_transfer(world: World, count: Count) -> None:
    """A follower is away until the others' log begins later than its own ends; in the middle of the snapshot something happens."""
    leader = await find_leader(world, 1.0)
    others = [node for node in world.nodes if node is not leader and node.member]
    if leader is None or not others or world.shape.compact_bytes >= NEVER_COMPACTS_BYTES:
        return
    node = world.rng.choice(others)
    count("broken transfer", node)
    away = both_ways([node.name], [other.name for other in world.nodes if other is not node])
    cut = asyncio.ensure_future(cut_for(world, away, 4.0))
    before = leader.adapter._first if leader.up else 0
    await _until(world, lambda: leader.up and leader.adapter._first > before + 1, 3.5)
    await cut
    now = await find_leader(world, 1.0)
    if now is None or now is node:
        return
    world.network.slow(now.name, node.name, SLOW_S)
    if await _until(world, lambda: _receives(now, node), 1.5):
        await _something_happens(world, count, now, node)
    world.network.slow(now.name, node.name, 0.0)


async def broken_joining(world: World, count: Count) -> None:
    """A node comes back without its data; before it is a member something happens."""
    leader = await find_leader(world, 1.0)
    if leader is None or not world.whole:
        return
    node = world.rng.choice([node for node in world.nodes if node is not leader])
    count("broken joining", node)
    node.wipe()
    world.network.slow(leader.name, node.name, SLOW_S)
    await asyncio.sleep(world.rng.uniform(0.0, 0.2))
    await restarted(node)
    await asyncio.sleep(world.rng.uniform(0.0, 0.08))
    if node.up and not node.member:
        await _something_happens(world, count, leader, node)
    world.network.slow(leader.name, node.name, 0.0)


FAULTS: tuple[Fault, ...] = (
    Fault(("broken transfer",), 2, broken_transfer),
    Fault(("broken joining",), 1, broken_joining),
)
