"""What a client does in one round. A subject that has more work to offer has a file of its own; its kinds are added to ``WORK``.

Knows: the client's verbs, as the worker writes them down. Must not know: faults, nodes, what is right.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.sim import candidates, electors, impatient, records
from tests.sim.kinds import Work

if TYPE_CHECKING:
    from tests.sim.worker import Worker

NAMES = ("nightly", "report", "poll")
SLOTS = "slots"


async def read(worker: Worker) -> None:
    await worker.read(worker.rng.choice((*NAMES, SLOTS)))


async def contend(worker: Worker) -> None:
    """Ask for a name, a slot, or two names at once; hold what is granted."""
    rng = worker.rng
    slots = rng.random() < 0.2
    lease_s = rng.choice([0.3, 0.8, 2.0])
    arguments: dict[str, Any] = {
        "lease_time": lease_s,
        "wait_time": rng.choice([0.0, 0.0, 0.2, 3.0, 9.0]),
        "auto_extend": rng.random() < 0.4,
        "timeout": 2.0,
    }
    if slots:
        arguments["max_leaders"] = rng.choice([2, 2, 3])
    if rng.random() < 0.1:
        arguments["min_lease_time"] = lease_s / 2
    names = [SLOTS] if slots else [rng.choice(NAMES)]
    if not slots and rng.random() < 0.1:
        names = list(NAMES[:2])
    leases = await worker.acquire(names, arguments)
    for lease in leases:
        worker.world.observer.acknowledged(lease.name, lease.token)
    if leases:
        await asyncio.gather(*(hold(worker, lease, arguments) for lease in leases))


async def hold(worker: Worker, lease: Any, arguments: dict[str, Any]) -> None:
    rng, lease_s = worker.rng, arguments["lease_time"]
    for _ in range(rng.randint(1, 4)):
        await asyncio.sleep(rng.expovariate(1 / (lease_s / 3)))
        await worker.host.awake()
        if not worker.look(lease):
            break
        if rng.random() < 0.3:
            await worker.extend(lease, rng.choice([None, lease_s / 3 + 0.1, lease_s * 2]))
    if rng.random() < 0.2:
        # A job that forgot about the time: the lease runs out, or is renewed until this process lets go.
        await asyncio.sleep(lease_s)
        await worker.host.awake()
        worker.look(lease)
    await worker.release(lease, arguments)


WORK: tuple[Work, ...] = (
    Work("contend", 0.9, contend),
    Work("read", 0.1, read),
    *records.WORK,
    *candidates.WORK,
)
WORKS: dict[str, tuple[Work, ...]] = {
    "all": WORK,
    "records": records.WORK,
    "electors": electors.WORK,
    "impatient": impatient.WORK,
}
"""What the clients of a run do: all kinds of work, or one subject all the time, where chance brings too little of it."""
