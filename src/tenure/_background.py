"""Where runs go on that do not block their caller: one loop on one thread for the whole process, and threads for callers' own code.

Knows: the loop, which runs are under way, what happens to them when the interpreter ends. Must not know: how a run goes.

Nothing of a caller's ever runs on the loop itself: a callback that blocks would hold up every other run.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from cluster.client import IoThread
from cluster.env import in_forked_children, process_id
from tenure._futures import RunFuture
from tenure._workers import Workers

T = TypeVar("T")

# How long the end of the interpreter waits for actions that are running.
EXIT_S: Final = 1.5


class Background:
    """The loop and the threads of this process. Made when first needed, and there until the process ends."""

    def __init__(self) -> None:
        self._io = IoThread("tenure-runs")
        self._process = process_id()
        # And whether each still waits for its name.
        self._live: dict[RunFuture[Any], Callable[[], bool]] = {}
        self._tasks: dict[RunFuture[Any], asyncio.Task[None]] = {}
        self.workers = Workers("tenure-worker")
        # What else goes on here until it is closed, and how that is done.
        self.closers: dict[object, Callable[[], Coroutine[Any, Any, None]]] = {}

    def begin(
        self, drive: Callable[[], Coroutine[Any, Any, None]], ending: Callable[[], T], waits: Callable[[], bool]
    ) -> RunFuture[T]:
        """Drive a run on the loop, in a copy of the caller's context.

        Args:
            drive: makes the coroutine; it raises nothing but its cancellation.
            ending: gives the run's value, or raises, once that coroutine has ended.
            waits: whether the run has not been granted its name; asked on the loop.

        Returns:
            A future that is settled on a worker thread.
        """
        future: RunFuture[T] = RunFuture(lambda: self._io.call(self._call_off, future))
        self._live[future] = waits
        try:
            self._io.call(self._start, future, drive, ending)
        except BaseException:
            # Ctrl-C: the caller gets no future to cancel.
            future.cancel()
            raise
        return future

    def call(self, work: Callable[..., object], *args: object) -> None:
        """Call ``work`` on the loop soon."""
        self._io.call(work, *args)

    def run(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine on the loop, in a copy of the caller's context. Cancelling the future cancels it."""
        return self._io.start(work)

    def _start(
        self, future: RunFuture[Any], drive: Callable[[], Coroutine[Any, Any, None]], ending: Callable[[], Any]
    ) -> None:
        if future.given_up:
            self._over(future, ending)
            return
        task = asyncio.get_running_loop().create_task(drive())
        self._tasks[future] = task
        task.add_done_callback(lambda _: self._over(future, ending))

    def _over(self, future: RunFuture[Any], ending: Callable[[], Any]) -> None:
        self._tasks.pop(future, None)

        def settle() -> None:
            # Before anybody is told, so that who was told finds nothing left.
            self._live.pop(future, None)
            future.settle(ending)

        try:
            self.workers.submit(settle)
        except RuntimeError:
            # The interpreter ends and gives no threads any more; nor is anything left that could be held up.
            settle()

    def _call_off(self, future: RunFuture[Any]) -> None:
        task = self._tasks.get(future)
        if task is not None:
            task.cancel()

    @property
    def live(self) -> int:
        """Runs that are not over."""
        return len(self._live)

    def stop_waiting(self, runs: Iterable[RunFuture[Any]]) -> None:
        """Give up those of the runs that have not been granted their name."""
        self._io.call(self._stop_waiting, list(runs))

    def _stop_waiting(self, runs: list[RunFuture[Any]]) -> None:
        for future in runs:
            waits = self._live.get(future)
            if waits is not None and waits():
                future.cancel()

    def discard(self) -> None:
        """Another was made in the same moment; this one was never used."""
        self._io.stop()

    def leave(self) -> None:
        """The interpreter ends: what waits is given up, what runs has ``EXIT_S`` seconds. What is held then runs out by itself."""
        if self._process == process_id():
            runs = list(self._live)
            self.stop_waiting(runs)
            closing = [self.run(close()) for close in list(self.closers.values())]
            concurrent.futures.wait([*runs, *closing], EXIT_S)


# The one of this process, under the one key ``_ONE``. Whoever makes it may be interrupted at any point by a signal handler that needs
# it, too: so no lock is held, and the first to say so has made it.
_made: Final[dict[str, Background]] = {}
_ONE: Final = "background"


def background() -> Background:
    """The one of this process."""
    found = _made.get(_ONE)
    if found is None:
        mine = Background()
        found = _made.setdefault(_ONE, mine)
        if found is not mine:
            mine.discard()
    return found


def _forget() -> None:
    """In a forked child: the parent's threads, one of which may have been in here, are not there."""
    _made.clear()


def _leave() -> None:
    found = _made.get(_ONE)
    if found is not None:
        found.leave()


in_forked_children(_forget)
# Registered after the client's own, and so called before it: there are still coordinators to release with.
atexit.register(_leave)
