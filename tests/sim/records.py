"""Clients that write records: under a lease and without one, in time and too late, expecting a version or not.

Knows: the verbs of ``coordinator.records``, and what is written down of each. Must not know: faults, nodes, what is right: that is
judged by the witness of the log (I10) and by the checker of histories.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from cluster.errors import CoordinationError, FencedError, Indeterminate, Unavailable, VersionConflictError
from tests.sim.kinds import Work

if TYPE_CHECKING:
    from tests.sim.worker import Worker

LEDGER = "ledger"
"""A name with one leader at a time, and the key that is bound to it."""
SHARED = "shared"
"""A key that is bound to nothing."""
SCRATCH = "scratch"
"""A key that is deleted too, and so in no history."""
TIMEOUT_S = 2.0


def _result(error: CoordinationError) -> str:
    if isinstance(error, FencedError):
        return "fenced"
    if isinstance(error, VersionConflictError):
        return "conflict"
    return "fail" if isinstance(error, Unavailable) else "unknown"


async def get(worker: Worker, key: str) -> int:
    """Read, and write down what was seen. The version; 0: there is no record."""
    history = worker.world.history
    number = history.call(worker.name, "get", [key])
    try:
        record = await worker.coordinator.aio.records.get(key, timeout=TIMEOUT_S)
    except CoordinationError:
        history.returned(number, "fail")
        raise
    if record is None:
        history.returned(number, "ok", version=0, value="", token=0)
        return 0
    history.returned(number, "ok", version=record.version, value=record.value.decode(), token=record.token or 0)
    return record.version


async def put(worker: Worker, key: str, *, lease: Any = None, expected: int | None = None) -> None:
    """Write a value that nobody else writes. Refusals are as good as any other answer."""
    history, counts = worker.world.history, worker.world.counts
    token = lease.token if lease is not None else 0
    value = f"{worker.name}/{len(history.events)}"
    number = history.call(worker.name, "put", [key], value=value, token=token, expected=expected)
    try:
        record = await worker.coordinator.aio.records.put(
            key, value.encode(), lease=lease, expected_version=expected, timeout=TIMEOUT_S
        )
    except CoordinationError as error:
        history.returned(number, _result(error))
        counts[f"record {_result(error)}"] += 1
        if isinstance(error, (FencedError, VersionConflictError)):
            return
        raise
    counts["record written"] += 1
    history.returned(number, "ok", version=record.version)


async def share(worker: Worker) -> None:
    """Without a lease: read, and write over what was read."""
    seen = await get(worker, SHARED)
    await put(worker, SHARED, expected=worker.rng.choice([None, seen, seen]))
    await get(worker, SHARED)


async def lead(worker: Worker) -> None:
    """Under a lease: write now and then, also when the lease may be over, and once more after it was given back."""
    rng, lease_s = worker.rng, worker.rng.choice([0.3, 0.8, 2.0])
    arguments: dict[str, Any] = {"lease_time": lease_s, "wait_time": rng.choice([0.0, 1.0]), "timeout": TIMEOUT_S}
    for lease in await worker.acquire([LEDGER], arguments):
        worker.world.observer.acknowledged(lease.name, lease.token)
        for _ in range(rng.randint(1, 3)):
            await put(worker, LEDGER, lease=lease)
            await asyncio.sleep(rng.expovariate(2 / lease_s))
            await worker.host.awake()
        if rng.random() < 0.3:
            await put(worker, LEDGER, expected=await get(worker, LEDGER))
        await worker.release(lease, arguments)
        await put(worker, LEDGER, lease=lease)


async def scribble(worker: Worker) -> None:
    """Write and delete, under the same name or without one."""
    records = worker.coordinator.aio.records
    try:
        await records.put(SCRATCH, b"x", timeout=TIMEOUT_S)
        await records.delete(SCRATCH, timeout=TIMEOUT_S)
    except Indeterminate:
        await records.delete(SCRATCH, timeout=TIMEOUT_S)


WORK: tuple[Work, ...] = (
    Work("share a record", 0.02, share),
    Work("lead and write a record", 0.03, lead),
    Work("write and delete a record", 0.01, scribble),
)
