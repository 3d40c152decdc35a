"""An ``Env`` with nothing but a simulated disk, run by hand: work for the disk thread is done when the test says so.

Knows: which parts of ``ports.Env`` storage uses. Must not know: storage.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from cluster.ports import Disk, Env

from .simdisk import SimDisk


class SimEnv:
    """One life of a node's outside. ``run`` does what waits until nothing waits."""

    def __init__(self, drive: SimDisk, rng: random.Random) -> None:
        self.drive = drive
        self.rng = rng
        self._work: deque[tuple[Callable[[], Any], Callable[[BaseException | None], None]]] = deque()
        self._soon: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()

    @property
    def port(self) -> Env:
        """Itself, as the port of which it has what storage uses."""
        return cast(Env, self)

    def entropy(self, size: int) -> bytes:
        return self.rng.randbytes(size)

    def disk(self, directory: str) -> Disk:
        return self.drive.mount()

    def call_soon(self, fn: Callable[..., object], *args: object) -> None:
        self._soon.append((fn, args))

    def on_disk_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        self._work.append((work, done))

    @property
    def waiting(self) -> int:
        """Jobs for the disk thread that have not run."""
        return len(self._work)

    def work(self) -> None:
        """Run one job of the disk thread; its ``done`` waits for the loop."""
        work, done = self._work.popleft()
        error: BaseException | None = None
        try:
            work()
        except Exception as caught:
            error = caught
        self.call_soon(done, error)

    def turn(self) -> None:
        """Run what waits for the loop."""
        for _ in range(len(self._soon)):
            fn, args = self._soon.popleft()
            fn(*args)

    def run(self) -> None:
        while self._soon or self._work:
            self.turn()
            if self._work:
                self.work()
