"""Which lease the running code stands under.

Knows: one context variable, a stack of leases. Must not know: how a lease is got or given back. Child tasks see what their parent
saw; a thread sees it only where its starter copies the context. Being under a lease is no proof of holding it: ask the lease.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from cluster.client import AsyncLease, ExtendOutcome, Lease
from cluster.client.checks import Seconds
from cluster.errors import LeaseLostError, NotLeaderError, UsageError

AnyLease = Lease | AsyncLease


@dataclass(frozen=True, eq=False)
class NoLease:
    """Stands where a lease would: code that runs without one on ``name``, since it was asked to while the cluster was unavailable."""

    name: str


# Innermost last. A tuple, so that a child's change is never seen by its parent.
_leases: ContextVar[tuple[AnyLease | NoLease, ...]] = ContextVar("tenure_leases", default=())


def current_lease(name: str | None = None) -> AnyLease | None:
    """The lease that this code runs under.

    Args:
        name: the name that was led, as it is stored (a tenant's begins with ``tenant:``); None for the innermost, whatever its name.

    Returns:
        The lease, or None outside of an elector's action, and in a run without a lease. It may be lost by now.
    """
    found = _innermost(name)
    return None if isinstance(found, NoLease) else found


def runs_unled(name: str | None = None) -> bool:
    """Whether this code runs without a lease, because ``failure_mode="run_anyway"`` let it while the cluster was unavailable.

    Args:
        name: as in ``current_lease``.
    """
    return isinstance(_innermost(name), NoLease)


def _innermost(name: str | None) -> AnyLease | NoLease | None:
    for entry in reversed(_leases.get()):
        if name is None or entry.name == name:
            return entry
    return None


def assert_leader(name: str | None = None, *, verify: bool = False) -> AnyLease:
    """Go on only under a lease that is not lost, by this process's own clock.

    Args:
        name: as in ``current_lease``.
        verify: ask the raft group too, at the price of a round trip: the answer is true for a moment between call and return. For
            blocking code; ``tenure.aio.assert_leader`` is for asyncio.

    Raises:
        NotLeaderError: this code runs under no lease on ``name``, or that lease is lost.
        Unavailable: with ``verify``: the raft group could not be asked in time.
        UsageError: with ``verify``: in an asyncio action.
    """
    lease = _required(name)
    try:
        lease.check()
        if verify:
            for_blocking(lease, "tenure.aio.assert_leader").verify()
    except LeaseLostError as error:
        raise NotLeaderError(error.detail, error.hint) from error
    return lease


async def assert_leader_async(name: str | None = None, *, verify: bool = False) -> AnyLease:
    """``tenure.assert_leader`` for an asyncio action, which can ``verify`` without blocking its loop."""
    lease = _required(name)
    try:
        lease.check()
        if verify:
            await for_tasks(lease, "tenure.assert_leader").verify()
    except LeaseLostError as error:
        raise NotLeaderError(error.detail, error.hint) from error
    return lease


def _required(name: str | None) -> AnyLease:
    lease = _innermost(name)
    if isinstance(lease, NoLease):
        raise NotLeaderError(
            f"this code runs without a lease on {lease.name!r}: the cluster was unavailable, and failure_mode let it run anyway",
            'decorate with failure_mode "raise" or "skip" what must not run unled',
        )
    if lease is None:
        wanted = "any name" if name is None else repr(name)
        raise NotLeaderError(f"this code does not run under a lease on {wanted}", "call it from an elector's action")
    return lease


def for_blocking(lease: AnyLease, instead: str) -> Lease:
    """The lease, where it may be waited for. Raises UsageError in an asyncio action."""
    if not isinstance(lease, Lease):
        raise UsageError(f"{lease.name!r} is led by an asyncio action", f"await {instead} there")
    return lease


def for_tasks(lease: AnyLease, instead: str) -> AsyncLease:
    """The lease, where it may be awaited. Raises UsageError in blocking code."""
    if not isinstance(lease, AsyncLease):
        raise UsageError(f"{lease.name!r} is led by blocking code", f"use {instead} there")
    return lease


def push(lease: AnyLease | NoLease) -> None:
    """Make ``lease`` the innermost one of this context."""
    _leases.set((*_leases.get(), lease))


def remove(lease: AnyLease | NoLease) -> None:
    """Undo ``push``. Not a reset by token: a generator may be closed in another context than the one it began in."""
    _leases.set(tuple(other for other in _leases.get() if other is not lease))


def extend_lease(lease_time: Seconds, name: str | None = None) -> ExtendOutcome:
    """Make the lease that this code runs under last ``lease_time`` from now, if that is longer than it lasts anyway.

    For actions that run in threads; ``tenure.aio.extend_lease`` is for asyncio.

    Args:
        lease_time: seconds, 0.1 to 7 days.
        name: as in ``current_lease``.

    Returns:
        As ``Lease.extend``.

    Raises:
        NotLeaderError: this code runs under no lease on ``name``, or that lease is lost.
        UsageError: a bad ``lease_time``, or an asyncio action.
    """
    return for_blocking(assert_leader(name), "tenure.aio.extend_lease").extend(lease_time)
