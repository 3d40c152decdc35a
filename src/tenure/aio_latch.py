"""The asyncio latch: leading for as long as possible, instead of for one action.

Knows: the rounds of a latch: stand in line, lead, be told, give back, stand in line again. Must not know: how a lease travels, who
renews it, threads.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, TypeVar

from cluster.client import AsyncLease, Coordinator, checks
from cluster.errors import CoordinationError, UsageError
from cluster.opcodes import Outcome
from tenure import context
from tenure._aio import Alarm, give_back, keep_private, until_done
from tenure._engine import Run
from tenure._history import History
from tenure.aio_elector import AsyncOne
from tenure.listeners import ElectionListener
from tenure.metrics import Metrics
from tenure.options import ElectionOptions

log = logging.getLogger(__name__)

# A pause after an error that came at once. An outage is none: there a latch waits like any other.
PAUSE_S: Final = 1.0
WAIT_S: Final = checks.WAIT_MAX_MS / 1000

AsyncCallback = Callable[[AsyncLease], object]
C = TypeVar("C")


class AsyncLeaderLatch(AsyncOne):
    """Lead a name for as long as possible; when leadership is lost, stand in line for it again.

    A latch is for one name and one event loop. Always auto-extended. ``is_leader`` looks at the clock at every look; callbacks run one
    after the other, never two at once, each in a task of its own, under the latch's lease.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect``, ``tenure.local``, or their twins in ``tenure.aio``.
        options: of them ``lease_time``, ``min_lease_time``, ``node_id`` and ``worker_version`` count. It waits for as long as it takes.
        on_elected: called with the lease when it leads; a function or a coroutine function. What it raises is logged.
        on_lost: called with the same lease when it leads no more: the lease is lost, or the latch is closed. Where nobody else can be
            granted the name before it is given back (a close, a revocation), it is given back after this has returned.
        listeners, history, metrics: as of electors; each time that it leads is a run.

    >>> import asyncio, tenure
    >>> async def main() -> bool:
    ...     with tenure.local() as coordinator:
    ...         async with tenure.AsyncLeaderLatch(coordinator) as latch:
    ...             await latch.start("scheduler")
    ...             return await latch.wait(5)
    >>> asyncio.run(main())
    True
    """

    def __init__(
        self,
        coordinator: Coordinator,
        options: ElectionOptions | None = None,
        *,
        on_elected: AsyncCallback | None = None,
        on_lost: AsyncCallback | None = None,
        listeners: Iterable[ElectionListener] = (),
        history: History | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(coordinator, options, listeners=listeners, history=history, metrics=metrics)
        self._on_elected = checked_callback(on_elected, "on_elected")
        self._on_lost = checked_callback(on_lost, "on_lost")
        self._lease: AsyncLease | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed: asyncio.Future[None] | None = None
        self._closing = False
        self._over = False
        # Those who wait until it leads.
        self._waiting: set[asyncio.Future[None]] = set()
        # The lease of the callback that runs.
        self._calling: AsyncLease | None = None

    def for_tenant(self, tenant_id: str) -> AsyncLeaderLatch:
        """A latch of its own that is not started; see ``LeaderElector.for_tenant``. Raises UsageError once this one is started."""
        refuse_started(self._task is not None or self._closing)
        twin = super().for_tenant(tenant_id)
        twin._waiting = set()
        return twin

    async def start(self, name: str) -> None:
        """Begin to take part, in a task of its own; returns at once.

        Raises:
            UsageError: a bad name or node id, or it was started or closed before. Nothing was begun.
        """
        refuse_started(self._task is not None or self._closing)
        stored = self._stored(name)
        self._latch_request()
        self._closed = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(
            self._take_part(stored, self._closed), name=f"tenure {stored}"
        )

    @property
    def lease(self) -> AsyncLease | None:
        """The lease under which it leads; None while it does not."""
        lease = self._lease
        return None if lease is None or lease.lost.is_set() else lease

    @property
    def is_leader(self) -> bool:
        """Whether it leads, by this process's own clock, at this moment. From any thread."""
        return self.lease is not None

    async def wait(self, timeout: checks.Seconds | None = None) -> bool:
        """Wait until it leads.

        Args:
            timeout: seconds, 0 to 1 day; None: without end.

        Returns:
            True: it leads. False: the timeout passed, or it is closed, or its coordinator is.

        Raises:
            UsageError: it was not started, or a bad ``timeout``.
        """
        limit_s = None if timeout is None else checks.limit_s(timeout, "timeout")
        if self._task is None and not self._closing:
            raise UsageError("this latch was not started", "await start(name) first")

        loop = asyncio.get_running_loop()
        until = None if limit_s is None else loop.time() + limit_s
        while not (self.is_leader or self._over):
            news: asyncio.Future[None] = loop.create_future()
            self._waiting.add(news)
            try:
                # Unlike ``wait_for`` of Python 3.10 and 3.11 it loses no cancellation that comes together with the news.
                told, _ = await asyncio.wait({news}, timeout=None if until is None else max(0.0, until - loop.time()))
            finally:
                self._waiting.discard(news)
            if not told:
                break
        return self.is_leader

    async def close(self) -> None:
        """Take part no more: ``on_lost`` is called if it leads, then the name is given back. Idempotent.

        Waits for that, but for a call out of its own callback, or by a task that this waits for. A caller that is cancelled meanwhile
        does not stop it.
        """
        self.begin_close()
        calling = self._calling
        own = calling is not None and context.current_lease(calling.name) is calling
        if self._task is not None and not own:
            await asyncio.wait({self._task})

    def begin_close(self) -> None:
        self._closing = True
        if self._closed is None:
            self._end()
        elif not self._closed.done():
            self._closed.set_result(None)

    async def __aenter__(self) -> AsyncLeaderLatch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GeneratorExit):
            # Nothing may be awaited in a coroutine that is closed.
            self.begin_close()
        else:
            await self.close()

    def _end(self) -> None:
        self._over = True
        self._announce()

    def _announce(self) -> None:
        """Wake who waits; they look for themselves."""
        for news in self._waiting:
            if not news.done():
                news.set_result(None)

    async def _take_part(self, stored: str, closed: asyncio.Future[None]) -> None:
        try:
            while not self._closing:
                run: Run[None] = Run(stored, self._watching())
                try:
                    lease = await self._granted(stored, closed)
                except UsageError as error:
                    # Closed, or an option that will not get better.
                    log.warning("latch.ended name=%s error=%s", stored, error)
                    return
                except CoordinationError as error:
                    run.unanswered(error)
                    log.warning("latch.retry name=%s in_s=%g error=%s", stored, PAUSE_S, error)
                    await asyncio.wait({closed}, timeout=PAUSE_S)
                    continue
                if lease is not None:
                    await self._hold(run, lease, closed)
        except Exception:
            log.exception("latch.broke name=%s", stored)
        finally:
            self._end()

    async def _granted(self, stored: str, closed: asyncio.Future[None]) -> AsyncLease | None:
        """Stand in line until granted, or closed: then None."""
        asking = asyncio.get_running_loop().create_task(self._acquire(stored, self._latch_request()))
        keep_private(asking)
        try:
            while not asking.done():
                await asyncio.wait({asking} if closed.done() else {asking, closed}, return_when=asyncio.FIRST_COMPLETED)
                if closed.done():
                    asking.cancel()
        except BaseException:
            asking.cancel()
            asking.add_done_callback(_let_go)
            raise
        return None if asking.cancelled() else asking.result()

    async def _acquire(self, stored: str, request: dict[str, Any]) -> AsyncLease | None:
        return await self._coordinator.aio.acquire(stored, **request)

    def _latch_request(self) -> dict[str, Any]:
        request = self._request()
        if request["node_id"] is not None:
            checks.node_id(request["node_id"])
        return {**request, "wait_time": WAIT_S, "auto_extend": True}

    async def _hold(self, run: Run[None], lease: AsyncLease, closed: asyncio.Future[None]) -> None:
        run.granted(lease)
        try:
            if not self._closing and run.may_begin():
                await self._lead(run, lease, closed)
        except GeneratorExit:
            # The loop is gone, and nothing can be awaited any more.
            self._lease = None
            run.released = True
            lease.release_soon(run.outcome())
            raise
        finally:
            await give_back(run, lease)
        if run.given_up is not None:
            raise run.given_up

    async def _lead(self, run: Run[None], lease: AsyncLease, closed: asyncio.Future[None]) -> None:
        alarm = Alarm(lease)
        context.push(lease)
        self._lease = lease
        self._announce()
        try:
            await self._call(self._on_elected, lease)
            await asyncio.wait({alarm.future, closed}, return_when=asyncio.FIRST_COMPLETED)
            run.completed(None)
        except BaseException as error:
            run.failed(error)
            raise
        finally:
            alarm.disarm()
            self._lease = None
            self._announce()
            if not isinstance(run.error, GeneratorExit):
                await self._call(self._on_lost, lease)
            context.remove(lease)

    async def _call(self, callback: AsyncCallback | None, lease: AsyncLease) -> None:
        if callback is None:
            return
        self._calling = lease
        try:
            task = asyncio.get_running_loop().create_task(_called(callback, lease))
            keep_private(task)
            given_up = await until_done(task)
        finally:
            self._calling = None
        try:
            task.result()
        except (Exception, asyncio.CancelledError) as error:
            if given_up is None or isinstance(error, Exception):
                log.exception("latch.callback_raised name=%s token=%d", lease.name, lease.token)
        if given_up is not None:
            raise given_up


async def _called(callback: AsyncCallback, lease: AsyncLease) -> None:
    made = callback(lease)
    if inspect.isawaitable(made):
        await made


def _let_go(asking: asyncio.Task[AsyncLease | None]) -> None:
    """Granted in the very moment in which its latch was cancelled."""
    if not asking.cancelled() and asking.exception() is None and (lease := asking.result()) is not None:
        lease.release_soon(Outcome.NOT_STARTED)


def refuse_started(started: bool) -> None:
    if started:
        raise UsageError(
            "this latch was started or closed before", "a latch is for one name and one life: make another"
        )


def checked_callback(callback: C, field: str) -> C:
    """Raises UsageError for what cannot be called."""
    if callback is not None and not callable(callback):
        raise UsageError(f"{field} is {type(callback).__name__}, not a callable", "give a function of the lease")
    return callback
