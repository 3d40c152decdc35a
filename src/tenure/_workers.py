"""Threads that run what callers hand over: started when needed, ended when idle, never waited for by the interpreter.

Knows: jobs, threads, how a coroutine waits for a job. Must not know: leases, electors.

``concurrent.futures`` joins its threads before the interpreter ends, so an action that never returns would keep a program from ending.
These are daemons: who owns them waits for as long as it sees fit.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

WORKERS_MAX: Final = 256
IDLE_S: Final = 5.0

Job = Callable[[], object]


class Workers:
    """A pool of daemon threads. A job more than ``limit`` at once waits for a thread.

    Args:
        name: what the threads are called.
        limit: how many threads there may be.
    """

    def __init__(self, name: str, limit: int = WORKERS_MAX) -> None:
        self._name = name
        self._limit = limit
        self._change = threading.Condition(threading.Lock())
        self._jobs: deque[Job] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._closed = False

    def submit(self, job: Job) -> None:
        """Run ``job`` on a thread soon.

        Raises:
            RuntimeError: closed, or the system gives no thread. The job will not run.
        """
        with self._change:
            if self._closed:
                raise RuntimeError(f"the pool {self._name} is closed")
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._change.notify()
            elif len(self._threads) < self._limit:
                self._add_thread(job)

    def _add_thread(self, job: Job) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.discard(thread)
            if not self._threads:
                self._jobs.remove(job)
                raise

    def _run(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException:
                log.exception("worker.job_raised pool=%s", self._name)
            # What it holds must not live until the next job comes.
            del job

    def _next(self) -> Job | None:
        with self._change:
            while not self._jobs:
                if self._closed:
                    break
                self._idle += 1
                called = self._change.wait(IDLE_S)
                self._idle -= 1
                if not called and not self._jobs:
                    break
            else:
                return self._jobs.popleft()
            self._threads.discard(threading.current_thread())
            self._change.notify_all()
            return None

    def close(self, patience_s: float) -> bool:
        """Take nothing new; threads end when the jobs that are there have ended. Whether all did within ``patience_s`` seconds."""
        with self._change:
            self._closed = True
            self._change.notify_all()
            threads = self._threads - {threading.current_thread()}
            # Woken by each thread that ends.
            ended = self._change.wait_for(lambda: not self._threads & threads, patience_s)
        if ended:
            for thread in threads:
                thread.join()
        return ended


async def in_worker(workers: Workers, job: Job) -> bool:
    """Run ``job``, which must not raise, on a thread, and wait until it has ended: a thread cannot be interrupted.

    Returns:
        Whether this task was cancelled while the job ran. The cancellation is the caller's to go on with.

    Raises:
        CancelledError: cancelled before it began; then it never begins.
        RuntimeError: as ``Workers.submit``.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    # Whoever gets it first: the thread that begins, or the task that calls it off.
    claim = threading.Lock()

    def run() -> None:
        if claim.acquire(blocking=False):
            try:
                job()
            finally:
                loop.call_soon_threadsafe(done.set_result, None)

    workers.submit(run)
    cancelled = False
    while not done.done():
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError:
            if claim.acquire(blocking=False):
                raise
            cancelled = True
    return cancelled
