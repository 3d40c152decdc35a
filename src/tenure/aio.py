"""The ways in, for event loops: nothing here blocks.

Knows: which functions have a twin. Must not know: anything else. What is returned is the same ``Coordinator``; its verbs for tasks are
under ``coordinator.aio``, and ``async with coordinator`` closes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.client import AsyncLease, Coordinator, ExtendOutcome, checks, connect_async
from cluster.errors import UsageError
from tenure.context import assert_leader


async def connect(
    endpoints: str | Iterable[str], *, secret: bytes | str | None = None, timeout: checks.Seconds = 5.0
) -> Coordinator:
    """``tenure.connect``, without blocking the loop."""
    return await connect_async(endpoints, secret=secret, timeout=timeout)


async def extend_lease(lease_time: checks.Seconds, name: str | None = None) -> ExtendOutcome:
    """``tenure.extend_lease`` for the action of an ``AsyncLeaderElector``."""
    lease = assert_leader(name)
    if not isinstance(lease, AsyncLease):
        raise UsageError(f"{lease.name!r} is led by blocking code", "use tenure.extend_lease there")
    return await lease.extend(lease_time)
