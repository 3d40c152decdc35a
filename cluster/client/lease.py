"""What a caller holds: leases, for threads and for tasks.

Knows: the verbs of a handle. Must not know: frames, retries, timers. All handles of one grant share one core.
"""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import TYPE_CHECKING

from cluster.client import answers, checks
from cluster.client.core import Confidence, LeaseCore, LostEvent
from cluster.client.errands import ExtendCall, ReleaseCall, VerifyCall
from cluster.client.handoff import LoopWaiter, ThreadWaiter, Waiter
from cluster.client.values import ExtendOutcome, NotHeld
from cluster.errors import CoordinationError
from cluster.opcodes import Outcome

if TYPE_CHECKING:
    from cluster.client.port import Port

logger = logging.getLogger(__name__)

# Why a lease is over, where a release is still worth waiting for: it frees the name before its time.
_WORTH_RELEASING = frozenset(("", "revoked", "closing"))


def outcome_of(error: BaseException | None) -> Outcome:
    """How a ``with`` body ended."""
    if error is None:
        return Outcome.COMPLETED
    return Outcome.FAILED if isinstance(error, Exception) else Outcome.CANCELLED


class Handle:
    """What both kinds of leases have in common: everything that needs no waiting. Safe to use from any thread."""

    __slots__ = ("_core", "_port")

    def __init__(self, port: Port, core: LeaseCore) -> None:
        self._port = port
        self._core = core

    @property
    def name(self) -> str:
        """What is led, as it is stored."""
        return self._core.shown

    @property
    def token(self) -> int:
        """The fencing token: new and larger at every grant."""
        return self._core.token

    @property
    def slot(self) -> int:
        return self._core.slot

    @property
    def node_id(self) -> str:
        """What people see of the holder."""
        return self._core.node_id.decode("utf-8", "replace")

    @property
    def lease_time(self) -> float:
        """Seconds that were asked for."""
        return self._core.lease_ms / 1000

    def remaining(self) -> float:
        """Seconds for which the lease certainly lasts, by this process's own clock; 0.0 when it is over or released.

        Conservative: counted from when the request was sent, less 1 % for clocks that differ in rate, less 10 ms. An auto-extended
        lease's remaining time goes up again at every renewal.
        """
        return self._core.remaining()

    @property
    def confidence(self) -> Confidence:
        """``"held"``; ``"uncertain"``: auto-extended, and its renewal is overdue though the deadline is not reached; or ``"lost"``: over,
        or released. Every look recomputes it from the clock."""
        return self._core.confidence()

    @property
    def lost(self) -> LostEvent:
        """Set when the lease ends against its holder's will."""
        return self._core.lost

    @property
    def warnings(self) -> int:
        """How often it was warned that 80 % of the lease's time had passed: a lease that is not auto-extended is too short for its work."""
        return self._core.warnings

    def check(self) -> None:
        """Go on only while the lease is not over.

        Raises:
            LeaseLostError: it is lost, or was released.
        """
        core = self._core
        if core.over():
            raise answers.lost(core.shown, core.token, core.reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} slot={self.slot} token={self.token} {self.confidence}>"

    def __del__(self) -> None:
        # An interrupted ``__init__`` leaves a handle of nothing.
        core = getattr(self, "_core", None)
        if core is not None and core.auto_extend and not core.reason and not self._port.engine.closing:
            # Maybe its work is dead, maybe it runs without looking back: nothing is released under running work.
            logger.warning(
                "lease.handle_dropped name=%s token=%d hint=nobody can release it, and it is renewed until the coordinator closes",
                core.shown, core.token,
            )  # fmt: skip

    def _extending(self, lease_time: object, waiter: Waiter) -> bool:
        """Begin an extension. False: it is over already, nothing is asked."""
        core, port = self._core, self._port
        lease_ms = core.lease_ms if lease_time is None else checks.lease_ms(lease_time)
        port.engine.check_process()
        if core.over() or port.engine.stopped:
            return False
        call = ExtendCall(port.engine, core, lease_ms, port.timeout_s, waiter)
        return port.hand_over(call.begin)

    def _verifying(self, waiter: Waiter) -> VerifyCall:
        """Begin to ask the raft group. Raises LeaseLostError if it is over already."""
        port = self._port
        port.engine.check_process()
        self.check()
        call = VerifyCall(port.engine, self._core, port.timeout_s, waiter)
        if port.engine.stopped or not port.hand_over(call.begin):
            raise answers.closing(call.about)
        return call

    def release_soon(self, outcome: Outcome = Outcome.COMPLETED) -> None:
        """Begin to give the name back, and do not wait: for who cannot, such as a coroutine that is being closed.

        From any thread, also the coordinator's I/O thread. Idempotent, and the last word like ``release``.

        Raises:
            UsageError: called in a forked child.
        """
        self._releasing(outcome, None)

    def _releasing(self, outcome: Outcome, waiter: Waiter | None) -> str | None:
        """Begin a release. Returns why the lease was over before (empty: it was not), or None if there is nothing to wait for."""
        core, port = self._core, self._port
        port.engine.check_process()
        outcome = Outcome(outcome)
        try:
            reason = core.give_back()
            if reason is None or port.engine.stopped:
                return None
            worth_it = reason in _WORTH_RELEASING
            call = ReleaseCall(port.engine, core, outcome, port.timeout_s, waiter if worth_it else None)
            return reason if port.hand_over(call.begin) and worth_it else None
        except BaseException:
            # Ctrl-C in between: the lease is given back here, and maybe not a word of it was sent. Said twice it does no harm.
            if core.given_back:
                port.hand_over(ReleaseCall(port.engine, core, outcome, port.timeout_s, None).begin)
            raise

    def _unreleased(self, error: CoordinationError) -> None:
        """The body of a ``with`` has ended in its own way; that the release is not confirmed is only said."""
        logger.warning("lease.release_unconfirmed name=%s token=%d error=%s", self.name, self.token, error)


class Lease(Handle):
    """One grant, for blocking callers. Single-use: once released or lost it never comes back; acquire again.

    Keep it while the work runs. An auto-extended lease whose handle is dropped without a release goes on being renewed, with a warning in
    the log: the work under it may still be running.

    ``with lease:`` raises ``LeaseLostError`` on entry if it is over already, releases on every way out, and never hides what its
    body raised. Where a collector ends it and waiting would never end, as on the coordinator's I/O thread, it only begins the release.
    """

    __slots__ = ()

    def extend(self, lease_time: checks.Seconds | None = None) -> ExtendOutcome:
        """Make the lease last ``lease_time`` from now, if that is longer than it lasts anyway. The token stays.

        Args:
            lease_time: seconds, 0.1 to 7 days; None: as long as it was acquired for.

        Returns:
            ``Extended(remaining)``, ``NotHeld`` (over: nothing changed), or ``Unknown`` (no answer within the coordinator's timeout;
            the old deadline holds, and may have been prolonged).

        Raises:
            UsageError: a bad ``lease_time``, or called on the coordinator's I/O thread or in a forked child.
        """
        self._port.engine.check_blocking()
        waiter = ThreadWaiter()
        if not self._extending(lease_time, waiter):
            return NotHeld()
        outcome: ExtendOutcome = self._port.wait(waiter)
        return outcome

    def verify(self) -> None:
        """``check``, and ask the raft group, which answers for the moment between this call and its return.

        Raises:
            LeaseLostError: it is lost, or was released.
            Unavailable: no answer within the coordinator's timeout; nothing is known but what ``check`` says.
            UsageError: called on the coordinator's I/O thread or in a forked child.
        """
        port = self._port
        port.engine.check_blocking()
        waiter = ThreadWaiter()
        call = self._verifying(waiter)
        try:
            port.wait(waiter)
        except BaseException:
            port.hand_over(port.engine.withdraw, call)
            raise

    def release(self, outcome: Outcome = Outcome.COMPLETED) -> bool:
        """Give the name back, now. Idempotent; never frees a successor's lease.

        Args:
            outcome: how the work ended. ``NOT_STARTED``: ``min_lease_time`` is not applied.

        Returns:
            True: it was this holder's until now. False: it was over before, or released already.

        Raises:
            Unavailable, Indeterminate: no answer within the coordinator's timeout. The release goes on in the background until the
                lease could have expired by itself.
            UsageError: called on the coordinator's I/O thread or in a forked child.
        """
        self._port.engine.check_blocking()
        waiter = ThreadWaiter()
        reason = self._releasing(outcome, waiter)
        if reason is None:
            return False
        freed: bool = self._port.wait(waiter)
        return freed and reason != "revoked"

    def __enter__(self) -> Lease:
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = outcome_of(error)
        try:
            if self._port.engine.blocks_itself():
                # A generator may be collected, and its ``with`` left, anywhere.
                self.release_soon(outcome)
            else:
                self.release(outcome)
        except CoordinationError as failure:
            if error is None and isinstance(failure, ValueError):
                raise
            self._unreleased(failure)


class AsyncLease(Handle):
    """One grant, for tasks: ``Lease`` with ``extend`` and ``release`` to be awaited, and ``async with``, which does not wait for the
    release when the coroutine or generator around it is closed.

    Cancelling a task that awaits ``release`` does not stop the release.
    """

    __slots__ = ("_twin",)

    def for_threads(self) -> Lease:
        """The same grant for blocking callers. It lives as long as this handle, so that neither is taken for dropped by itself."""
        twin: Lease | None = getattr(self, "_twin", None)
        if twin is None:
            twin = self._twin = Lease(self._port, self._core)
        return twin

    async def extend(self, lease_time: checks.Seconds | None = None) -> ExtendOutcome:
        """See ``Lease.extend``."""
        waiter = LoopWaiter()
        if not self._extending(lease_time, waiter):
            return NotHeld()
        outcome: ExtendOutcome = await waiter.future
        return outcome

    async def verify(self) -> None:
        """See ``Lease.verify``."""
        waiter = LoopWaiter()
        call = self._verifying(waiter)
        try:
            await waiter.future
        except BaseException:
            self._port.hand_over(self._port.engine.withdraw, call)
            raise

    async def release(self, outcome: Outcome = Outcome.COMPLETED) -> bool:
        """See ``Lease.release``."""
        freed = await self.begin_release(outcome)
        return freed and self._core.reason != "revoked"

    def begin_release(self, outcome: Outcome = Outcome.COMPLETED) -> asyncio.Future[bool]:
        """``release``, under way when this returns, whether or not anyone awaits its end: whether the cluster freed the name."""
        waiter = self._release_waiter(outcome)
        if self._releasing(outcome, waiter) is None:
            waiter.settle(False, None)
        return waiter.future

    def _release_waiter(self, outcome: Outcome) -> LoopWaiter:
        try:
            return LoopWaiter()
        except BaseException:
            # No loop runs: a body that was closed ends in an error of its own. Nobody can wait for what is given back all the same.
            self.release_soon(outcome)
            raise

    async def __aenter__(self) -> AsyncLease:
        self.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = outcome_of(error)
        try:
            if isinstance(error, GeneratorExit):
                # What is being closed must not await.
                self.release_soon(outcome)
            else:
                await self.release(outcome)
        except CoordinationError as failure:
            if error is None and isinstance(failure, ValueError):
                raise
            self._unreleased(failure)
