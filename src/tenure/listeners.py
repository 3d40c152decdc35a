"""Listeners: the application's own code, told what becomes of the runs of an elector.

Knows: what a listener is told, and what is one. Must not know: how a run goes, on which thread a listener is called (``_observers``).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cluster.client import checks
from cluster.errors import UsageError
from tenure._feed import flush_all

__all__ = ["ElectionEvent", "ElectionListener", "flush"]

FLUSH_LIMIT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ElectionEvent:
    """What happened to one run.

    Attributes:
        name: as it is stored.
        reason: see the methods of ``ElectionListener``; empty for ``on_elected``.
        node_id, slot, token: of the lease; None where none was granted.
        error: what the action raised, or the outage that made a skip.
    """

    name: str
    reason: str = ""
    node_id: str | None = None
    slot: int | None = None
    token: int | None = None
    error: BaseException | None = None


class ElectionListener:
    """Override what is of interest, and give an instance to electors as ``listeners=[…]``.

    Every listener is called on a daemon thread of its own, in the order in which things happened, never twice at once, whichever electors
    it was given to. So it is told soon after, never before; what it raises is logged, a slow one delays nobody but itself, and up to 10,000
    calls wait for it (more are dropped, and logged). ``flush`` waits for them; the end of the interpreter does so for 1.5 s.
    """

    def on_elected(self, event: ElectionEvent) -> None:
        """The name was granted. Exactly one of ``on_released`` and ``on_lost`` follows."""

    def on_lost(self, event: ElectionEvent) -> None:
        """The lease ended against its holder's will, while its work may still run. ``reason``: ``"expired"``, ``"revoked"``,
        ``"not_held"`` (the raft group said so), ``"closing"`` (the coordinator), ``"cluster_changed"``."""

    def on_released(self, event: ElectionEvent) -> None:
        """The work has ended and the name is given back. ``reason``: ``"completed"``, ``"failed"``, ``"cancelled"``, or
        ``"not_started"``."""

    def on_skipped(self, event: ElectionEvent) -> None:
        """The name was not granted, and the action did not run. ``reason``: ``"held"``; ``"not_elected"`` of a strategic elector,
        whoever holds the name; or ``"unavailable"``: a decorated function with ``failure_mode="skip"`` met the outage in ``error``."""

    def on_action_failed(self, event: ElectionEvent) -> None:
        """The action raised ``error``, an ``Exception`` whose type is the ``reason``. ``on_released`` or ``on_lost`` is told too."""


METHODS: Final = ("on_elected", "on_lost", "on_released", "on_skipped", "on_action_failed")


def checked(listeners: Iterable[ElectionListener]) -> tuple[ElectionListener, ...]:
    """Raises UsageError for what is no listener."""
    if isinstance(listeners, ElectionListener) or not isinstance(listeners, Iterable):
        raise UsageError(f"listeners is {type(listeners).__name__}", "give a list of ElectionListener objects")
    found = tuple(listeners)
    for each in found:
        if not isinstance(each, ElectionListener):
            raise UsageError(f"a listener is {type(each).__name__}", "derive its class from tenure.ElectionListener")
        for method in METHODS:
            if not callable(getattr(each, method)):
                raise UsageError(f"{type(each).__name__}.{method} is no method", "leave it out where it is of no interest")
            if inspect.iscoroutinefunction(getattr(each, method)):
                raise UsageError(
                    f"{type(each).__name__}.{method} is a coroutine function, and listeners are called on a thread",
                    "write it as def, and use loop.call_soon_threadsafe in it",
                )
    return found


def flush(limit: checks.Seconds = FLUSH_LIMIT_S) -> bool:
    """Wait until the listeners and metrics of this process were told everything that has happened so far.

    Args:
        limit: seconds, 0 to 1 day.

    Returns:
        Whether they were, in time.

    Raises:
        UsageError: a bad ``limit``.
    """
    return flush_all(checks.limit_s(limit, "limit"))
