"""A clock that stands still until a test moves it, and an outside world that runs by it.

Knows: timers in order, when a loop has come to rest. Must not know: leases, what the timers do.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final
from weakref import WeakSet

from cluster.client import IoThread, checks
from cluster.env import RealEnv, boot_clock
from cluster.errors import UsageError
from cluster.limits import WAIT_MAX_S
from cluster.ports import Handle

START_S: Final = 1000.0
# More turns than this of a loop without any time passing mean that it will never rest.
TURNS_MAX: Final = 100_000
QUIET_TURNS: Final = 4
# Fewer timers than this are not looked through for cancelled ones.
TIMERS_FEW: Final = 100


class ManualClock:
    """Seconds that pass only when a test says so. One clock may serve several coordinators.

    What waits for time to pass waits until ``advance``; a grant, a release, an answer take no time at all.
    """

    def __init__(self) -> None:
        self._now = START_S
        self._moving = threading.Lock()
        # The thread that moves it.
        self._mover = 0
        self._envs: WeakSet[ManualEnv] = WeakSet()

    def now(self) -> float:
        """Seconds since an arbitrary moment."""
        return self._now

    def advance(self, seconds: float | timedelta) -> None:
        """Let time pass: every timer of the coordinators on this clock fires at its moment, in order.

        Returns when they have come to rest. It does not wait for the threads and tasks of the program under test: use ``eventually``.

        Args:
            seconds: 0 to 30 days, or a ``timedelta``. 0 lets what is under way come to rest.

        Raises:
            UsageError: out of range, or called on a coordinator's own I/O thread, such as in a callback of ``lost.on_set``, or in a
                signal handler while the same thread moves it.
        """
        length_s = checks.duration_ms(seconds, "seconds", 0, WAIT_MAX_S * 1000) / 1000
        if self._mover == threading.get_ident():
            raise UsageError("this very thread moves the clock already", "advance it from the test")
        with self._moving:
            self._mover = threading.get_ident()
            try:
                self._advance(length_s)
            finally:
                self._mover = 0

    def _advance(self, length_s: float) -> None:
        envs = list(self._envs)
        for env in envs:
            env.check_thread()
        target = self._now + length_s
        while (due := min([target, *(env.settle() for env in envs)])) < target:
            self._now = max(self._now, due)
        self._now = target
        for env in envs:
            env.settle()

    def add(self, env: ManualEnv) -> None:
        self._envs.add(env)

    def remove(self, env: ManualEnv) -> None:
        self._envs.discard(env)


class _Timer:
    """See ``ports.Handle``."""

    __slots__ = ("args", "cancelled", "due", "fn")

    def __init__(self, due: float, fn: Callable[..., object], args: tuple[object, ...]) -> None:
        self.due = due
        self.fn = fn
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def fire(self) -> None:
        if not self.cancelled:
            self.fn(*self.args)


class ManualEnv(RealEnv):
    """``ports.Env`` on a real loop, with a ``ManualClock``'s time and timers. ``thaw`` gives it real time, for its end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: ManualClock) -> None:
        super().__init__(loop)
        self._manual = clock
        self._timers: list[tuple[float, int, _Timer]] = []
        self._looked_through_at = TIMERS_FEW
        self._numbers = itertools.count()
        # One entry per callback under way: a deque may be filled by any thread.
        self._under_way: deque[None] = deque()
        self._ended = False
        self._thread = 0
        self.io: IoThread | None = None
        self._ahead_s = 0.0
        self.clock = self._time
        started, wall_s = clock.now(), self.wall()
        self.wall = lambda: wall_s + self.clock() - started
        clock.add(self)

    def _time(self) -> float:
        return boot_clock() + self._ahead_s if self._ended else self._manual.now()

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: object) -> Handle:
        if self._ended:
            return super().call_later(delay_s, fn, *args)
        timer = _Timer(self.clock() + delay_s, fn, args)
        heapq.heappush(self._timers, (timer.due, next(self._numbers), timer))
        if len(self._timers) > self._looked_through_at:
            # While time stands still nothing else takes cancelled ones away.
            self._timers = [entry for entry in self._timers if not entry[2].cancelled]
            heapq.heapify(self._timers)
            self._looked_through_at = max(TIMERS_FEW, 2 * len(self._timers))
        return timer

    def call_soon(self, fn: Callable[..., object], *args: object) -> Handle:
        self._under_way.append(None)
        return super().call_soon(self._run, fn, args)

    def call_from_thread(self, fn: Callable[..., object], *args: object) -> None:
        self._under_way.append(None)
        try:
            super().call_from_thread(self._run, fn, args)
        except RuntimeError:
            self._under_way.popleft()
            raise

    def _run(self, fn: Callable[..., object], args: tuple[object, ...]) -> None:
        self._thread = threading.get_ident()
        self._under_way.popleft()
        fn(*args)

    def check_thread(self) -> None:
        if threading.get_ident() == self._thread:
            raise UsageError("a clock cannot be moved from its coordinator's I/O thread", "advance it from the test")

    def settle(self) -> float:
        """Run what is due, and what follows from it, on the loop; from another thread. Returns when the next timer is due, or infinity."""
        if self.io is None or not self.io.alive or self._ended:
            return float("inf")
        return self.io.run(self._settled())

    async def _settled(self) -> float:
        quiet = 0
        for _ in range(TURNS_MAX):
            now = self.clock()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2].fire()
                quiet = 0
            await asyncio.sleep(0)
            # Tasks are not counted, which may wait for anything; one that goes on needs a turn or two until it calls somebody.
            quiet = 0 if self._under_way else quiet + 1
            if quiet >= QUIET_TURNS:
                break
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else float("inf")

    def thaw(self) -> None:
        """From now on time passes by itself: a coordinator must not wait for its test in order to end. On the loop."""
        if self._ended:
            return
        self._manual.remove(self)
        self._ahead_s = self.clock() - boot_clock()
        self._ended = True
        timers, self._timers = self._timers, []
        for due, _, timer in sorted(timers, key=lambda entry: entry[:2]):
            super().call_later(max(0.0, due - self.clock()), timer.fire)
