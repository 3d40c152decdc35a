"""What there is of leases, waiters, tasks, threads and file descriptors, counted before and after rounds.

Knows: the counters of a client, of the process and of a loop. Must not know: what is played in a round.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from tenure._background import background
from tests.contract.support_forms import PATIENCE_S
from tests.support import eventually

AT_ONCE = 25


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))


class Count:
    """What there is before the first round, to be found again after the last."""

    def __init__(self, coordinator: Any, loop: asyncio.AbstractEventLoop | None) -> None:
        self._loop = loop
        self._coordinator = coordinator
        # What is made once is there: the loop of the process.
        background()
        self._before = self._now()

    def _now(self) -> tuple[int, int, int]:
        threads = [each for each in threading.enumerate() if each.name != "tenure-worker"]
        return _descriptors(), len(threads), len(background().closers)

    def left(self) -> dict[str, int]:
        """What is there that was not before."""
        counts = self._coordinator._port.engine.counts()
        workers = [each for each in threading.enumerate() if each.name == "tenure-worker"]
        found = {what: number for what, number in counts.items() if what != "timers"}
        found["leases in the table"] = len(list(self._coordinator.leases()))
        found["runs"] = background().live + len(background()._tasks)
        # Idle ones end by themselves; never are there more than were busy at once, and the two that hand over.
        found["workers"] = max(0, len(workers) - 2 * AT_ONCE)
        now = (now - was for now, was in zip(self._now(), self._before, strict=True))
        found["descriptors"], found["threads"], found["to be closed at exit"] = now
        if self._loop is not None:
            found["tasks"] = len(asyncio.run_coroutine_threadsafe(_tasks(), self._loop).result(PATIENCE_S)) - 1
        return {what: number for what, number in found.items() if number > 0}

    def check(self) -> None:
        gc.collect()
        with contextlib.suppress(AssertionError):
            eventually(lambda: not self.left(), 20.0)
        assert self.left() == {}


async def _tasks() -> set[Any]:
    return asyncio.all_tasks()


def batches(rounds: int) -> Iterator[range]:
    for first in range(0, rounds, AT_ONCE):
        yield range(first, min(rounds, first + AT_ONCE))
