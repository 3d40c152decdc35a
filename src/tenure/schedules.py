"""Schedules: a function that runs at certain times, each time in one process of all that have the same schedule.

Knows: when to ask, the mark that says which time was run for last. Must not know: when times are
(``_ticks``), how a run goes (the electors).

The mark is a record that only a holder of the schedule's name can write. It is written before the work begins: so a time is run for once
at most, whatever fails in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import Any, Final, overload

from cluster.client import Record, checks, must_not_wait
from cluster.env import entropy
from cluster.errors import CoordinationError, UsageError
from tenure import context
from tenure._actions import check_async, check_sync, not_awaitable, refuse_late
from tenure._aio import find_holder
from tenure._engine import Run
from tenure._standing import Standing
from tenure._ticks import RETRY_MS, CatchUp, Plan
from tenure.aio_elector import AsyncLeaderElector
from tenure.elector import LeaderElector
from tenure.results import ActionFailed, LeaseLost, RunResult, Skipped

__all__ = ["AsyncSchedule", "Schedule", "leader_scheduled"]

log = logging.getLogger(__name__)

# A machine that was suspended, or whose clock was set, is noticed after so long.
NAP_S: Final = 10.0
EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


@overload
def leader_scheduled(
    elector: LeaderElector,
    name: str,
    *,
    every: float | timedelta | None = None,
    cron: str | None = None,
    jitter: float | timedelta = 0.0,
    catch_up: CatchUp = "latest",
) -> Callable[[Callable[[datetime], object]], Schedule]: ...
@overload
def leader_scheduled(
    elector: AsyncLeaderElector,
    name: str,
    *,
    every: float | timedelta | None = None,
    cron: str | None = None,
    jitter: float | timedelta = 0.0,
    catch_up: CatchUp = "latest",
) -> Callable[[Callable[[datetime], Awaitable[object]]], AsyncSchedule]: ...
def leader_scheduled(
    elector: LeaderElector | AsyncLeaderElector,
    name: str,
    *,
    every: float | timedelta | None = None,
    cron: str | None = None,
    jitter: float | timedelta = 0.0,
    catch_up: CatchUp = "latest",
) -> Any:
    """Make a schedule of the decorated function: at each of its times it runs in one of the processes that started it.

    The function is called with the time that it runs for, an aware ``datetime`` in UTC. Each time is begun at most once, in all processes
    together; a call that raises is logged, and not repeated.

    Args:
        elector: whose coordinator and options count, but for ``wait_time``: who is not granted the name leaves the time to its holder.
        name: what to lead. The record ``schedule:<name>``, as it is stored, says which time was run for last.
        every: seconds, 0.1 s to 366 days: the multiples of it since 1970, UTC.
        cron: five fields, in UTC; needs ``pip install tenure[cron]``. Give ``every`` or ``cron``.
        jitter: seconds, 0 s to 1 day: each process waits up to this much longer, by chance, before it asks.
        catch_up: what becomes of times at which nobody ran: all processes were down, the cluster was unavailable, the run before took
            longer. ``"latest"``: one run for the newest of them. ``"all"``: one run for each, oldest first. ``"none"``: nothing.

    Raises:
        UsageError: when decorated: a bad argument, a function that does not fit the elector.

    >>> import tenure
    >>> with tenure.local() as coordinator:
    ...     @tenure.leader_scheduled(tenure.LeaderElector(coordinator), "report", every=3600)
    ...     def report(due):
    ...         print("report of", due)
    ...     with report:
    ...         pass  # The program goes on; the schedule runs beside it.
    """
    if not isinstance(elector, (LeaderElector, AsyncLeaderElector)):
        raise UsageError(
            f"the elector of a schedule is {type(elector).__name__}", "give a LeaderElector or an AsyncLeaderElector"
        )
    stored = elector._stored(name)
    checks.name(f"schedule:{stored}", "the key of the schedule's record")
    plan = Plan(every, cron, jitter, catch_up)
    kind: Any = AsyncSchedule if isinstance(elector, AsyncLeaderElector) else Schedule
    return functools.partial(kind, elector, name, plan)


class _Rounds:
    """What both kinds of schedules share: when to ask, and what an answer means. ``function`` is the decorated one, as it was."""

    def __init__(self, elector: Any, name: str, plan: Plan, function: Callable[[datetime], Any]) -> None:
        self._elector = copy.copy(elector)
        self._elector.options = replace(elector.options, wait_time=0.0)
        self._name = name
        self._stored: str = elector._stored(name)
        self._key = f"schedule:{self._stored}"
        self._plan = plan
        # How long to leave the name to the candidate whose turn it is.
        self._turn_ms = elector.claim_ms if isinstance(elector, Standing) else 0
        self.function = function
        self._begun = False

    def _due(self, record: Record | None) -> int | None:
        last = None
        if record is not None:
            try:
                last = int(record.value)
            except ValueError:
                raise UsageError(
                    f"the record {self._key!r} is no mark of a schedule", "give the schedule another name, or delete it"
                ) from None
        return self._plan.due(last, _now_ms())

    def _after(self, result: RunResult[bool]) -> None:
        """What became of a run, and when to look again."""
        if isinstance(result, (ActionFailed, LeaseLost)) and result.cause is not None and not self._begun:
            # The mark could not be written.
            raise result.cause
        if isinstance(result, ActionFailed):
            log.error("schedule.failed name=%s token=%d", self._stored, result.token, exc_info=result.cause)
        elif isinstance(result, LeaseLost):
            log.warning("schedule.lost name=%s token=%d cause=%r", self._stored, result.token, result.cause)
        if self._begun:
            self._plan.ran(_now_ms())
        elif isinstance(result, LeaseLost):
            self._plan.again(_now_ms(), RETRY_MS)
        elif isinstance(result, Skipped) and result.reason == "not_elected":
            # Nobody holds the name: whose turn it is may be dead, or have no such schedule.
            self._plan.again(_now_ms(), self._turn_ms)
        else:
            self._sleep()

    def _sleep(self, error: BaseException | None = None) -> None:
        if error is not None:
            log.warning("schedule.retry name=%s error=%s", self._stored, error)
        share = int.from_bytes(entropy(4), "big") / 2**32
        self._plan.sleep(_now_ms(), share, failed=error is not None)

    def _nap_s(self) -> float:
        return min(self._plan.left_ms(_now_ms()) / 1000, NAP_S)


class Schedule(_Rounds):
    """What ``leader_scheduled`` makes of a function: a thread that runs it at its times. Start and close it, or use it in a ``with``."""

    def __init__(self, elector: LeaderElector, name: str, plan: Plan, function: Callable[[datetime], Any]) -> None:
        check_sync(function)
        super().__init__(elector, name, plan, function)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, on a daemon thread; returns at once. Raises UsageError if it was started or closed before."""
        _refuse_started(self._thread is not None or self._closed.is_set())
        self._plan.begin(_now_ms())
        self._thread = threading.Thread(target=self._run, name=f"tenure {self._stored}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask no more, and wait for what runs, but for a call by the function itself, or on a thread that must go on for it to end.
        Idempotent."""
        self._closed.set()
        own = self._thread is threading.current_thread() or must_not_wait(self._elector._coordinator)
        if self._thread is not None and not own:
            self._thread.join()

    def __enter__(self) -> Schedule:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            while not self._closed.wait(self._nap_s()):
                if self._nap_s() == 0:
                    self._round()
        except BaseException:
            # Also SystemExit: it would end nothing but a thread of ours.
            log.exception("schedule.ended name=%s", self._stored)

    def _round(self) -> None:
        records = self._elector._coordinator.records
        self._begun = False
        try:
            if self._due(records.get(self._key)) is None:
                self._sleep()
            else:
                self._after(self._elector.run_if_leader_result(self._name, self._tick, records))
        except UsageError:
            raise
        except CoordinationError as error:
            self._sleep(error)

    def _tick(self, records: Any) -> bool:
        record: Record | None = records.get(self._key)
        due = self._due(record)
        if due is None:
            return False
        expected = 0 if record is None else record.version
        lease = context.current_lease(self._stored)
        records.put(self._key, str(due).encode(), lease=lease, expected_version=expected)
        self._begun = True
        try:
            value = self.function(_datetime(due))
        except asyncio.CancelledError as error:
            raise _failure(error) from error
        if (refused := refuse_late(self.function, value)) is not None:
            raise refused
        return True


class AsyncSchedule(_Rounds):
    """What ``leader_scheduled`` makes of a coroutine function: a task that runs it at its times. Use it in an ``async with``."""

    def __init__(
        self, elector: AsyncLeaderElector, name: str, plan: Plan, function: Callable[[datetime], Awaitable[Any]]
    ) -> None:
        check_async(function)
        super().__init__(elector, name, plan, function)
        # Belongs to the loop that it is started or closed on.
        self._closing: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in a task of the running loop; returns at once. Raises UsageError if it was started or closed before."""
        _refuse_started(self._closing is not None)
        self._plan.begin(_now_ms())
        self._closing = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(self._closing), name=f"tenure {self._stored}")

    async def close(self) -> None:
        """Ask no more, and wait for what runs; called by the function itself it does not wait. Idempotent."""
        self._begin_close()
        if self._task is not None and context.current_lease(self._stored) is None:
            await asyncio.wait({self._task})

    def _begin_close(self) -> None:
        if self._closing is None:
            self._closing = asyncio.Event()
        self._closing.set()

    async def __aenter__(self) -> AsyncSchedule:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GeneratorExit):
            # Nothing may be awaited in a coroutine that is closed.
            self._begin_close()
        else:
            await self.close()

    async def _run(self, closed: asyncio.Event) -> None:
        try:
            while not await _set_within(closed, self._nap_s()):
                if self._nap_s() == 0:
                    await self._round()
        except Exception:
            log.exception("schedule.ended name=%s", self._stored)

    async def _round(self) -> None:
        records = self._elector._coordinator.aio.records
        self._begun = False
        try:
            if self._due(await records.get(self._key)) is None:
                self._sleep()
            else:
                self._after(await self._lead(records))
        except UsageError:
            raise
        except CoordinationError as error:
            self._sleep(error)

    async def _lead(self, records: Any) -> RunResult[bool]:
        run: Run[bool] = await self._elector._run(self._name, self._tick, (records,), {})
        if run.lease is None:
            await find_holder(run, self._elector._coordinator.aio)
        if self._begun and run.given_up is None and not run.told and isinstance(run.error, asyncio.CancelledError):
            run.failed(_failure(run.error))
        return run.result()

    async def _tick(self, records: Any) -> bool:
        record: Record | None = await records.get(self._key)
        due = self._due(record)
        if due is None:
            return False
        expected = 0 if record is None else record.version
        lease = context.current_lease(self._stored)
        await records.put(self._key, str(due).encode(), lease=lease, expected_version=expected)
        self._begun = True
        work = self.function(_datetime(due))
        if not inspect.isawaitable(work):
            raise not_awaitable(self.function, work)
        await work
        return True


async def _set_within(event: asyncio.Event, seconds: float) -> bool:
    # A ``wait_for`` of no time does not look.
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


def _failure(error: asyncio.CancelledError) -> Exception:
    """Of a function that was not cancelled, and let out the cancellation of something that it waited for: the schedule goes on."""
    failure = RuntimeError("the function ended in a CancelledError, and nobody had cancelled it")
    failure.__cause__ = error
    return failure


def _now_ms() -> int:
    return round(datetime.now(timezone.utc).timestamp() * 1000)


def _datetime(at_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at_ms)


def _refuse_started(started: bool) -> None:
    if started:
        raise UsageError("this schedule was started or closed before", "decorate the function again for another")
