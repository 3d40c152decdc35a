"""The asyncio elector: the action runs as a child task of its caller.

Knows: the order acquire, run, release, for tasks. Must not know: what an ending means (``_engine``), cancellations (``_aio``), how a
lease travels (the coordinator).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Generic, Literal, ParamSpec, TypeVar, cast, overload

from cluster.client import AsyncLease, Coordinator, LeaderState
from cluster.errors import CoordinationError, UsageError
from tenure import context
from tenure._actions import check_async, not_awaitable
from tenure._aio import BodyCancel, attend, give_back, keep_private, leave
from tenure._engine import HOLDER_TIMEOUT_S, Run, not_granted
from tenure.options import ElectionOptions
from tenure.results import RunResult

P = ParamSpec("P")
T = TypeVar("T")
L = TypeVar("L", bound="AsyncLease | None")


class AsyncLeaderElector:
    """Run a coroutine function only where its name is granted.

    One elector may be used by many tasks and loops. It is not reentrant: a nested call for the same name is an ordinary contender.
    The action runs in a child task: it sees the caller's context variables, and what it sets stays its own.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect``, ``tenure.local``, or their twins in ``tenure.aio``.
        options: see ``ElectionOptions``. ``on_lost`` is ``"cancel"`` unless said otherwise.

    >>> import asyncio, tenure
    >>> async def report() -> str:
    ...     return "done"
    >>> async def main() -> str | None:
    ...     with tenure.local() as coordinator:
    ...         return await tenure.AsyncLeaderElector(coordinator).run_if_leader("nightly-report", report)
    >>> asyncio.run(main())
    'done'
    """

    def __init__(self, coordinator: Coordinator, options: ElectionOptions | None = None) -> None:
        self.options = ElectionOptions() if options is None else options
        self._coordinator = coordinator

    async def run_if_leader(
        self, name: str, action: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Await ``action(*args, **kwargs)`` if this caller is granted ``name`` within ``wait_time``.

        Cancelling the call cancels the action, waits for it to end, releases, and raises ``CancelledError``: always, also when the
        action swallows its cancellation or has just ended.

        Args:
            name: what to lead.
            action: a coroutine function; or a lambda, or another object that can be called, that returns an awaitable.

        Returns:
            What the action returned, or None when the name was not granted (the action did not run).

        Raises:
            LeaseLostError: the lease was lost while the action ran; what the action raised is its ``__cause__``.
            Unavailable: no raft leader with a majority; the action did not run.
            Indeterminate: it could not be settled in time whether the name was granted; the action did not run.
            UsageError: a bad name or action.
            BaseException: what the action raised, unchanged, after the release.
        """
        return (await self._run(name, action, args, kwargs)).value()

    async def run_if_leader_result(
        self, name: str, action: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> RunResult[T]:
        """Like ``run_if_leader``, with the ending as a value: ``Elected``, ``Skipped``, ``ActionFailed`` or ``LeaseLost``.

        Raises:
            Unavailable, Indeterminate, UsageError: as ``run_if_leader``.
            BaseException: what the action raised that is no ``Exception``; the caller's ``CancelledError``.
        """
        run = await self._run(name, action, args, kwargs)
        if run.lease is None:
            run.holder = await self._holder(name)
        return run.result()

    @overload
    def leading(self, name: str, *, optional: Literal[False] = False) -> AsyncLeading[AsyncLease]: ...
    @overload
    def leading(self, name: str, *, optional: bool) -> AsyncLeading[AsyncLease | None]: ...
    def leading(
        self, name: str, *, optional: bool = False
    ) -> AsyncLeading[AsyncLease] | AsyncLeading[AsyncLease | None]:
        """An async context manager whose body runs while ``name`` is held.

        The lease is released on every way out of the body, also when the generator around it is closed. The body's own
        exception wins; a body that ends by itself, or by our cancellation, after its lease was lost ends in ``LeaseLostError``.
        With ``on_lost="cancel"`` the task that entered is cancelled, as ``asyncio.timeout`` does it. On Python 3.10 a
        cancellation by others in the very same turn of the loop cannot be told apart from that one.

        Args:
            name: what to lead.
            optional: yield None when the name is not granted, instead of raising.

        Raises:
            NotLeaderError: on entry, when not granted within ``wait_time`` and not ``optional``.
            Unavailable, Indeterminate, UsageError: on entry.
            LeaseLostError: on exit.
        """
        return AsyncLeading(self, name, optional)

    async def state(self, name: str) -> LeaderState:
        """Who leads ``name`` now: a snapshot for people, never for deciding to run."""
        return await self._coordinator.aio.state(name)

    @property
    def _cancels(self) -> bool:
        return self.options.on_lost != "signal"

    async def _acquire(self, name: str) -> AsyncLease | None:
        options = self.options
        return await self._coordinator.aio.acquire(
            name,
            lease_time=options.lease_time,
            wait_time=options.wait_time,
            min_lease_time=options.min_lease_time,
            auto_extend=options.auto_extend,
            node_id=options.node_id,
        )

    async def _holder(self, name: str) -> str | None:
        try:
            leader = (await self._coordinator.aio.state(name, timeout=HOLDER_TIMEOUT_S)).leader
        except CoordinationError:
            # The run was skipped either way; who holds the name is for people to read.
            return None
        return None if leader is None else leader.node_id

    async def _run(
        self, name: str, action: Callable[..., Awaitable[T]], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Run[T]:
        check_async(action)
        run: Run[T] = Run(name)
        lease = await self._acquire(name)
        if lease is None:
            return run
        # Nothing is awaited between the grant and the ``try``, so no cancellation comes between them.
        run.granted(lease)
        try:
            await self._work(run, lease, action, args, kwargs)
        finally:
            await give_back(run, lease)
        return run

    async def _work(
        self,
        run: Run[T],
        lease: AsyncLease,
        action: Callable[..., Awaitable[T]],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        context.push(lease)
        try:
            task = asyncio.get_running_loop().create_task(_invoke(run, action, args, kwargs), name=f"tenure {run.name}")
        finally:
            context.remove(lease)
        keep_private(task)
        try:
            await attend(run, lease, task, cancels=self._cancels)
        except GeneratorExit:
            leave(run, lease, task)
            raise


async def _invoke(
    run: Run[T], action: Callable[..., Awaitable[T]], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    """The child task. Cancelled before its first step, it has never begun."""
    if run.may_begin():
        work = action(*args, **kwargs)
        if inspect.isawaitable(work):
            run.completed(await work)
        else:
            run.refused = not_awaitable(action, work)


class AsyncLeading(Generic[L]):
    """What ``AsyncLeaderElector.leading`` returns; good for one ``async with``."""

    def __init__(self, elector: AsyncLeaderElector, name: str, optional: bool) -> None:
        self._elector = elector
        self._optional = optional
        self._run: Run[None] = Run(name)
        self._entered = False
        self._lease: AsyncLease | None = None
        self._cancel: BodyCancel | None = None

    async def __aenter__(self) -> L:
        if self._entered:
            raise UsageError(f"leading({self._run.name!r}) was entered twice", "call leading(name) for each with block")
        self._entered = True
        cancel = BodyCancel(self._run) if self._elector._cancels else None
        lease = await self._elector._acquire(self._run.name)
        if lease is not None:
            self._run.granted(lease)
            if not self._run.may_begin():
                await give_back(self._run, lease)
                self._run.value()
            self._lease = lease
            context.push(lease)
            if cancel is not None:
                cancel.arm(lease)
                self._cancel = cancel
        elif not self._optional:
            raise not_granted(self._run.name)
        return cast(L, lease)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        lease, run = self._lease, self._run
        if lease is None:
            return
        by_us = self._cancel is not None and self._cancel.ended(error)
        context.remove(lease)
        if error is None:
            run.completed(None)
        else:
            run.failed(error)
        if isinstance(error, GeneratorExit):
            # A coroutine that is being closed must not await; a release that is under way needs nobody to wait for it.
            run.released = True
            lease.release_soon(run.outcome())
            return
        await give_back(run, lease)
        if error is None or by_us or run.given_up is not None:
            run.value()
