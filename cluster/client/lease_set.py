"""Leases that were granted together, for threads and for tasks.

Knows: how one verb for many leases ends. Must not know: frames, retries, timers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType

from cluster.client import checks
from cluster.client.handoff import LoopWaiter, ThreadWaiter
from cluster.client.lease import AsyncLease, Handle, Lease, outcome_of
from cluster.client.values import Extended, ExtendOutcome, NotHeld, Unknown
from cluster.errors import CoordinationError
from cluster.opcodes import Outcome


def joined(outcomes: Iterable[ExtendOutcome]) -> ExtendOutcome:
    """One outcome for all: the worst, and of extensions the shortest."""
    found = list(outcomes)
    if any(isinstance(outcome, NotHeld) for outcome in found):
        return NotHeld()
    remaining = [outcome.remaining for outcome in found if isinstance(outcome, Extended)]
    return Extended(min(remaining)) if len(remaining) == len(found) else Unknown()


def _release_soon(leases: Iterable[Handle], outcome: Outcome) -> None:
    for lease in leases:
        lease.release_soon(outcome)


class LeaseSet(tuple[Lease, ...]):
    """Leases that were granted together, in the order of their names. ``with`` as of a ``Lease``."""

    __slots__ = ()

    def check(self) -> None:
        """Raises LeaseLostError if any of them is over."""
        for lease in self:
            lease.check()

    def extend(self, lease_time: checks.Seconds | None = None) -> ExtendOutcome:
        """Extend each. ``NotHeld`` if any is over, else ``Unknown`` if any is not known, else the shortest ``Extended``."""
        waiting: list[tuple[Lease, ThreadWaiter]] = []
        outcomes: list[ExtendOutcome] = []
        for lease in self:
            lease._port.engine.check_blocking()
            waiter = ThreadWaiter()
            if lease._extending(lease_time, waiter):
                waiting.append((lease, waiter))
            else:
                outcomes.append(NotHeld())
        outcomes.extend(lease._port.wait(waiter) for lease, waiter in waiting)
        return joined(outcomes)

    def release(self, outcome: Outcome = Outcome.COMPLETED) -> bool:
        """Release each, all under way at once. True if all were held until now. Raises as ``Lease.release``, after all were tried."""
        waiting: list[tuple[Lease, str, ThreadWaiter]] = []
        for lease in self:
            lease._port.engine.check_blocking()
            waiter = ThreadWaiter()
            try:
                reason = lease._releasing(outcome, waiter)
            except BaseException:
                # Ctrl-C in between: those that were not reached yet are given back, too.
                _release_soon(self, outcome)
                raise
            if reason is not None:
                waiting.append((lease, reason, waiter))
        ours = len(waiting) == len(self)
        failure: CoordinationError | None = None
        for lease, reason, waiter in waiting:
            try:
                ours = bool(lease._port.wait(waiter)) and reason != "revoked" and ours
            except CoordinationError as error:
                failure = error
        if failure is not None:
            raise failure
        return ours

    def __enter__(self) -> LeaseSet:
        self.check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = outcome_of(error)
        try:
            if any(lease._port.engine.blocks_itself() for lease in self):
                _release_soon(self, outcome)
            else:
                self.release(outcome)
        except CoordinationError as failure:
            if error is None and isinstance(failure, ValueError):
                raise
            self[0]._unreleased(failure)


class AsyncLeaseSet(tuple[AsyncLease, ...]):
    """``LeaseSet`` for tasks."""

    __slots__ = ()

    def check(self) -> None:
        """Raises LeaseLostError if any of them is over."""
        for lease in self:
            lease.check()

    async def extend(self, lease_time: checks.Seconds | None = None) -> ExtendOutcome:
        """See ``LeaseSet.extend``."""
        return joined(await asyncio.gather(*(lease.extend(lease_time) for lease in self)))

    async def release(self, outcome: Outcome = Outcome.COMPLETED) -> bool:
        """See ``LeaseSet.release``."""
        # All are under way before the first is waited for, so that a cancelled caller leaves none unreleased.
        waiting: list[tuple[str, LoopWaiter]] = []
        for lease in self:
            try:
                waiter = LoopWaiter()
                reason = lease._releasing(outcome, waiter)
            except BaseException:
                # No loop runs, as in ``AsyncLease``, or Ctrl-C in between.
                _release_soon(self, outcome)
                raise
            if reason is not None:
                waiting.append((reason, waiter))
        ours = len(waiting) == len(self)
        failure: CoordinationError | None = None
        try:
            for reason, waiter in waiting:
                try:
                    ours = bool(await waiter.future) and reason != "revoked" and ours
                except CoordinationError as error:
                    failure = error
        finally:
            for _, waiter in waiting:
                waiter.future.cancel()
        if failure is not None:
            raise failure
        return ours

    async def __aenter__(self) -> AsyncLeaseSet:
        self.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = outcome_of(error)
        try:
            if isinstance(error, GeneratorExit):
                _release_soon(self, outcome)
            else:
                await self.release(outcome)
        except CoordinationError as failure:
            if error is None and isinstance(failure, ValueError):
                raise
            self[0]._unreleased(failure)
