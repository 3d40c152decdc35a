"""Refuse the writes of a holder that was overtaken: the gate in front of a resource, and the token on its way there.

Knows: tokens, and which was the largest at each resource. Must not know: how a lease is got, what a resource is, any database.

A lease cannot stop a process that was paused while it was about to write. The token can, where the resource refuses whatever is older
than what it has seen. Source: M. Kleppmann, "How to do distributed locking" (2016).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cluster.client import AsyncLease, Lease
from cluster.errors import FencedError, UsageError
from cluster.limits import TOKEN_MAX

RESOURCES_MAX: Final = 100_000
TOKEN_HEADER: Final = "Tenure-Token"
NAME_HEADER: Final = "Tenure-Name"
SLOT_HEADER: Final = "Tenure-Slot"


class _Resource:
    """One resource's largest token, and the lock under which it is compared and written."""

    __slots__ = ("largest", "lock")

    def __init__(self) -> None:
        self.largest = 0
        # Reentrant: the body of a ``guard`` may check again.
        self.lock = threading.RLock()


class FencingGate:
    """Remembers the largest token that came for each resource, and refuses smaller ones. For all threads of one process.

    Put it where the resource is: in the one process that all writes go through. It knows nothing of leases that have ended, only of
    tokens that came: a stale writer is refused from the first write of its successor on. It forgets everything with its process;
    ``coordinator.records`` and ``fenced_sql`` do not.

    Protect one resource with one name that has one leader at a time: tokens are compared only within a name, and of a leader group's
    several live tokens a gate admits only the largest.

    Memory is bounded, about 250 bytes for each resource and its name: a resource that is not known yet is refused when there are
    ``resources_max``. Nothing is ever forgotten by itself, since that would let a stale writer in.

    Args:
        resources_max: how many resources it may know, at least 1.

    Raises:
        UsageError: a bad ``resources_max``.

    >>> gate = FencingGate()
    >>> gate.check("stock", 7)
    >>> gate.check("stock", 9)
    >>> gate.check("stock", 7)
    Traceback (most recent call last):
    ...
    cluster.errors.FencedError: 'stock' refuses token 7: token 9 was here. stop this work: another holder has taken over
    """

    def __init__(self, *, resources_max: int = RESOURCES_MAX) -> None:
        if isinstance(resources_max, bool) or not isinstance(resources_max, int) or resources_max < 1:
            raise UsageError(
                f"resources_max={resources_max!r} resources is not valid", "give a whole number, at least 1"
            )
        self._resources_max = resources_max
        self._guard = threading.Lock()
        self._resources: dict[str, _Resource] = {}

    def check(self, resource: str, token: int) -> None:
        """Admit a write with ``token``, and from now on none with a smaller one.

        Between this and the write that follows it a successor may write. Where that matters use ``guard``, or write before anything
        else of this event loop can run.

        Args:
            resource: what is written, any text but the empty one.
            token: the writer's, ``lease.token``. The same token may come as often as it likes.

        Raises:
            FencedError: a larger token was here. Nothing was changed.
            UsageError: a bad argument, or one resource more than ``resources_max``. Nothing was changed.
        """
        with self.guard(resource, token):
            pass

    @contextmanager
    def guard(self, resource: str, token: int) -> Iterator[None]:
        """``check``, and keep every other writer of this resource waiting while the body writes.

        Not across an ``await``: tasks of one event loop are one thread to it. Arguments and errors are those of ``check``.
        """
        _check_resource(resource)
        _check_token(token)
        while True:
            entry = self._entry(resource)
            with entry.lock:
                if self._resources.get(resource) is not entry:
                    # Forgotten meanwhile: who comes next has another lock.
                    continue
                if token < entry.largest:
                    raise FencedError(
                        f"{resource!r} refuses token {token}: token {entry.largest} was here",
                        "stop this work: another holder has taken over",
                    )
                entry.largest = token
                yield
                return

    def largest(self, resource: str) -> int | None:
        """The largest token that came for ``resource``; None: none did."""
        entry = self._resources.get(resource)
        return entry.largest if entry is not None else None

    def forget(self, resource: str) -> None:
        """Make room: ``resource`` is retired and nobody will write it again. A stale writer would be admitted."""
        with self._guard:
            self._resources.pop(resource, None)

    def __len__(self) -> int:
        """How many resources it knows."""
        return len(self._resources)

    def _entry(self, resource: str) -> _Resource:
        with self._guard:
            entry = self._resources.get(resource)
            if entry is None:
                if len(self._resources) >= self._resources_max:
                    raise UsageError(
                        f"{resource!r} is one resource more than the {self._resources_max} that this gate may know",
                        "forget() those that are retired, or give a larger resources_max",
                    )
                entry = self._resources[resource] = _Resource()
            return entry


def _check_resource(resource: object) -> None:
    if not isinstance(resource, str) or not resource:
        raise UsageError(f"resource {resource!r} is not valid", "give a text that says what is written")


def _check_token(token: object) -> None:
    if isinstance(token, bool) or not isinstance(token, int) or not 1 <= token <= TOKEN_MAX:
        raise UsageError(f"token {token!r} is no fencing token", "give lease.token, a whole number above 0")


def fencing_headers(lease: Lease | AsyncLease) -> dict[str, str]:
    """The lease's name, slot and token as HTTP headers, for a service that puts them to a gate.

    Returns:
        ``Tenure-Name``, ``Tenure-Slot`` and ``Tenure-Token``, all text.

    Raises:
        LeaseLostError: the lease is over: the service would only have to refuse.

    >>> import tenure
    >>> with tenure.local() as coordinator, coordinator.acquire("stock") as lease:
    ...     headers = fencing_headers(lease)
    >>> headers["Tenure-Name"], headers["Tenure-Slot"], int(headers["Tenure-Token"]) == lease.token
    ('stock', '0', True)
    """
    lease.check()
    return {NAME_HEADER: lease.name, SLOT_HEADER: str(lease.slot), TOKEN_HEADER: str(lease.token)}
