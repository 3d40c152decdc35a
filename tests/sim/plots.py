"""Faults of several steps, each made to bring about one situation that chance brings too seldom.

Knows: what must happen in which order. Must not know: what would go wrong if a rule were broken.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.sim.kinds import Count, Fault
from tests.sim.node import SimNode, restarted
from tests.sim.rounds import NAMES
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.world import World

STEP_DOWN_S = 1.5
"""Two election timeouts and a heartbeat."""


async def find_leader(world: World, within_s: float) -> SimNode | None:
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
        leader = await find_leader(world, 1.0)
        if leader is target:
            return True
        if leader is not None and leader.node is not None:
            leader.node.raft.transfer(f"{target.name}:7001")
        await asyncio.sleep(0.2)
    return world.leader() is target


async def sleeping_requests(world: World, count: Count) -> None:
    """What a client has sent sleeps before a node that loses leadership, gets it back, and only then reads it."""
    first = await find_leader(world, 1.0)
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
    first = await find_leader(world, 1.0)
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


def both_ways(ones: list[str], others: list[str]) -> list[tuple[str, str]]:
    return [pair for one in ones for other in others if one != other for pair in ((one, other), (other, one))]


async def cut_for(world: World, pairs: list[tuple[str, str]], seconds: float) -> None:
    for source, target in pairs:
        world.network.cut(source, target)
    await asyncio.sleep(seconds)
    for source, target in pairs:
        world.network.join(source, target)


async def split_reign(world: World, count: Count) -> None:
    """A leader is left with one client, which asks it all the time; the others go on with another leader."""
    first = await find_leader(world, 1.0)
    if first is None:
        return
    count("split reign", first)
    asker = world.rng.choice(world.workers)
    away = [host.name for host in world.hosts() if host not in (first.host, asker.host)]
    cutting = asyncio.ensure_future(cut_for(world, both_ways([first.name], away), 1.0))
    asking = []
    while not cutting.done():
        asking += [asyncio.ensure_future(asker.look_around(name)) for name in NAMES]
        await asyncio.sleep(0.03)
    await asyncio.gather(*asking)


def _stands_in(node: SimNode) -> float:
    """So many seconds until a node wants to be elected, by its own clock."""
    return float(node.adapter._SyncObj__raftElectionDeadline - node.adapter._clock())


async def quick_restart(world: World, count: Count) -> None:
    """A follower that has just answered its leader starts again at once, and hears only of somebody who wants to be elected."""
    first = await find_leader(world, 1.0)
    others = [node for node in world.nodes if node is not first and node.up]
    if first is None or len(others) < len(world.nodes) - 1:
        return
    count("quick restart", first)
    wants, *rest = world.rng.sample(others, len(others))
    # Nothing is written meanwhile, or the one who wants to be elected would lack it.
    workers = [worker.name for worker in world.workers]
    quiet = asyncio.ensure_future(cut_for(world, both_ways([node.name for node in world.nodes], workers), 1.6))
    await asyncio.sleep(0.1)
    apart = asyncio.ensure_future(cut_for(world, both_ways([first.name], [wants.name]), 1.5))
    await asyncio.sleep(world.rng.uniform(0.5, 0.9))
    for _ in range(100):
        if not wants.up or _stands_in(wants) < world.rng.uniform(0.1, 0.3):
            break
        await asyncio.sleep(0.005)
    for node in rest:
        node.crash()
    alone = asyncio.ensure_future(cut_for(world, both_ways([first.name], [node.name for node in rest]), 0.6))
    await asyncio.sleep(0.01)
    for node in rest:
        await restarted(node)
    await asyncio.gather(quiet, apart, alone)


async def power_under_stall(world: World, count: Count) -> None:
    """The disks of some nodes stand still, and then the power of all is gone."""
    count("power cut under a stall", world.leader())
    slow = world.rng.sample(world.nodes, world.rng.randint(1, len(world.nodes)))
    for node in slow:
        node.host.disk_stalled = True
    await asyncio.sleep(world.rng.uniform(0.02, 0.5))
    for node in world.nodes:
        node.crash(power=True)
    for node in slow:
        node.host.disk_stalled = False
    await asyncio.sleep(world.rng.uniform(0.0, 0.3))
    for node in world.nodes:
        await restarted(node)


async def wiped_and_alone(world: World, count: Count) -> None:
    """A minority misses what the others commit; of those one is wiped, and the rest are gone: whoever is left must not elect."""
    first = await find_leader(world, 1.0)
    if first is None or not world.whole:
        return
    others = world.rng.sample([node for node in world.nodes if node is not first], len(world.nodes) - 1)
    late, wiped, gone = others[: len(world.nodes) // 2], others[-1], [first, *others[len(world.nodes) // 2 : -1]]
    count("wiped and alone", first)
    names = [host.name for host in world.hosts()]
    pairs = [pair for node in late for pair in both_ways([node.name], names)]
    await cut_for(world, pairs, world.rng.uniform(0.4, 1.0))
    if not world.whole:
        return
    wiped.wipe()
    for node in gone:
        node.crash()
    await restarted(wiped)
    await asyncio.sleep(world.rng.uniform(0.5, 2.0))
    for node in gone:
        await restarted(node)


FAULTS: tuple[Fault, ...] = (
    Fault(("sleeping requests",), 1, sleeping_requests),
    Fault(("deposed leader",), 1, deposed_leader),
    Fault(("split reign",), 1, split_reign),
    Fault(("quick restart",), 1, quick_restart),
    Fault(("power cut under a stall",), 1, power_under_stall),
    Fault(("wiped and alone",), 1, wiped_and_alone),
)
"""Those that may come beside other faults."""


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
    kind = world.rng.choice(["both", "in", "out", "from one"])
    others = [other.name for other in world.nodes if other is not node]
    if kind == "from one" and node is not leader:
        # Of all that a follower could miss, only its leader: the others will be asked to elect.
        others = [leader.name]
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


async def ran_ahead(world: World, count: Count) -> None:
    """A follower is asked to take over, and stands in the next term; nobody hears of it. The leader, in its own, must not lose it."""
    if not await _all_is_well(world):
        return
    leader = world.leader()
    assert leader is not None
    assert leader.node is not None
    node = world.rng.choice([node for node in world.nodes if node is not leader])
    term = leader.adapter.term
    count("ran ahead", node)
    if not leader.node.raft.transfer(f"{node.name}:7001"):
        return
    for _ in range(25_000):
        if node.adapter.term > term:
            break
        await asyncio.sleep(0.00002)
    for other in world.nodes:
        if other is not node:
            world.network.reset(node.name, other.name)
    await asyncio.sleep(4.0)
    now = world.leader()
    if now is None or any(other.adapter.term != now.adapter.term for other in world.nodes):
        terms = {other.name: other.adapter.term for other in world.nodes}
        world.fail(Violation(f"{node.name} stood for election and nobody heard of it; 4 s later the terms are {terms}"))


async def _all_is_well(world: World) -> bool:
    """Everybody follows one leader, and has done so for a while."""
    if world.changing:
        return False
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
