"""What the forms that do not block hand out: futures that are done when the lease has been given back.

Knows: futures, whose cancellation is a wish. Must not know: leases, how a run goes.

A ``concurrent.futures.Future`` that is cancelled is done at once. Here it is done when the work has ended and the name is free, and
cancelled then: until that moment the work may still run (rules 4 and 5).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from tenure._aio import call_loop

T = TypeVar("T")


class RunFuture(concurrent.futures.Future[T]):
    """The future of one run.

    Args:
        call_off: called once, on the thread that cancels: begins to end the run.
    """

    def __init__(self, call_off: Callable[[], None]) -> None:
        super().__init__()
        self._call_off = call_off
        self._guard = threading.Lock()
        self._wished = False
        self._settled = False

    @property
    def given_up(self) -> bool:
        """Whether somebody cancelled it."""
        return self._wished

    def cancel(self) -> bool:
        """Give the run up. It stops waiting for its name, or its work is told to end; the future is cancelled when that has happened.

        Returns:
            Whether it will be cancelled (or is already); False: it is done.
        """
        with self._guard:
            if self._wished:
                return True
            if self._settled:
                return False
            self._wished = True
        self._call_off()
        return True

    def settle(self, ending: Callable[[], T]) -> None:
        """The run is over. ``ending`` gives its value or raises its error; a run that was given up is cancelled, whatever it says."""
        with self._guard:
            self._settled = True
        if self._wished:
            self._end_cancelled()
            return
        try:
            value = ending()
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            self._end_cancelled()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(value)

    def _end_cancelled(self) -> None:
        super().cancel()
        # Tells those who stand in ``concurrent.futures.wait``.
        self.set_running_or_notify_cancel()


class ThreadFuture(Generic[T]):
    """The run of a thread elector: wait for it in a thread with ``result``, in a task with ``await``, or take its ``to_future``.

    A task that is cancelled while it awaits gives the run up, as ``cancel`` does.
    """

    def __init__(self, future: concurrent.futures.Future[T]) -> None:
        self._future = future

    def result(self, timeout: float | None = None) -> T:
        """Block until the run is over and its name given back.

        Args:
            timeout: seconds; None: without end. The run goes on when they have passed.

        Raises:
            TimeoutError: ``concurrent.futures.TimeoutError``: not over yet.
            CancelledError: ``concurrent.futures.CancelledError``: the run was given up.
            BaseException: as ``LeaderElector.run_if_leader``.
        """
        return self._future.result(timeout)

    def cancel(self) -> bool:
        """Give the run up: it stops waiting for its name. An action that runs is not interrupted; its value is dropped when it has ended.

        Returns:
            Whether the run will end cancelled (or has); False: it was over.
        """
        return self._future.cancel()

    def cancelled(self) -> bool:
        return self._future.cancelled()

    def done(self) -> bool:
        """Whether the run is over and its name given back."""
        return self._future.done()

    def to_future(self) -> concurrent.futures.Future[T]:
        """The same run as a ``concurrent.futures.Future``, for whatever takes one."""
        return self._future

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def ring() -> None:
            if not over.done():
                over.set_result(None)

        self._future.add_done_callback(lambda _: call_loop(loop, ring))
        try:
            await over
        except BaseException:
            # Cancelled, or its loop is gone: nobody waits for it any more.
            self._future.cancel()
            raise
        if self._future.cancelled():
            raise asyncio.CancelledError
        return self._future.result()
