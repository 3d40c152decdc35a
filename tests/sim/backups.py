"""A fault of its own: all nodes are gone, and a new group begins with a backup from before, while holders that it does not know still run.

Knows: how an operator restores a group (docs/operations.md), what of the past the observer must not expect any more. Must not know: what
would go wrong.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from cluster import recovery
from cluster.backup import Backup, begin_anew
from cluster.errors import CoordinationError
from cluster.storage import offline
from tests.sim.kinds import Count, Fault
from tests.sim.node import SimNode, restarted
from tests.sim.rounds import NAMES
from tests.sim.violation import Violation
from tests.sim.worker import Worker

if TYPE_CHECKING:
    from tests.sim.world import World

NEWCOMER_S = 7.0
"""So long somebody who knows nothing of the old group asks the new one: longer than any lease of a worker."""


async def restore(world: World, count: Count) -> None:
    """Once in a run. A backup is made, the work goes on, all data is lost, and every node is given a directory made of the backup."""
    if world.counts["restored"] or not _is_whole(world):
        return
    made = _backup(world.rng.choice(world.nodes))
    await asyncio.sleep(world.rng.uniform(0.0, 3.0))
    if world.counts["restored"] or not _is_whole(world):
        return
    world.counts["restored"] += 1
    count("restore of a backup", world.leader())
    _replace(world, made)
    for node in world.rng.sample(world.nodes, len(world.nodes)):
        await asyncio.sleep(world.rng.expovariate(1 / 0.1))
        await restarted(node)
    await _newcomer(world)


def _is_whole(world: World) -> bool:
    """An operator does this to machines that work, and when nobody changes the members."""
    sound = all(not node.host.disk_faulty for node in world.nodes)
    return world.whole and sound and not any(node.up for node in world.removed)


def _backup(node: SimNode) -> Backup:
    """What ``snapshot save`` gets of this node."""
    assert node.node is not None
    said, state = node.node.raft.status(), node.node.server.freeze()()
    members = tuple(member["node_id"] for member in said["members"])
    return Backup(node.host.rng.randbytes(16), 0, node.name, said["applied_index"], said["term"], members, state)


def _replace(world: World, backup: Backup) -> None:
    """In one moment, so that no node of the old group is ever up beside one of the new."""
    addresses = [str(node.config.listen) for node in world.nodes]
    # The operator knows which lease times are in use, and sets the machines' clocks before anything else.
    beginning = begin_anew(backup, addresses, world.observer.table.longest_ms)
    newest = max(node.host.wall_offset_s for node in world.nodes)
    for node in world.nodes:
        node.crash()
        node.host.wall_offset_s = max(0.0, newest)
        node.host.disks.clear()
        node.config = replace(node.config, peers=tuple(addresses))
        with patch.object(offline, "SEGMENT_BYTES", world.shape.segment_bytes):
            recovery.begin(node.host.env(), "data", beginning)
    world.observer.begin_anew(beginning.state, beginning.index)
    world.history.restored()


async def _newcomer(world: World) -> None:
    """Workers that know the old group do not believe in the new one before their leases are over; a new process takes it as it is."""
    number = len(world.workers) + 1
    worker = Worker(world, world._host(f"w{number}"), [str(node.config.listen) for node in world.nodes])
    world.workers.append(worker)
    world.observer.believers.append(worker)
    until = world.loop.time() + NEWCOMER_S
    while world.loop.time() < until:
        for name in NAMES:
            try:
                leases = await worker.acquire([name], {"lease_time": 0.3, "wait_time": 0.0, "timeout": 0.5})
                for lease in leases:
                    world.observer.acknowledged(lease.name, lease.token)
                    await worker.release(lease, {})
            except CoordinationError as error:
                world.counts[type(error).__name__] += 1
            except Violation as violation:
                world.fail(violation)
        await asyncio.sleep(0.05)


FAULTS: tuple[Fault, ...] = (Fault(("restore of a backup",), 1, restore),)
