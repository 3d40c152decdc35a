"""Generators under a lease: who iterates drives, step by step, and the lease spans all steps.

Knows: the protocols of generators, blocking and asyncio; what the code of a step may see. Must not know: how a lease is acquired,
decorators.

Between two steps the generator stands still, and whoever iterates runs: that code is not under the lease. So the lease is put into the
context for each step alone; and only a step is cancelled when the lease is lost, never the code between.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, TypeVar

from cluster.client import AsyncLease
from tenure import context
from tenure._aio import BodyCancel, give_back
from tenure._engine import Run, lost_error
from tenure.context import AnyLease, NoLease

T = TypeVar("T")
Y = TypeVar("Y")
S = TypeVar("S")
R = TypeVar("R")


def drive(inner: Generator[Y, S, R], under: AnyLease | NoLease, *, stops: bool) -> Generator[Y, S, R]:
    """``yield from inner``, each step under the lease. ``inner`` is closed at the end, whatever that is.

    Args:
        stops: end the iteration before the next step once the lease is lost.

    Raises:
        LeaseLostError: only with ``stops``.
    """
    step: Callable[[], Y] = functools.partial(next, inner)
    try:
        while True:
            _check(under, stops)
            try:
                item = _within(under, step)
            except StopIteration as end:
                value: R = end.value
                return value
            try:
                sent = yield item
            except GeneratorExit:
                raise
            except BaseException as error:
                step = functools.partial(inner.throw, error)
            else:
                step = functools.partial(inner.send, sent)
    finally:
        _within(under, inner.close)


def _within(under: AnyLease | NoLease, step: Callable[[], T]) -> T:
    context.push(under)
    try:
        return step()
    finally:
        context.remove(under)


def _check(under: AnyLease | NoLease, stops: bool) -> None:
    if stops and not isinstance(under, NoLease) and under.lost.is_set():
        raise lost_error(under.name, under.token)


class AsyncSteps:
    """The steps of one async generator, and what comes after the last one: an async context manager around the iteration.

    On the way out the generator is closed and the lease, if there is one, given back.

    Args:
        run: of the lease, or of nothing.
        under: what the generator's code sees.
        inner: the generator, not begun.
        cancels: cancel a step whose lease is lost, and begin no other.
    """

    def __init__(
        self, run: Run[None], under: AsyncLease | NoLease, inner: AsyncGenerator[Any, Any], *, cancels: bool
    ) -> None:
        self.item: Any = None
        self._run = run
        self._under = under
        self._inner = inner
        self._lease = None if isinstance(under, NoLease) else under
        self._cancels = cancels
        self._step: Callable[[], Awaitable[Any]] = functools.partial(_first, inner)
        # Whether the generator stands at its ``yield``: only there its end may await.
        self._between = False
        self._last_chance: weakref.finalize[Any, Any] | None = None
        if self._lease is not None:
            # A loop that is closed finishes no generator.
            self._last_chance = weakref.finalize(self, _abandon, run, self._lease)
            self._last_chance.atexit = False
            run.granted(self._lease)

    async def __aenter__(self) -> AsyncSteps:
        return self

    async def more(self) -> bool:
        """Take the next step, in the task of who iterates. Returns whether there is an ``item``.

        Raises:
            LeaseLostError: the lease is lost, and this form cancels what runs under it.
            BaseException: of the generator.
        """
        self._between = False
        if not self._run.begun and self._lease is not None and not self._run.may_begin():
            raise lost_error(self._lease.name, self._lease.token)
        _check(self._under, self._cancels)
        try:
            self.item = await self._advance()
        except StopAsyncIteration:
            return False
        self._between = True
        return True

    def send(self, value: Any) -> None:
        """The next step sends ``value``."""
        self._step = functools.partial(self._inner.asend, value)

    def throw(self, error: BaseException) -> None:
        """The next step raises ``error`` at the generator's ``yield``."""
        self._step = functools.partial(self._inner.athrow, error)

    async def _advance(self) -> Any:
        lease, cancel = self._lease, None
        context.push(self._under)
        try:
            if self._cancels and lease is not None:
                cancel = BodyCancel(self._run)
                cancel.arm(lease)
            item = await self._step()
        except BaseException as error:
            if cancel is not None and cancel.ended(error) and lease is not None:
                raise lost_error(lease.name, lease.token) from None
            raise
        finally:
            context.remove(self._under)
        if cancel is not None:
            cancel.ended(None)
        return item

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        run, lease = self._run, self._lease
        if isinstance(error, GeneratorExit) and not (self._between and _loop_runs()):
            # The coroutine of a step is being closed, or no loop is left: nothing may be awaited.
            self._ended(error)
            if lease is not None:
                run.released = True
                lease.release_soon(run.outcome())
            return
        try:
            await self._close()
        except BaseException as late:
            error = late
            raise
        finally:
            self._ended(error)
            if lease is not None:
                await give_back(run, lease)
                if run.given_up is not None or error is None:
                    run.value()

    async def _close(self) -> None:
        context.push(self._under)
        try:
            await self._inner.aclose()
        finally:
            context.remove(self._under)

    def _ended(self, error: BaseException | None) -> None:
        if self._last_chance is not None:
            self._last_chance.detach()
        if error is None:
            self._run.completed(None)
        else:
            self._run.failed(error)


def _first(inner: AsyncGenerator[Y, S]) -> Awaitable[Y]:
    """The first step, of which the loop does not come to know: at its end it closes all generators that it knows at once, and this
    one must have ended before its lease is given back."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None)
    try:
        return inner.__anext__()
    finally:
        sys.set_asyncgen_hooks(firstiter=hooks.firstiter)


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _abandon(run: Run[None], lease: AsyncLease) -> None:
    """The iteration was left, and its end did not run."""
    if not run.released:
        lease.release_soon(run.outcome())
