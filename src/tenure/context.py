"""Which lease the running code stands under.

Knows: one context variable, a stack of leases. Must not know: how a lease is got or given back. Child tasks see what their parent
saw; a thread sees it only where its starter copies the context. Being under a lease is no proof of holding it: ask the lease.
"""

from __future__ import annotations

from contextvars import ContextVar

from cluster.client import AsyncLease, ExtendOutcome, Lease
from cluster.client.checks import Seconds
from cluster.errors import LeaseLostError, NotLeaderError, UsageError

AnyLease = Lease | AsyncLease

# Innermost last. A tuple, so that a child's change is never seen by its parent.
_leases: ContextVar[tuple[AnyLease, ...]] = ContextVar("tenure_leases", default=())


def current_lease(name: str | None = None) -> AnyLease | None:
    """The lease that this code runs under.

    Args:
        name: the name that was led; None for the innermost, whatever its name.

    Returns:
        The lease, or None outside of an elector's action. It may be lost by now.
    """
    for lease in reversed(_leases.get()):
        if name is None or lease.name == name:
            return lease
    return None


def assert_leader(name: str | None = None) -> AnyLease:
    """Go on only under a lease that is not lost, by this process's own clock.

    Args:
        name: as in ``current_lease``.

    Raises:
        NotLeaderError: this code runs under no lease on ``name``, or that lease is lost.
    """
    lease = current_lease(name)
    if lease is None:
        wanted = "any name" if name is None else repr(name)
        raise NotLeaderError(f"this code does not run under a lease on {wanted}", "call it from an elector's action")
    try:
        lease.check()
    except LeaseLostError as error:
        raise NotLeaderError(error.detail, error.hint) from error
    return lease


def push(lease: AnyLease) -> None:
    """Make ``lease`` the innermost one of this context."""
    _leases.set((*_leases.get(), lease))


def remove(lease: AnyLease) -> None:
    """Undo ``push``. Not a reset by token: a generator may be closed in another context than the one it began in."""
    _leases.set(tuple(other for other in _leases.get() if other is not lease))


def extend_lease(lease_time: Seconds, name: str | None = None) -> ExtendOutcome:
    """Make the lease that this code runs under last ``lease_time`` from now, if that is longer than it lasts anyway.

    For the action of a ``LeaderElector``; ``tenure.aio.extend_lease`` is for asyncio.

    Args:
        lease_time: seconds, 0.1 to 7 days.
        name: as in ``current_lease``.

    Returns:
        As ``Lease.extend``.

    Raises:
        NotLeaderError: this code runs under no lease on ``name``, or that lease is lost.
        UsageError: a bad ``lease_time``, or an asyncio action.
    """
    lease = assert_leader(name)
    if not isinstance(lease, Lease):
        raise UsageError(f"{lease.name!r} is led by an asyncio action", "await tenure.aio.extend_lease there")
    return lease.extend(lease_time)
