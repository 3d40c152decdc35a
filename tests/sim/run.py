"""One seed, from start to verdict.

Knows: the order of a run. Must not know: its parts' insides.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cluster.storage import Durability
from tests.history import record
from tests.history.checker import check
from tests.sim.faults import Faults
from tests.sim.shape import drawn, dressed
from tests.sim.violation import Violation
from tests.sim.world import World

TASKS_PER_WORKER = 3
WORK_ENDS_S = 60.0
"""The longest wait, and a job that holds its lease for long."""


@dataclass(frozen=True)
class Verdict:
    """What one run showed. Equal seeds give equal verdicts."""

    seed: int
    seconds: float
    counts: Counter[str]
    fingerprint: str


def run(
    seed: int,
    seconds: float = 20.0,
    nodes: int = 0,
    workers: int = 3,
    *,
    history: Path | None = None,
    durability: Durability = "fsync",
    weather: Callable[[World], Faults] = Faults,
    work: str = "all",
) -> Verdict:
    """Play one seed. ``nodes`` 0: as the seed says. ``history``: where to write down what clients saw, if the run fails. ``weather``: other
    faults than those that are drawn from the seed. ``work``: what the clients do, one of ``rounds.WORKS``.

    Raises:
        Violation: an invariant does not hold, or the system does not recover.
    """
    rng = random.Random(seed)
    shape = drawn(rng, nodes)
    with dressed(shape), _no_collection():
        world = World(rng, shape, workers, durability, work)
        try:
            world.loop.run_until_complete(_play(world, weather(world), seconds))
            world.raise_failure()
            objections = check(world.history.events)
            if objections:
                raise Violation("the history is not one of a lease service: " + "; ".join(objections[:5]))
            return Verdict(seed, world.loop.time(), world.counts + world.observer.counts, world.observer.fingerprint())
        except Exception as failure:
            if history is not None:
                record.save(world.history.events, history)
            # What was seen first is the cause; a node that met it stopped, and all else followed.
            if world.failure is not None and failure is not world.failure:
                raise world.failure from failure
            raise
        finally:
            world.close()


@contextmanager
def _no_collection() -> Iterator[None]:
    """Collecting garbage takes a tenth of the time of a run, and one run leaves little: it is done afterwards. And when it comes is then
    the same in every run of a seed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


async def _all_told(working: Sequence[asyncio.Future[None]]) -> None:
    """Liveness: whoever still waits is served or told."""
    done, late = await asyncio.wait(working, timeout=WORK_ENDS_S)
    for task in done:
        task.result()
    if late:
        raise Violation(f"{len(late)} clients were neither served nor told {WORK_ENDS_S:g} s after the last fault")


async def _play(world: World, faults: Faults, seconds: float) -> None:
    await world.begin()
    until = world.loop.time() + seconds
    working = [asyncio.ensure_future(worker.work(until)) for worker in world.workers for _ in range(TASKS_PER_WORKER)]
    try:
        await faults.run(until)
        await faults.mend()
        await _all_told(working)
        await world.settle()
        await world.serve_everybody()
    finally:
        for task in working:
            task.cancel()
