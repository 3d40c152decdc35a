"""Clients that give up what they have asked for, while something else keeps their session alive: what they are granted all the same is
nobody's, and would be so for as long as the process lives.

Knows: when to give up. Must not know: faults, nodes, what becomes of a request that nobody wants any more. That all of it is given back is
asked at the end of a run, when every name must be granted to who asks; the leases that keep the sessions alive are held until then.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tests.sim.kinds import Work

if TYPE_CHECKING:
    from tests.sim.worker import Worker

NAMES = ("nightly", "report", "poll")
LEASE_TIMES_S = (0.3, 0.8, 2.0)


async def give_up(worker: Worker) -> None:
    """Ask for a name, or two, and lose patience; or hold it for a moment."""
    rng, counts = worker.rng, worker.world.counts
    lease_s = rng.choice(LEASE_TIMES_S)
    await _keep(worker, lease_s)
    arguments: dict[str, Any] = {
        "lease_time": lease_s,
        "wait_time": rng.choice([0.0, 0.5, 30.0, 30.0]),
        "auto_extend": rng.random() < 0.8,
        "timeout": 2.0,
    }
    names = [rng.choice(NAMES)] if rng.random() < 0.8 else list(NAMES[:2])
    asked = asyncio.ensure_future(worker.acquire(names, arguments))
    await asyncio.wait([asked], timeout=rng.expovariate(1 / rng.choice([0.002, 0.02, 0.5])))
    if not asked.done():
        counts["given up"] += 1
        asked.cancel()
        with suppress(asyncio.CancelledError):
            # Granted in the very moment: it has a lease, and gives it back.
            for lease in await asked:
                await worker.release(lease, arguments)
        return
    for lease in asked.result():
        worker.world.observer.acknowledged(lease.name, lease.token)
    await asyncio.sleep(rng.expovariate(1 / 0.05))
    await worker.host.awake()
    for lease in asked.result():
        worker.look(lease)
        await worker.release(lease, arguments)


async def _keep(worker: Worker, lease_s: float) -> None:
    """A lease of this lease time that this client goes on holding."""
    lease = worker.kept.get(lease_s)
    if lease is None or lease.confidence == "lost":
        arguments = {"lease_time": lease_s, "wait_time": 0.0, "auto_extend": True, "timeout": 2.0}
        found = await worker.acquire([f"kept-{worker.name}-{lease_s:g}"], arguments)
        if found:
            worker.kept[lease_s] = found[0]


WORK: tuple[Work, ...] = (Work("give up", 1.0, give_up),)
