"""The outside of one node on the table: its clock, its timers, its disk thread.

Knows: ``ports.Env`` as the adapter uses it. Must not know: connections, what the node does.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster.ports import Disk
from tests.storage.simdisk import SimDisk

if TYPE_CHECKING:
    from tests.raft.lab import World

START_S = 1000.0


class LabTimer:
    def __init__(self, at: float, fn: Callable[..., object], args: tuple[object, ...]) -> None:
        self.at = at
        self.fn: Callable[..., object] | None = fn
        self.args = args

    def cancel(self) -> None:
        self.fn = None


class LabEnv:
    """One life of a node's outside. What it was asked for dies with it."""

    def __init__(self, world: World, drive: SimDisk, seed: int) -> None:
        self._world = world
        self._drive = drive
        self.random = random.Random(seed)
        self.over = False
        self.rate = 1.0
        self.timers: list[tuple[float, int, LabTimer]] = []
        self.soon: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self.disk_jobs: deque[tuple[Callable[[], Any], Callable[[BaseException | None], None]]] = deque()

    def clock(self) -> float:
        return START_S + (self._world.now - START_S) * self.rate

    def wall(self) -> float:
        return 1_700_000_000.0 + self._world.now

    def entropy(self, size: int) -> bytes:
        return self._world.rng.randbytes(size)

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: object) -> LabTimer:
        timer = LabTimer(self._world.now + delay_s / self.rate, fn, args)
        heapq.heappush(self.timers, (timer.at, self._world.next_number(), timer))
        self._world.timer_set(self, timer.at)
        return timer

    def call_soon(self, fn: Callable[..., object], *args: object) -> LabTimer:
        timer = LabTimer(self._world.now, fn, args)
        self.soon.append((self._fire, (timer,)))
        return timer

    def disk(self, directory: str) -> Disk:
        return self._drive.mount()

    def on_disk_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        self.disk_jobs.append((work, done))
        self._world.disk_job(self)

    def on_work_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        self.on_disk_thread(work, done)

    @staticmethod
    def _fire(timer: LabTimer) -> None:
        if timer.fn is not None:
            timer.fn(*timer.args)

    def run_soon(self) -> None:
        while self.soon and not self.over:
            fn, args = self.soon.popleft()
            fn(*args)

    def fire_due(self) -> None:
        while self.timers and self.timers[0][0] <= self._world.now and not self.over:
            _, _, timer = heapq.heappop(self.timers)
            self._fire(timer)
            self.run_soon()

    def do_disk_job(self) -> None:
        if not self.disk_jobs or self.over:
            return
        work, done = self.disk_jobs.popleft()
        error: BaseException | None = None
        try:
            work()
        except Exception as caught:
            error = caught
        self.call_soon(done, error)
        self.run_soon()
