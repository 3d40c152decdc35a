"""The one engine under every elector: what a run may do next, and what its end means to the caller.

Knows: a run's record (granted, begun, ended, lost, given up) and the rules that read it. Must not know: how a lease is acquired or
released, threads, loops, clocks. A form (blocking, asyncio, ``with``) writes down what happened and asks here; so a rule that holds
in one form holds in all of them.

The rules, numbered as in the contract of ``run_if_leader``:

1. the action runs once, and only after ``granted``;
2. no grant is ``Skipped``, and None in the plain form;
3. what the action raised reaches the caller as it is;
4. ``outcome`` can be asked before the release only, so a release always says how the work ended;
5. the caller's own cancellation wins over every result;
7. a lease that was lost before the work ended makes the ending ``LeaseLost``, whatever the action made of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

from cluster.errors import Indeterminate, LeaseLostError, NotLeaderError, Unavailable, UsageError
from cluster.opcodes import Outcome
from tenure.results import ActionFailed, Elected, LeaseLost, RunResult, Skipped

T = TypeVar("T")

# Whether the name was granted or not, the work has not begun, and nobody can be asked.
OUTAGE: Final = (Unavailable, Indeterminate)
# How long a skipped run may ask who holds the name.
HOLDER_TIMEOUT_S: Final = 1.0


class Told(Protocol):
    """``on_set``: call once when it is set, at once if it is; returns what takes that back. ``reason``: why it is set."""

    @property
    def reason(self) -> str: ...
    def is_set(self) -> bool: ...
    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]: ...


class Held(Protocol):
    """What the engine reads of a lease. ``lost`` is set when it ended against its holder's will, and looks at the clock."""

    @property
    def name(self) -> str: ...
    @property
    def node_id(self) -> str: ...
    @property
    def token(self) -> int: ...
    @property
    def slot(self) -> int: ...
    @property
    def lost(self) -> Told: ...
    @property
    def warnings(self) -> int: ...


class Watching:
    """Who is told what becomes of one run. It neither raises nor waits."""

    def acquired(self, run: Run[Any], lease: Held) -> None:
        """The name was granted."""

    def ended(self, run: Run[Any], outcome: Outcome) -> None:
        """The work has ended, or never began, and the lease is about to be given back."""

    def skipped(self, run: Run[Any]) -> None:
        """The name was not granted."""

    def unanswered(self, run: Run[Any]) -> None:
        """It could not be found out whether the name is granted: the caller gets an error."""

    def given_up(self, run: Run[Any]) -> None:
        """The caller gave up before it was granted or refused the name: a cancellation, Ctrl-C."""

    def left_out(self, name: str, outage: BaseException) -> None:
        """After ``unanswered``, ``failure_mode`` made a skip of it."""

    def unled(self, name: str) -> None:
        """After ``unanswered``, ``failure_mode`` lets it run without a lease."""

    def unled_ended(self, error: BaseException | None) -> None:
        """That has ended."""


class Run(Generic[T]):
    """The record of one run, from before its grant to after its release. Written by one form, on one thread.

    Args:
        name: as it is stored.
        watching: who is told.
    """

    def __init__(self, name: str, watching: Sequence[Watching] = ()) -> None:
        self.name = name
        self._watching = watching
        self.lease: Held | None = None
        self.holder: str | None = None
        # Whether a strategy may have passed over a name that nobody holds.
        self.elective = False
        self.begun = False
        self.released = False
        # Whether the work was cancelled by us, because its lease was lost.
        self.told = False
        # The action turned out to be none, after it was called.
        self.refused: UsageError | None = None
        # The caller's own cancellation, once it came.
        self.given_up: BaseException | None = None
        self.error: BaseException | None = None
        self._values: list[T] = []
        self._lost: bool | None = None

    def granted(self, lease: Held) -> None:
        if self.lease is None:
            self.lease = lease
            for each in self._watching:
                each.acquired(self, lease)

    def passed_over(self) -> None:
        """The name was not granted."""
        for each in self._watching:
            each.skipped(self)

    def unanswered(self, error: BaseException) -> None:
        """The attempt to be granted the name ended in ``error``."""
        for each in self._watching:
            if isinstance(error, OUTAGE):
                each.unanswered(self)
            elif not isinstance(error, Exception):
                each.given_up(self)

    def may_begin(self) -> bool:
        """Whether to start the action now, for the first and only time. A lease that is lost already is not begun with."""
        if self.lease is None or self.begun or self.lease.lost.is_set():
            return False
        self.begun = True
        return True

    def completed(self, value: T) -> None:
        self._values.append(value)

    def failed(self, error: BaseException) -> None:
        self.error = error

    def gave_up(self, error: BaseException) -> None:
        """The caller was cancelled. The first time counts."""
        if self.given_up is None:
            self.given_up = error

    @property
    def lost(self) -> bool:
        """Whether the lease was lost when the work ended. Looked at once: time goes on, the answer does not change."""
        if self._lost is None:
            self._lost = self.lease is not None and self.lease.lost.is_set()
        return self._lost

    def outcome(self) -> Outcome:
        """What to say with the release. To be asked after the work has ended and before the release, which settles ``lost``."""
        outcome = self._outcome()
        watching, self._watching = self._watching, ()
        for each in watching:
            each.ended(self, outcome)
        return outcome

    def _outcome(self) -> Outcome:
        lost = self.lost
        if not self.begun:
            return Outcome.NOT_STARTED
        if lost:
            return Outcome.LOST
        if self.refused is not None:
            return Outcome.FAILED
        if self.error is None:
            return Outcome.COMPLETED if self._values else Outcome.CANCELLED
        return Outcome.FAILED if isinstance(self.error, Exception) else Outcome.CANCELLED

    def result(self) -> RunResult[T]:
        """The ending as a value.

        Raises:
            UsageError: the action was refused.
            BaseException: the caller's cancellation, or what the action raised that is no ``Exception`` (``KeyboardInterrupt``,
                ``CancelledError``, ``GeneratorExit``, …): these never become results.
        """
        if self.given_up is not None:
            # What the action raised when it was told to stop is not hidden: it is the cause.
            raise self.given_up from (self.error if isinstance(self.error, Exception) else None)
        if self.refused is not None:
            raise self.refused
        if self.lease is None:
            return Skipped("not_elected" if self.elective and self.holder is None else "held", self.holder)
        error = self.error
        if self.told and isinstance(error, asyncio.CancelledError):
            error = None
        if error is not None and not isinstance(error, Exception):
            raise error
        if self.lost:
            return LeaseLost(self._values[0] if self._values else None, error, self.lease.token)
        if error is not None:
            return ActionFailed(error, self.lease.token)
        return Elected(self._values[0], self.lease.node_id, self.lease.token)

    def value(self) -> T | None:
        """The ending in the plain form: the action's value, or None where it did not run.

        Raises:
            LeaseLostError: the lease was lost before the action ended.
            BaseException: what the action raised; the caller's cancellation.
        """
        result = self.result()
        if isinstance(result, Elected):
            return result.value
        if isinstance(result, ActionFailed):
            raise result.cause
        if isinstance(result, LeaseLost):
            raise lost_error(self.name, result.token) from result.cause
        return None


def lost_error(name: str, token: int) -> LeaseLostError:
    """The error for work whose lease ended first."""
    return LeaseLostError(
        f"the lease on {name!r} (token {token}) was lost before the work under it ended; another may have held the name meanwhile",
        "guard what the work writes with the token; use a longer lease_time, or auto_extend=True",
    )


def not_granted(name: str) -> NotLeaderError:
    """The error for a ``with`` whose body needs the name and did not get it."""
    return NotLeaderError(
        f"{name!r} was not granted within the wait time: others hold it, or stand in line for it",
        "wait longer, or take leading(name, optional=True), which yields None then",
    )
