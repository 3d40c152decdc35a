"""The future forms: the action starts work and returns its future; the lease is held until that is done.

Knows: ``concurrent.futures``. Must not know: what an ending means (``_engine``), cancellations of the run (``_aio``), how a lease travels.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

from cluster.client import AsyncLease
from tenure._actions import called_off, check_sync
from tenure._aio import call_loop
from tenure._asking import Many, One, Opt
from tenure._background import background
from tenure._detached import Call, Detached, under_lease
from tenure._engine import Run
from tenure._workers import in_worker
from tenure.options import ElectionOptions, GroupElectionOptions
from tenure.results import RunResult

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Futures(Detached[Opt]):
    """The future form, for one leader or a group."""

    _cancellable = True

    def run_if_leader(
        self, name: str, action: Callable[P, Future[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[T | None]:
        """Call ``action(*args, **kwargs)`` on a thread if ``name`` is granted within ``wait_time``; returns at once.

        The lease is held until the future that the action returns (the inner one) is done; the future returned here (the outer one)
        is done after the release. Cancelling the outer one ends the wait, or cancels the inner one; the lease is kept until that
        has ended, and only then the outer one is cancelled.

        Args:
            name: what to lead.
            action: a function that begins the work and returns its ``concurrent.futures.Future``. It sees the caller's context.

        Returns:
            A future of the inner one's value, or of None when the name was not granted (the action did not run). Its errors are
            those of ``LeaderElector.run_if_leader``; what the inner one raised is raised unchanged.

        Raises:
            UsageError: a bad name or action. Nothing was begun.
        """
        check_sync(action)
        return self._begin(name, Call(action, args, kwargs), Run[T].value)

    def run_if_leader_result(
        self, name: str, action: Callable[P, Future[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Future[RunResult[T]]:
        """Like ``run_if_leader``, with the ending as a value: ``Elected``, ``Skipped``, ``ActionFailed`` or ``LeaseLost``."""
        check_sync(action)
        return self._begin(name, Call(action, args, kwargs), Run[T].result, holder=True)

    async def _work(self, run: Run[Any], lease: AsyncLease, call: Call) -> None:
        within = under_lease(lease)
        inner: list[Future[Any]] = []

        def start() -> None:
            if not run.may_begin():
                return
            try:
                started = call(within)
                if isinstance(started, Future):
                    inner.append(started)
                else:
                    run.refused = called_off(call.action, started)
            except BaseException as error:
                run.failed(error)

        cancelled = await in_worker(background().workers, start)
        if inner:
            await _follow(run, inner[0], cancelled=cancelled)


async def _follow(run: Run[Any], inner: Future[Any], *, cancelled: bool) -> None:
    """Wait until the inner future is done; a cancellation of this task is passed on to it and does not end the waiting."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    inner.add_done_callback(lambda _: call_loop(loop, lambda: done.set_result(None)))
    while not done.done():
        if cancelled:
            _call_off(inner)
        try:
            await asyncio.wait({done})
            cancelled = False
        except asyncio.CancelledError:
            cancelled = True
    if inner.cancelled():
        run.failed(asyncio.CancelledError())
    elif (error := inner.exception()) is not None:
        run.failed(error)
    else:
        run.completed(inner.result())


def _call_off(inner: Future[Any]) -> None:
    """Cancel it, whatever happens: whoever waits for its end must go on waiting."""
    try:
        # On a thread, since it calls whoever waits for that future.
        background().workers.submit(inner.cancel)
    except RuntimeError:
        # No thread is to be had.
        try:
            inner.cancel()
        except BaseException:
            log.exception("future.cancel_raised")


class FutureLeaderElector(One, Futures[ElectionOptions]):
    """Start work only where its name is granted, and hold the name until the work's future is done. For callers that must not block.

    One elector may be used by many threads. It is not reentrant: a nested call for the same name is an ordinary contender.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect`` or ``tenure.local``.
        options: see ``ElectionOptions``. ``on_lost`` is ``"cancel"`` unless said otherwise: a lost lease cancels the inner future,
            which may have begun and go on all the same; the outcome is ``LeaseLost`` then too.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.

    >>> import tenure
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with tenure.local() as coordinator, ThreadPoolExecutor() as pool:
    ...     elector = tenure.FutureLeaderElector(coordinator)
    ...     elector.run_if_leader("nightly-report", pool.submit, lambda: "done").result()
    'done'
    """


class FutureLeaderGroupElector(Many, Futures[GroupElectionOptions]):
    """``FutureLeaderElector`` for up to ``max_leaders`` at once: each leads a slot of its own, under a token of its own.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect`` or ``tenure.local``.
        options: see ``GroupElectionOptions``.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.
    """
