"""The latch for threads: ``AsyncLeaderLatch`` on the background loop, its callbacks on threads. So the rounds are written once.

Knows: threads, the background loop. Must not know: the rounds of a latch.
"""

from __future__ import annotations

import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from cluster.client import AsyncLease, Coordinator, Lease, checks, must_not_wait
from cluster.env import process_id
from cluster.errors import UsageError
from tenure._asking import One
from tenure._background import background
from tenure._detached import under_lease
from tenure._history import History
from tenure._workers import in_worker
from tenure.aio_latch import AsyncLeaderLatch, checked_callback, refuse_started
from tenure.listeners import ElectionListener
from tenure.metrics import Metrics
from tenure.options import ElectionOptions

log = logging.getLogger(__name__)

T = TypeVar("T")
Callback = Callable[[Lease], object]


class _Inner(AsyncLeaderLatch):
    """On the loop of all others, which ``SystemExit`` would end."""

    def _as_whom(self) -> str | None:
        try:
            return super()._as_whom()
        except (SystemExit, KeyboardInterrupt) as error:
            hint = "let it return a node id, or raise an Exception"
            raise UsageError(f"the function given as node_id raised {type(error).__name__}", hint) from error


class LeaderLatch(One):
    """Lead a name for as long as possible; when leadership is lost, stand in line for it again.

    A latch is for one name. Always auto-extended. ``is_leader`` looks at the clock at every look; callbacks run one after the other,
    never two at once, on a thread and under the latch's lease. Close it, or use it in a ``with``; the end of the interpreter closes it.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect`` or ``tenure.local``.
        options: of them ``lease_time``, ``min_lease_time``, ``node_id`` and ``worker_version`` count. It waits for as long as it takes.
        on_elected: called with the lease when it leads. What it raises is logged.
        on_lost: called with the same lease when it leads no more: the lease is lost, or the latch is closed. Where nobody else can be
            granted the name before it is given back (a close, a revocation), it is given back after this has returned.
        listeners, history, metrics: as of electors; each time that it leads is a run.

    >>> import tenure
    >>> with tenure.local() as coordinator, tenure.LeaderLatch(coordinator) as latch:
    ...     latch.start("scheduler")
    ...     latch.wait(5)
    True
    """

    def __init__(
        self,
        coordinator: Coordinator,
        options: ElectionOptions | None = None,
        *,
        on_elected: Callback | None = None,
        on_lost: Callback | None = None,
        listeners: Iterable[ElectionListener] = (),
        history: History | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__(coordinator, options, listeners=listeners, history=history, metrics=metrics)
        self._on_elected = _checked(on_elected, "on_elected")
        self._on_lost = _checked(on_lost, "on_lost")
        self._inner: AsyncLeaderLatch | None = None
        self._closed = False
        self._process = process_id()
        # The thread that a callback runs on.
        self._calling = 0

    def for_tenant(self, tenant_id: str) -> LeaderLatch:
        """A latch of its own that is not started; see ``LeaderElector.for_tenant``. Raises UsageError once this one is started."""
        refuse_started(self._inner is not None or self._closed)
        return super().for_tenant(tenant_id)

    def start(self, name: str) -> None:
        """Begin to take part, in the background; returns at once.

        Raises:
            UsageError: a bad name or node id, or it was started or closed before. Nothing was begun.
            Exception: what a function given as ``node_id`` raises. It can be started again.
        """
        refuse_started(self._inner is not None or self._closed)
        inner: AsyncLeaderLatch = _Inner(
            self._coordinator,
            self.options,
            on_elected=lambda lease: self._call(self._on_elected, lease),
            on_lost=lambda lease: self._call(self._on_lost, lease),
        )
        # Checked already.
        inner._observers = self._observers
        if self.tenant is not None:
            inner = inner.for_tenant(self.tenant)
        home = background()
        try:
            self._inner = inner
            # Another thread, or a signal handler, may have closed it meanwhile, and seen nothing to close.
            refuse_started(self._closed)
            home.closers[self] = inner.close
            self._wait(inner.start(name))
        except BaseException:
            # Of the caller's node_id, or Ctrl-C, after which it may have begun all the same.
            self._inner = None
            home.closers.pop(self, None)
            home.call(inner.begin_close)
            raise

    @property
    def lease(self) -> Lease | None:
        """The lease under which it leads; None while it does not."""
        lease = None if self._inner is None else self._inner.lease
        return None if lease is None else lease.for_threads()

    @property
    def is_leader(self) -> bool:
        """Whether it leads, by this process's own clock, at this moment. From any thread."""
        return self._inner is not None and self._inner.is_leader

    def wait(self, timeout: checks.Seconds | None = None) -> bool:
        """Block until it leads.

        Args:
            timeout: seconds, 0 to 1 day; None: without end.

        Returns:
            True: it leads. False: the timeout passed, or it is closed, or its coordinator is.

        Raises:
            UsageError: it was not started, a bad ``timeout``, or called in a forked child.
        """
        if self._inner is None:
            raise UsageError("this latch was not started", "call start(name) first")
        return self._wait(self._inner.wait(timeout))

    def close(self) -> None:
        """Take part no more: ``on_lost`` is called if it leads, then the name is given back. Idempotent.

        Waits for that, but for a call out of its own callback, or on a thread that must go on for it to end.

        Raises:
            UsageError: called in a forked child.
        """
        self._closed = True
        inner = self._inner
        if inner is None:
            return
        if threading.get_ident() == self._calling or must_not_wait(self._coordinator):
            background().run(self._end(inner))
            return
        self._wait(self._end(inner))

    async def _end(self, inner: AsyncLeaderLatch) -> None:
        await inner.close()
        background().closers.pop(self, None)

    def __enter__(self) -> LeaderLatch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        if process_id() != self._process:
            work.close()
            raise UsageError(
                "this latch belongs to the process that this one was forked from", "make one after the fork"
            )
        future: Future[T] = background().run(work)
        try:
            return future.result()
        except BaseException:
            # Ctrl-C: nobody waits any more.
            future.cancel()
            raise

    async def _call(self, callback: Callback | None, lease: AsyncLease) -> None:
        if callback is None:
            return
        within = contextvars.copy_context().run(under_lease, lease)

        def call() -> None:
            self._calling = threading.get_ident()
            try:
                within.run(callback, lease.for_threads())
            except BaseException:
                # Also SystemExit: it would end nothing but a thread of ours.
                log.exception("latch.callback_raised name=%s token=%d", lease.name, lease.token)
            finally:
                self._calling = 0

        await in_worker(background().workers, call)


def _checked(callback: Callback | None, field: str) -> Callback | None:
    if inspect.iscoroutinefunction(callback):
        raise UsageError(f"{field} is a coroutine function, and is called on a thread", "write it as def, or use AsyncLeaderLatch")
    return checked_callback(callback, field)
