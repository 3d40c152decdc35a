"""What a holder knows of its lease: until when it certainly holds, and whether it was told that it is over.

Knows: deadlines by this process's own clock, the states of a handle. Must not know: how they are learned, frames, retries.

Looks come from any thread and recompute from the clock every time; new deadlines are written on the I/O thread only, and reading one is
reading one float. A state that was left is never entered again: lost stays lost, whatever answer comes late.
"""

from __future__ import annotations

import asyncio
from _thread import allocate_lock
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final, Literal, Protocol

from cluster.limits import CLOCK_DRIFT
from cluster.ports import Handle

if TYPE_CHECKING:
    from cluster.client.sessions import Session

Confidence = Literal["held", "uncertain", "lost"]

# Stamps are whole milliseconds, rounded down, so a lease may end up to 1 ms sooner than counted; the rest is for the timer that tells
# the holder to come late and the holder still to be first.
MARGIN_S: Final = 0.01
WARN_AT: Final = 0.8
# Renewal begins at a third; still not renewed at half of the lease is overdue.
UNCERTAIN_BELOW: Final = 0.5


def local_deadline(base: float, remaining_ms: int) -> float:
    """Until when an answer lets its receiver believe (I8).

    Args:
        base: when the frame was sent that the answering batch had heard of, by the receiver's clock.
        remaining_ms: what the answer said.
    """
    return base + remaining_ms * (1 - CLOCK_DRIFT) / 1000 - MARGIN_S


def counted_from(deadline: float, lease_ms: int) -> float:
    """The moment from which a full lease would end at ``deadline``: the inverse of ``local_deadline``."""
    return deadline + MARGIN_S - lease_ms * (1 - CLOCK_DRIFT) / 1000


class Owner(Protocol):
    """What a lease asks of its client. Any thread may call."""

    @property
    def clock(self) -> Callable[[], float]: ...
    @property
    def guard(self) -> AbstractContextManager[object]:
        """Held for a change of a lease's state, never longer. Reentrant: a collector that runs meanwhile may end a ``with`` of another
        lease, on the same thread."""

    def lease_over(self, core: LeaseCore, reason: str) -> None:
        """A look found that its time is over."""


class LeaseCore:
    """One granted lease. ``Lease`` and ``AsyncLease`` are views of it.

    Attributes:
        own_deadline: by this lease's own grants and extensions.
        session: the session that it hangs on, whose deadline counts too.
        reason: why it is over; empty while it is not.
        told: whether ``lost`` is set: it ended against the holder's will.
        given_back: whether the holder has let go of it.
    """

    __slots__ = (
        "acq_id",
        "auto_extend",
        "given_back",
        "lease_ms",
        "lost",
        "name",
        "node_id",
        "own_deadline",
        "owner",
        "reason",
        "session",
        "slot",
        "timer",
        "token",
        "told",
        "warned",
        "warnings",
    )

    def __init__(
        self, owner: Owner, name: bytes, acq_id: bytes, token: int, slot: int, node_id: bytes, lease_ms: int, auto_extend: bool
    ) -> None:
        self.owner = owner
        self.name = name
        self.acq_id = acq_id
        self.token = token
        self.slot = slot
        self.node_id = node_id
        self.lease_ms = lease_ms
        self.auto_extend = auto_extend
        self.own_deadline = 0.0
        self.session: Session | None = None
        self.reason = ""
        self.told = False
        self.given_back = False
        self.warned = False
        self.warnings = 0
        self.timer: Handle | None = None
        self.lost = LostEvent(self)

    @property
    def shown(self) -> str:
        return self.name.decode("ascii")

    def deadline(self) -> float:
        session = self.session
        own = self.own_deadline
        return own if session is None else max(own, session.deadline)

    def over(self) -> bool:
        """Look at the clock: whether this lease is over for its holder."""
        if self.reason:
            return True
        if self.owner.clock() < self.deadline():
            return False
        self.owner.lease_over(self, "expired")
        return True

    def remaining(self) -> float:
        if self.reason:
            return 0.0
        return max(0.0, self.deadline() - self.owner.clock())

    def confidence(self) -> Confidence:
        if self.over():
            return "lost"
        if self.auto_extend and self.remaining() < UNCERTAIN_BELOW * self.lease_ms / 1000:
            return "uncertain"
        return "held"

    def end(self, reason: str, *, told: bool) -> bool:
        """Enter the last state, once. Any thread. False if it was entered before."""
        with self.owner.guard:
            if self.reason:
                return False
            # In this order: who sees the reason without the guard must see whether it was a loss.
            self.told = told
            self.reason = reason
            return True

    def give_back(self) -> str | None:
        """The holder lets go, once. Any thread. None: it did so before; else why it was over already, or empty if it was not."""
        self.over()
        with self.owner.guard:
            if self.given_back:
                return None
            self.given_back = True
            reason = self.reason
            if not reason:
                self.reason = "released"
            return reason


class LostEvent:
    """Set when a lease ends against its holder's will: its time passed, it was revoked, a renewal was refused, the coordinator closes.

    A release by the holder does not set it, and ends every wait with False. Threads use ``wait``, tasks ``wait_async``; one event may
    be waited for by many of both. ``is_set`` looks at the clock, so it is right even while the I/O thread cannot run.
    """

    __slots__ = ("_callbacks", "_core")

    def __init__(self, core: LeaseCore) -> None:
        self._core = core
        self._callbacks: list[Callable[[], object]] | None = None

    @property
    def reason(self) -> str:
        """Why it is set: ``"expired"``, ``"revoked"``, ``"not_held"``, ``"closing"`` or ``"cluster_changed"``; empty while it is not."""
        return self._core.reason if self.is_set() else ""

    def is_set(self) -> bool:
        return self._core.over() and self._core.told

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the lease is lost.

        Args:
            timeout: seconds; None: until it is lost or released.

        Returns:
            True: it is lost. False: the timeout passed, or the holder released it, so that it can be lost no more.
        """
        clock = self._core.owner.clock
        until = None if timeout is None else clock() + timeout
        lock = allocate_lock()
        lock.acquire()
        cancel = self._add(lock.release)
        try:
            while not self._core.over():
                now = clock()
                if until is not None and now >= until:
                    return False
                # Not longer than the lease lasts, so that time alone is enough to be told.
                end = self._core.deadline() if until is None else min(until, self._core.deadline())
                lock.acquire(timeout=min(max(0.0, end - now) + 0.001, 3600.0))
        finally:
            cancel()
        return self._core.told

    async def wait_async(self) -> bool:
        """Like ``wait``, for a task. Cancelling the task leaves nothing behind."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle)

        def settle() -> None:
            if not future.done():
                future.set_result(None)

        cancel = self._add(tell)
        try:
            if not self._core.over():
                await future
        finally:
            cancel()
        return self._core.told

    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call ``callback`` once when the lease is lost, on the client's I/O thread: it must be quick and must not raise.

        Called at once if it is lost already; never after a release.

        Returns:
            A function that takes the callback back.
        """

        def call() -> None:
            if self._core.told:
                callback()

        return self._add(call)

    def _add(self, callback: Callable[[], object]) -> Callable[[], None]:
        core = self._core
        with core.owner.guard:
            late = bool(core.reason)
            if not late:
                if self._callbacks is None:
                    self._callbacks = []
                self._callbacks.append(callback)
        if late:
            callback()

        def cancel() -> None:
            with core.owner.guard:
                if self._callbacks is not None and callback in self._callbacks:
                    self._callbacks.remove(callback)

        return cancel

    def take_callbacks(self) -> list[Callable[[], object]]:
        """For the client, once the lease is over: whom to tell."""
        with self._core.owner.guard:
            callbacks, self._callbacks = self._callbacks, None
        return callbacks or []
