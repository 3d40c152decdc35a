"""Queues to what must not harm a run: sinks of a history, listeners, metrics. Each has a thread of its own.

Knows: a queue, a thread, what they do when their taker fails, hangs or ends. Must not know: what travels.

Who puts something in never waits: a queue that is full loses what comes, and that is counted. A run may end within a garbage collection,
in the middle of another ``put``: these queues allow it.
"""

from __future__ import annotations

import atexit
import functools
import logging
import queue
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from cluster.env import boot_clock, in_forked_children, process_id

log = logging.getLogger(__name__)

T = TypeVar("T")

QUEUED_MAX: Final = 10_000
BATCH_MAX: Final = 256
# How long the end of the interpreter waits for what is queued.
EXIT_S: Final = 1.5


class _Stop:
    """No more comes after this."""


class Feed(Generic[T]):
    """One taker's queue and thread. The thread ends when the feed is closed, or nobody has it any more and everything is taken.

    What is queued or being taken keeps the feed alive: so a feed that is gone has nothing left to tell, and no thread that tells it.

    Args:
        shown: what is fed: the first word of what the log says of it.
        take: is given some entries, oldest first. It must not raise.
        end: called once, after the last entry. It must not raise.

    Attributes:
        dropped: how many entries a full queue, or a process that was forked, cost.
    """

    def __init__(self, shown: str, take: Callable[[list[T]], object], end: Callable[[], object] = lambda: None) -> None:
        self.dropped = 0
        self._shown = shown
        self._process = process_id()
        self._queue: queue.SimpleQueue[tuple[Feed[T], T] | threading.Event | _Stop] = queue.SimpleQueue()
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=_serve, args=(self._queue, take, end, self._done), name=f"tenure-{shown}", daemon=True
        )
        self._thread.start()
        self._last = weakref.finalize(self, self._queue.put, _Stop())
        self._last.atexit = False

    def put(self, entry: T) -> None:
        if process_id() != self._process:
            self.dropped += 1
            return
        if self._queue.qsize() >= QUEUED_MAX:
            if self.dropped == 0:
                log.warning("%s.full queued=%d hint=it does not keep up, and what comes is dropped", self._shown, QUEUED_MAX)
            self.dropped += 1
            return
        self._queue.put((self, entry))

    def mark(self) -> threading.Event:
        """An event that is set when everything that was put in so far is taken: never, if the thread has died of what it took."""
        reached = threading.Event()
        if self._is_over():
            reached.set()
        else:
            self._queue.put(reached)
        return reached

    def _is_over(self) -> bool:
        """Whether nothing is left, here, that will be taken."""
        return self._done.is_set() or process_id() != self._process

    def close(self, limit_s: float) -> bool:
        """Take what is queued, then end. Returns whether that was done in time."""
        if self._thread.is_alive():
            self._queue.put(_Stop())
        self._thread.join(limit_s)
        return self._is_over() and not self._thread.is_alive()


def _serve(
    queue_: queue.SimpleQueue[Any], take: Callable[[list[Any]], object], end: Callable[[], object], done: threading.Event
) -> None:
    # Not a method: the thread must not keep its feed alive.
    entry = queue_.get()
    while not isinstance(entry, _Stop):
        if isinstance(entry, threading.Event):
            entry.set()
            entry = queue_.get()
            continue
        batch = [entry]
        entry = None
        while len(batch) < BATCH_MAX and not queue_.empty():
            entry = queue_.get()
            if isinstance(entry, (threading.Event, _Stop)):
                break
            batch.append(entry)
            entry = None
        take([what for _, what in batch])
        # Nothing that was handed on is kept alive while this waits.
        del batch
        if entry is None:
            entry = queue_.get()
    end()
    done.set()


# Feeds of listeners and metrics: one for each of them in a process, whoever has it, so that none is called twice at once.
_shared: weakref.WeakValueDictionary[tuple[int, int], Feed[Callable[[], object]]] = weakref.WeakValueDictionary()
_guard = threading.Lock()


def feed_of(taker: object, shown: str) -> Feed[Callable[[], object]]:
    """The feed of calls to ``taker``. The calls that are put in must not raise, and must refer to it: it lives as long as its feed then."""
    key = (process_id(), id(taker))
    with _guard:
        feed = _shared.get(key)
        if feed is None:
            # The thread has ``taker`` among its arguments, so its identity stays its own.
            feed = _shared[key] = Feed(shown, functools.partial(_call_all, taker))
        return feed


def _call_all(taker: object, calls: list[Callable[[], object]]) -> None:
    for call in calls:
        call()


def flush_all(limit_s: float) -> bool:
    """Wait until all listeners and metrics of this process were told everything so far. Returns whether they were, in time."""
    own = process_id()
    marks = [feed.mark() for (process, _), feed in list(_shared.items()) if process == own]
    until = boot_clock() + limit_s
    return all(mark.wait(max(0.0, until - boot_clock())) for mark in marks)


def _forget() -> None:
    """In a forked child: the parent's threads, one of which may have been in here, are not there."""
    # One per process: a module is the place for it.
    global _guard  # noqa: PLW0603
    _guard = threading.Lock()


in_forked_children(_forget)
atexit.register(flush_all, EXIT_S)
