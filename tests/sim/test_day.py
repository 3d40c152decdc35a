"""A day of a quiet group whose nodes are often restarted: neither its logs, nor its disks, nor its memory grow (E9).

Knows: the simulated world, sizes. Must not know: when a node compacts its log.

No observer: it remembers every command, and this is about who remembers too much.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from cluster.server import events
from tests.sim.node import SimNode, restarted
from tests.sim.shape import Shape, dressed
from tests.sim.world import World

HOUR_S = 3600.0
HOURS = 24
SEGMENT_BYTES = 8 << 10
COMPACT_BYTES = 20_000
# Each node begins to compact at a limit of its own, up to one and a half times this; and the snapshot of a few leases is small.
LOG_MAX_BYTES = 2 * COMPACT_BYTES
DISK_MAX_BYTES = LOG_MAX_BYTES + 3 * SEGMENT_BYTES
QUIET_S, RESTARTS = 60.0, 0.1
EVENTS_BYTES = 8 << 10
WARM_HOURS = 3
GROWTH_MAX = 1.03


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Blind:
    """In place of the observer."""

    last_index = 0

    def __init__(self) -> None:
        self.believers: list[Any] = []
        self.closed: set[Any] = set()

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


def log_bytes(node: SimNode) -> int:
    assert node.node is not None
    return node.node._storage.journal.size_bytes


def disk_bytes(node: SimNode) -> int:
    return sum(len(data) for disk in node.host.disks.values() for data in disk.files().values())


async def _hour(world: World, rng: random.Random) -> int:
    """Somebody wants a name once a minute; every tenth minute a node loses its power. How often that was."""
    until, restarts = world.loop.time() + HOUR_S, 0
    while world.loop.time() < until:
        await asyncio.sleep(rng.expovariate(1 / QUIET_S))
        lease = await world.workers[1].coordinator.aio.acquire("job", lease_time=30.0, wait_time=30.0, timeout=30.0)
        assert lease is not None
        await lease.release()
        if rng.random() < RESTARTS:
            node = rng.choice(world.nodes)
            node.crash(power=True)
            await asyncio.sleep(1.0)
            await restarted(node)
            restarts += 1
    return restarts


def _forget(world: World) -> None:
    """What the simulation itself remembers."""
    world.history.events.clear()
    for worker in world.workers:
        worker._granted_until.clear()
    for host in world.hosts():
        for disk in host.disks.values():
            disk.log.clear()


async def _hours(world: World, hours: int) -> None:
    rng = random.Random(world.rng.random())
    await world.begin()
    kept = await world.workers[0].coordinator.aio.acquire("kept", lease_time=60.0, wait_time=30.0, auto_extend=True, timeout=30.0)
    assert kept is not None
    restarts, blocks = 0, 0
    for hour in range(hours):
        restarts += await _hour(world, rng)
        world.raise_failure()
        _forget(world)
        for node in world.nodes:
            assert log_bytes(node) < LOG_MAX_BYTES, f"the log of {node.name} after {hour + 1} hours"
            assert disk_bytes(node) < DISK_MAX_BYTES, f"the disk of {node.name} after {hour + 1} hours"
        gc.collect()
        if hour < WARM_HOURS:
            blocks = max(blocks, sys.getallocatedblocks())
        else:
            assert sys.getallocatedblocks() < GROWTH_MAX * blocks, f"memory after {hour + 1} hours"
        assert kept.confidence == "held"
    assert restarts > hours
    assert all(node.adapter._first > 100 for node in world.nodes), "the logs were compacted"


def play(hours: int) -> None:
    # Of events as many are kept as this allows, which is days of so quiet a group.
    small = patch.object(events, "EVENTS_KEPT_MAX_BYTES", EVENTS_BYTES)
    with small, dressed(Shape(compact_bytes=COMPACT_BYTES, tail_bytes=COMPACT_BYTES // 10, segment_bytes=SEGMENT_BYTES)):
        world = World(random.Random(1), Shape(), 2)
        world.observer = Blind()  # type: ignore[assignment]
        try:
            world.loop.run_until_complete(_hours(world, hours))
        finally:
            world.close()


@pytest.mark.timeout(300)
def test_two_quiet_hours_leave_nothing_behind__E9() -> None:
    play(2)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_quiet_day_leaves_nothing_behind__E9() -> None:
    play(HOURS)
