"""The asyncio forms: the action runs as a child task of its caller.

Knows: what an asyncio action is, and the body of an ``async with``. Must not know: what an ending means (``_engine``), cancellations
(``_aio``), names and options (``_asking``), how a lease travels (the coordinator).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, overload

from cluster.client import AsyncLease, LeaderGroupState, LeaderState
from cluster.errors import UsageError
from tenure import context
from tenure._actions import check_async, not_awaitable
from tenure._aio import BodyCancel, find_holder, give_back, lead
from tenure._asking import Asking, ManyLeaders, OneLeader, Opt
from tenure._engine import Run, not_granted
from tenure.options import ElectionOptions, GroupElectionOptions
from tenure.results import RunResult

P = ParamSpec("P")
T = TypeVar("T")
L = TypeVar("L", bound="AsyncLease | None")


class Tasks(Asking[Opt]):
    """The asyncio form, for one leader or a group."""

    _cancellable = True

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
            await find_holder(run, self._coordinator.aio)
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

    async def _acquire(self, stored: str) -> AsyncLease | None:
        return await self._coordinator.aio.acquire(stored, **self._request())

    async def _run(
        self, name: str, action: Callable[..., Awaitable[T]], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Run[T]:
        check_async(action)
        run: Run[T] = self._new_run(name)

        async def work(run: Run[T], lease: AsyncLease) -> None:
            await _invoke(run, action, args, kwargs)

        await lead(run, self._acquire, work, cancels=self._cancels)
        return run


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


class AsyncOne(OneLeader):
    """The state of one leader, for tasks."""

    async def state(self, name: str, *, consistent: bool = False) -> LeaderState:
        """Who leads ``name`` now: see ``LeaderElector.state``."""
        return self._shown(name, await self._coordinator.aio.state(self._stored(name), consistent=consistent))


class AsyncLeaderElector(AsyncOne, Tasks[ElectionOptions]):
    """Run a coroutine function only where its name is granted.

    One elector may be used by many tasks and loops. It is not reentrant: a nested call for the same name is an ordinary contender.
    The action runs in a child task: it sees the caller's context variables, and what it sets stays its own.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect``, ``tenure.local``, or their twins in ``tenure.aio``.
        options: see ``ElectionOptions``. ``on_lost`` is ``"cancel"`` unless said otherwise.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.

    >>> import asyncio, tenure
    >>> async def report() -> str:
    ...     return "done"
    >>> async def main() -> str | None:
    ...     with tenure.local() as coordinator:
    ...         return await tenure.AsyncLeaderElector(coordinator).run_if_leader("nightly-report", report)
    >>> asyncio.run(main())
    'done'
    """


class AsyncLeaderGroupElector(ManyLeaders, Tasks[GroupElectionOptions]):
    """``AsyncLeaderElector`` for up to ``max_leaders`` at once: each leads a slot of its own, under a token of its own.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect``, ``tenure.local``, or their twins in ``tenure.aio``.
        options: see ``GroupElectionOptions``. ``on_lost`` is ``"cancel"`` unless said otherwise.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.
    """

    async def group_state(self, name: str, *, consistent: bool = False) -> LeaderGroupState:
        """Who leads the slots of ``name`` now: see ``LeaderGroupElector.group_state``."""
        return self._shown_group(
            name, await self._coordinator.aio.group_state(self._stored(name), consistent=consistent)
        )


class AsyncLeading(Generic[L]):
    """What ``leading`` of an asyncio elector returns; good for one ``async with``."""

    def __init__(self, elector: Tasks[Any], name: str, optional: bool) -> None:
        self._elector = elector
        self._optional = optional
        self._run: Run[None] = elector._new_run(name)
        self._entered = False
        self._lease: AsyncLease | None = None
        self._cancel: BodyCancel | None = None

    async def __aenter__(self) -> L:
        if self._entered:
            raise UsageError(f"leading({self._run.name!r}) was entered twice", "call leading(name) for each with block")
        self._entered = True
        cancel = BodyCancel(self._run) if self._elector._cancels else None
        try:
            lease = await self._elector._acquire(self._run.name)
        except BaseException as error:
            self._run.unanswered(error)
            raise
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
        else:
            self._run.passed_over()
            if not self._optional:
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
