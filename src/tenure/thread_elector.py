"""The thread forms: the action runs on a worker thread of the elector's own.

Knows: the elector's threads and when they end. Must not know: what an ending means (``_engine``), cancellations of the run (``_aio``),
how a lease travels.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from cluster.client import AsyncLease, Coordinator, checks
from cluster.errors import UsageError
from tenure._actions import check_sync, refuse_late
from tenure._asking import Many, One, Opt
from tenure._background import background
from tenure._detached import Call, Detached, under_lease
from tenure._engine import Run
from tenure._futures import RunFuture, ThreadFuture
from tenure._observers import Observers
from tenure._workers import Workers, in_worker
from tenure.options import ElectionOptions, GroupElectionOptions
from tenure.results import RunResult

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
Self = TypeVar("Self", bound="Threads[Any]")

CLOSE_LIMIT_S: Final = 5.0


class _Runs:
    """The threads of an elector and of its tenants' twins, and what goes on on them."""

    def __init__(self) -> None:
        self.workers = Workers("tenure-elector")
        self.live: set[RunFuture[Any]] = set()
        self.closed = False


class Threads(Detached[Opt]):
    """The thread form, for one leader or a group."""

    def __init__(self, coordinator: Coordinator, options: Opt, observers: Observers = ()) -> None:
        super().__init__(coordinator, options, observers)
        self._runs = _Runs()

    def run_if_leader(
        self, name: str, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> ThreadFuture[T | None]:
        """Run ``action(*args, **kwargs)`` on a thread of this elector if ``name`` is granted within ``wait_time``; returns at once.

        Waiting for a grant takes no thread. The future is done after the release. Giving it up ends the wait; an action that runs
        cannot be interrupted, and keeps its lease until it has ended.

        Args:
            name: what to lead.
            action: a function whose work is done when it returns, as for ``LeaderElector``. It sees the caller's context.

        Returns:
            A future of what the action returns, or of None when the name was not granted (the action did not run). Its errors are
            those of ``LeaderElector.run_if_leader``.

        Raises:
            UsageError: a bad name or action, or this elector is closed. Nothing was begun.
        """
        return self._run(name, Call(action, args, kwargs), Run[T].value)

    def run_if_leader_result(
        self, name: str, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> ThreadFuture[RunResult[T]]:
        """Like ``run_if_leader``, with the ending as a value: ``Elected``, ``Skipped``, ``ActionFailed`` or ``LeaseLost``."""
        return self._run(name, Call(action, args, kwargs), Run[T].result, holder=True)

    def _run(self, name: str, call: Call, ending: Callable[[Run[T]], R], *, holder: bool = False) -> ThreadFuture[R]:
        check_sync(call.action)
        runs = self._runs
        if runs.closed:
            raise UsageError("this elector is closed", "make another one")
        future = self._begin(name, call, ending, holder=holder)
        runs.live.add(future)
        future.add_done_callback(runs.live.discard)
        if runs.closed:
            # By another thread, which may not have seen this run.
            background().stop_waiting([future])
        return ThreadFuture(future)

    async def _work(self, run: Run[Any], lease: AsyncLease, call: Call) -> None:
        within = under_lease(lease)

        def work() -> None:
            if not run.may_begin():
                return
            try:
                value = call(within)
                run.refused = refuse_late(call.action, value)
                run.completed(value)
            except BaseException as error:
                run.failed(error)

        try:
            await in_worker(self._runs.workers, work)
        except RuntimeError:
            if not self._runs.closed:
                raise
            # Closed between its grant and its first step: given up like those who wait.
            raise asyncio.CancelledError from None

    def close(self, *, limit: checks.Seconds = CLOSE_LIMIT_S) -> bool:
        """Close: idempotent, and never a release under a running action. A tenant's twin shares the threads, and so the end.

        Runs that wait for their name are given up. Actions that run have ``limit`` seconds (0 to 1 day) to end; what still runs
        then goes on, under its lease, on a thread that does not keep the interpreter from ending.

        Returns:
            Whether everything has ended.

        Raises:
            UsageError: a bad ``limit``.
        """
        limit_s = checks.limit_s(limit, "limit")
        runs = self._runs
        runs.closed = True
        live = list(runs.live)
        background().stop_waiting(live)
        pending = concurrent.futures.wait(live, limit_s).not_done
        return runs.workers.close(0.0 if pending else limit_s) and not pending

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ThreadLeaderElector(One, Threads[ElectionOptions]):
    """Run a plain function only where its name is granted, on a thread of this elector. For callers that must not block.

    One elector may be used by many threads and loops. It is not reentrant: a nested call for the same name is an ordinary contender.
    Close it, or use it in a ``with``; at the end of the interpreter what waits is given up, and what runs has 1.5 s to end.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect`` or ``tenure.local``.
        options: see ``ElectionOptions``. A running function cannot be cancelled, so ``on_lost="cancel"`` is refused.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.

    >>> import tenure
    >>> with tenure.local() as coordinator, tenure.ThreadLeaderElector(coordinator) as elector:
    ...     elector.run_if_leader("nightly-report", lambda: "done").result()
    'done'
    """


class ThreadLeaderGroupElector(Many, Threads[GroupElectionOptions]):
    """``ThreadLeaderElector`` for up to ``max_leaders`` at once: each leads a slot of its own, under a token of its own.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect`` or ``tenure.local``.
        options: see ``GroupElectionOptions``. ``on_lost="cancel"`` is refused.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.
    """
