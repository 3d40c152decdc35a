"""Faults of several steps, each made to bring about one situation that chance brings too seldom.

Knows: what must happen in which order. Must not know: what would go wrong if a rule were broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.sim.node import SimNode, restarted
from tests.sim.violation import Violation
from tests.sim.world import World

Count = Callable[..., None]
STEP_DOWN_S = 1.5
"""Two election timeouts and a heartbeat."""


async def _leader(world: World, within_s: float) -> SimNode | None:
    until = world.loop.time() + within_s
    while world.loop.time() < until:
        leader = world.leader()
        if leader is not None:
            return leader
        await asyncio.sleep(0.02)
    return None


async def _hand_to(world: World, target: SimNode) -> bool:
    """Make it the raft leader, if it can be."""
    for _ in range(5):
        leader = await _leader(world, 1.0)
        if leader is target:
            return True
        if leader is not None and leader.node is not None:
            leader.node.raft.transfer(f"{target.name}:7001")
        await asyncio.sleep(0.2)
    return world.leader() is target


async def sleeping_requests(world: World, count: Count) -> None:
    """What a client has sent sleeps before a node that loses leadership, gets it back, and only then reads it."""
    first = await _leader(world, 1.0)
    if first is None:
        return
    worker = world.rng.choice(world.workers).name
    count("sleeping requests", first)
    world.network.cut(worker, first.name)
    await asyncio.sleep(world.rng.uniform(0.1, 0.6))
    others = [node for node in world.nodes if node is not first and node.up]
    if others and await _hand_to(world, world.rng.choice(others)):
        await asyncio.sleep(world.rng.uniform(0.3, 1.5))
        await _hand_to(world, first)
    world.network.join(worker, first.name)
    await asyncio.sleep(0.1)


async def deposed_leader(world: World, count: Count) -> None:
    """A leader is cut off from its peers with all it has under way; another reigns, or two do; then it is back, and may lead again.

    Answers to it are held up meanwhile, and one of the others may be held up while the second one reigns.
    """
    first = await _leader(world, 1.0)
    if first is None:
        return
    count("deposed leader", first)
    rng, network = world.rng, world.network
    names = [node.name for node in world.nodes if node is not first]
    out, back = [(first.name, name) for name in names], [(name, first.name) for name in names]
    cut = back if rng.random() < 0.5 else out + back
    late = rng.choice(names)
    for source, target in cut:
        network.cut(source, target)
    await asyncio.sleep(rng.uniform(0.3, 1.8))
    held = (late, first.name)
    network.cut(*held)
    for source, target in cut:
        network.join(source, target)
    await _hand_to(world, first)
    await asyncio.sleep(rng.uniform(0.0, 0.2))
    network.join(*held)
    await asyncio.sleep(rng.uniform(0.0, 0.3))
    if rng.random() < 0.5:
        first.crash(power=True)
        await asyncio.sleep(rng.uniform(0.0, 1.0))
        await restarted(first)


async def calm(world: World, count: Count, *, pause: bool) -> None:
    """All is well but one node, which is then back. A follower must not depose the leader by it; a leader that is cut off must notice."""
    if not await _all_is_well(world):
        return
    leader = world.leader()
    assert leader is not None
    followers = [node for node in world.nodes if node is not leader]
    term = leader.adapter.term
    if pause:
        node = world.rng.choice(followers)
        count("calm pause", node)
        node.host.pause()
        await asyncio.sleep(world.rng.uniform(0.3, 3.0))
        node.host.resume()
        await _unmoved(world, leader, term, f"{node.name} was paused")
        return
    node = leader if world.rng.random() < 0.3 else world.rng.choice(followers)
    count("calm isolation", node)
    kind = world.rng.choice(["both", "in", "out"])
    others = [other.name for other in world.nodes if other is not node]
    pairs = [(other, node.name) for other in others if kind != "out"] + [
        (node.name, other) for other in others if kind != "in"
    ]
    for source, target in pairs:
        world.network.cut(source, target)
    await asyncio.sleep(world.rng.uniform(STEP_DOWN_S, 3.0) if node is leader else world.rng.uniform(0.3, 3.0))
    if node is leader and leader.up and leader.adapter.is_leader and leader.adapter.term == term:
        world.fail(
            Violation(
                f"{leader.name} still leads in term {term} after {STEP_DOWN_S:g} s without its peers ({kind}) (E2)"
            )
        )
    for source, target in pairs:
        world.network.join(source, target)
    if node is not leader:
        await _unmoved(world, leader, term, f"{node.name} was cut off ({kind})")


async def _all_is_well(world: World) -> bool:
    """Everybody follows one leader, and has done so for a while."""
    for _ in range(20):
        leader = world.leader()
        if leader is not None and all(
            node.member and node.adapter.leader == f"{leader.name}:7001" for node in world.nodes
        ):
            term = leader.adapter.term
            await asyncio.sleep(1.0)
            if world.leader() is leader and leader.adapter.term == term:
                return True
        await asyncio.sleep(0.1)
    return False


async def _unmoved(world: World, leader: SimNode, term: int, what: str) -> None:
    await asyncio.sleep(1.0)
    if world.leader() is not leader or leader.adapter.term != term:
        now = world.leader()
        led = f"{leader.name} led in term {term}, now {now.name if now else 'nobody'} does"
        world.fail(Violation(f"{what}, and is back: {led} (E3)"))
