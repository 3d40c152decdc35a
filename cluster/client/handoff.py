"""How a result crosses from the I/O thread to whoever waits: a blocked thread, or a task on some event loop.

Knows: raw locks, futures, that a loop may be closed. Must not know: what the result is.

A raw lock costs less than half of a ``concurrent.futures.Future`` per hand-off, and results for one loop travel in one wake-up per burst.
"""

from __future__ import annotations

import asyncio
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

ALIVE_CHECK_S: Final = 1.0


class Waiter(Protocol):
    """Who waits for one result. ``finish`` is called once, on the I/O thread."""

    def finish(self, value: Any, error: BaseException | None = None) -> bool:
        """Hand over. False: nobody is left to take it."""


class ThreadWaiter:
    """A blocked thread. ``done``: whether the result is there."""

    __slots__ = ("_error", "_lock", "_value", "done")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self.done = False

    def finish(self, value: Any, error: BaseException | None = None) -> bool:
        self._value = value
        self._error = error
        self.done = True
        self._lock.release()
        return True

    def wait(self, alive: Callable[[], bool]) -> Any:
        """Block until the result is there; ``alive`` is asked now and then whether anybody will still bring it.

        Raises:
            BaseException: the error handed over; or what a signal handler raises, such as KeyboardInterrupt.
            RuntimeError: not alive.
        """
        # The lock has its own way to be interrupted by signals; the timeout is only for a thread that died.
        while not self._lock.acquire(timeout=ALIVE_CHECK_S):
            if not alive() and not self._lock.acquire(blocking=False):
                raise RuntimeError("the I/O thread of this coordinator has ended")
        return self.take()

    def take(self) -> Any:
        """The result, once it is ``done``. Raises the error that was handed over."""
        if self._error is not None:
            raise self._error
        return self._value

    def patience(self, limit_s: float) -> bool:
        """Block for at most ``limit_s`` seconds, for something that may be waited for later or not at all. Whether it came just now."""
        return self._lock.acquire(timeout=limit_s)


class _Bridge:
    """Results on their way to one event loop."""

    def __init__(self) -> None:
        self._items: deque[tuple[LoopWaiter, Any, BaseException | None]] = deque()
        self._woken = False

    def send(self, loop: asyncio.AbstractEventLoop, item: tuple[LoopWaiter, Any, BaseException | None]) -> bool:
        self._items.append(item)
        if self._woken:
            return True
        self._woken = True
        try:
            loop.call_soon_threadsafe(self._arrive)
        except RuntimeError:
            # The loop is closed. What an earlier wake-up left here goes the same way, through its waiter's ``gone``.
            self._woken = False
            self._items.remove(item)
            while self._items:
                self._items.popleft()[0].gone()
            return False
        return True

    def _arrive(self) -> None:
        # Cleared first: an item that comes while the rest is handed out either is seen below or wakes the loop again.
        self._woken = False
        items = self._items
        while items:
            waiter, value, error = items.popleft()
            waiter.settle(value, error)


_bridges: WeakKeyDictionary[asyncio.AbstractEventLoop, _Bridge] = WeakKeyDictionary()
# Reentrant: what is made under it may start a collector, which may end the body of an ``async with`` on this thread.
_bridges_guard = threading.RLock()


def _bridge_to(loop: asyncio.AbstractEventLoop) -> _Bridge:
    with _bridges_guard:
        bridge = _bridges.get(loop)
        # One for each loop, also if one was made while this one was.
        return bridge if bridge is not None else _bridges.setdefault(loop, _Bridge())


class LoopWaiter:
    """A task that awaits ``future``. Made on its loop.

    ``gone`` is called on the I/O thread if the loop was closed before a result that was handed over arrived there.
    """

    __slots__ = ("_bridge", "_loop", "_thread", "future", "gone")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._bridge = _bridge_to(self._loop)
        self.future: asyncio.Future[Any] = self._loop.create_future()
        self.gone: Callable[[], None] = _nothing

    def finish(self, value: Any, error: BaseException | None = None) -> bool:
        if threading.get_ident() == self._thread:
            return self.settle(value, error)
        return self._bridge.send(self._loop, (self, value, error))

    def settle(self, value: Any, error: BaseException | None) -> bool:
        """On the loop. A future that was cancelled is not touched: who cancelled it has given the result up."""
        if self.future.done():
            return False
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)
        return True


def _nothing() -> None:
    """A result that nobody has to be told about when its loop is gone."""
