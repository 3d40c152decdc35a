"""The thread that a client's I/O runs on, and what happens to it when the interpreter ends.

Knows: threads, loops, ``atexit``. Must not know: what runs on the loop.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

from cluster.env import RealEnv, new_loop, process_id

logger = logging.getLogger(__name__)

T = TypeVar("T")

JOIN_S: Final = 2.0

_threads: WeakSet[threading.Thread] = WeakSet()


class IoThread:
    """A daemon thread with an event loop of its own.

    ``env`` is that loop's, made by ``make_env``; ``at_end`` is run before it is closed, for ``JOIN_S`` at most.

    A daemon, so that a program that forgot ``close`` ends all the same; ``at_exit`` lets the owner say its last words before that.
    """

    def __init__(
        self, name: str = "tenure-io", make_env: Callable[[asyncio.AbstractEventLoop], RealEnv] = RealEnv
    ) -> None:
        self._loop = new_loop()
        self._process = process_id()
        self.env = make_env(self._loop)
        self.at_end: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        _threads.add(self._thread)
        try:
            self._thread.start()
        except BaseException:
            # Ctrl-C: nobody gets this object, and the thread may run already.
            self._loop.call_soon_threadsafe(self._loop.stop)
            raise

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            if self.at_end is not None:
                with contextlib.suppress(asyncio.TimeoutError):
                    self._loop.run_until_complete(asyncio.wait_for(self.at_end(), JOIN_S))
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self.env.close()
            self._loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the loop, from another thread. Cancelling the future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it, from another thread."""
        return self.start(work).result()

    def call(self, work: Callable[..., object], *args: object) -> None:
        """Call ``work`` on the loop soon, from any thread. Raises RuntimeError if the loop is gone."""
        self._loop.call_soon_threadsafe(work, *args)

    def stop(self) -> None:
        """End the loop and the thread, within ``JOIN_S``. From any thread but that one; there it only ends the loop."""
        if self._process != process_id():
            return
        try:
            self._loop.call_soon_threadsafe(self._loop.stop)
        except RuntimeError:
            return
        if threading.current_thread() is not self._thread:
            self._thread.join(JOIN_S)


class Resident(Generic[T]):
    """What begins on an I/O thread and ends with it, also if whoever waited for its beginning was interrupted.

    Args:
        begin: makes it. Cancelled, it leaves nothing behind.
        end: ends it, also a second time.
    """

    def __init__(
        self, io: IoThread, begin: Callable[[], Coroutine[Any, Any, T]], end: Callable[[T], Coroutine[Any, Any, None]]
    ) -> None:
        self._begin = begin
        self._end = end
        self._over = False
        self._beginning: asyncio.Task[Any] | None = None
        self._made: T | None = None
        io.at_end = self._leave

    async def begin(self) -> T:
        """On the thread's loop, once."""
        if self._over:
            raise asyncio.CancelledError
        self._beginning = asyncio.current_task()
        made = self._made = await self._begin()
        return made

    async def _leave(self) -> None:
        self._over = True
        if self._beginning is not None and not self._beginning.done():
            self._beginning.cancel()
            await asyncio.wait({self._beginning})
        if self._made is not None:
            await self._end(self._made)


class Leaver:
    """Something that wants to say its last words when the interpreter ends."""

    def leave(self) -> None:
        """Called from ``atexit``; must not take longer than a second or two."""


_leavers: WeakSet[Leaver] = WeakSet()
_process = process_id()


def at_exit(leaver: Leaver) -> None:
    _leavers.add(leaver)


def forget_exit(leaver: Leaver) -> None:
    _leavers.discard(leaver)


def on_io_thread() -> bool:
    """Whether this thread is one that I/O runs on, of whatever client."""
    return threading.current_thread() in _threads


def _leave_all() -> None:
    if process_id() != _process:
        return
    for leaver in list(_leavers):
        try:
            leaver.leave()
        except Exception:
            logger.exception("client.leave_failed")


atexit.register(_leave_all)
