"""One seed, from start to verdict.

Knows: the order of a run. Must not know: its parts' insides.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from tests.sim.faults import Faults
from tests.sim.world import World

TASKS_PER_WORKER = 3


@dataclass(frozen=True)
class Verdict:
    """What one run showed. Equal seeds give equal verdicts."""

    seed: int
    seconds: float
    counts: Counter[str]
    events: Counter[str]
    fingerprint: str


def run(seed: int, seconds: float = 20.0, nodes: int = 3, workers: int = 3) -> Verdict:
    """Play one seed.

    Raises:
        Violation: an invariant does not hold, or the system does not recover.
    """
    world = World(seed, nodes, workers)
    try:
        world.loop.run_until_complete(_play(world, seconds))
        world.raise_failure()
        return Verdict(seed, world.loop.time(), world.counts, world.observer.counts, world.observer.fingerprint())
    finally:
        world.close()


async def _play(world: World, seconds: float) -> None:
    await world.begin()
    faults = Faults(world)
    until = world.loop.time() + seconds
    working = [
        asyncio.ensure_future(worker.work(until)) for worker in world.workers for _ in range(TASKS_PER_WORKER)
    ]
    try:
        await faults.run(until)
        await faults.mend()
        await asyncio.gather(*working)
        await world.settle()
        await world.serve_everybody()
    finally:
        for task in working:
            task.cancel()
