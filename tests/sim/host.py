"""One simulated machine: its clock, timers, disk, and the Env that a node or client on it sees.

Knows: how to pause, crash and restart what runs on it, and how its clock errs. Must not know: what runs on it.
"""

from __future__ import annotations

import asyncio
import collections
import random
from collections.abc import Callable, Coroutine
from math import inf
from typing import Any

from cluster.address import Address
from cluster.ports import Disk, Handle
from tests.sim.network import Listening, Network
from tests.storage.simdisk import SimDisk

DISK_DELAY_MEAN_S = 0.0005
WORK_DELAY_MEAN_S = 0.005
STALL_POLL_S = 0.05

Job = tuple[Callable[[], Any], Callable[["BaseException | None"], None]]


class Timer:
    __slots__ = ("cancelled", "inner")

    def __init__(self) -> None:
        self.cancelled = False
        self.inner: asyncio.TimerHandle | asyncio.Handle | None = None

    def cancel(self) -> None:
        self.cancelled = True
        if self.inner is not None:
            self.inner.cancel()


class Host:
    """A machine. ``env()`` gives a fresh life to the process on it; ``crash`` ends it at once."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, network: Network, seed: int) -> None:
        self.name = name
        self.loop = loop
        self.network = network
        self.rng = random.Random(seed)
        self.disks: dict[str, SimDisk] = {}
        self.life = 0
        self.paused = False
        self.pauses = 0
        self._resumed_at = -inf
        self.rate = 1.0
        self.wall_offset_s = 0.0
        self._clock_base = (0.0, self.rng.uniform(10, 10_000))
        self._parked: list[tuple[int, Callable[..., Any], tuple[Any, ...]]] = []
        self.disk_stalled = False
        self.disk_faulty = False
        self.envs: list[SimEnv] = []
        self._awake = asyncio.Event()
        self._awake.set()

    # Its clock.

    def clock(self) -> float:
        at, value = self._clock_base
        return value + (self.loop.time() - at) * self.rate

    def drift(self, rate: float) -> None:
        """From now on its clock runs at ``rate`` seconds a second. It never jumps."""
        self._clock_base = (self.loop.time(), self.clock())
        self.rate = rate

    # What runs on it.

    def run(self, fn: Callable[..., Any], *args: Any) -> None:
        """Run now, or when it is resumed. Nothing that belongs to an earlier life is run."""
        self._run(self.life, fn, args)

    def soon(self, fn: Callable[..., Any], *args: Any) -> None:
        self.loop.call_soon(self._run, self.life, fn, args)

    def _run(self, life: int, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if life != self.life:
            return
        if self.paused:
            self._parked.append((life, fn, args))
        else:
            fn(*args)

    @property
    def runs(self) -> bool:
        """Whether what it had to do by now is done: it is not paused, and was not until this very moment."""
        return not self.paused and self.loop.time() > self._resumed_at

    def pause(self) -> None:
        self.paused = True
        self.pauses += 1
        self._awake.clear()

    def resume(self) -> None:
        self.paused = False
        self._resumed_at = self.loop.time()
        self._awake.set()
        parked, self._parked = self._parked, []
        for life, fn, args in parked:
            self.loop.call_soon(self._run, life, fn, args)

    def crash(self, *, power: bool = False) -> None:
        """The process is gone; with ``power`` also what its disks had not synced."""
        self.life += 1
        self.paused = False
        self._awake.set()
        self._parked.clear()
        self.network.host_died(self)
        for env in self.envs:
            env.die()
        self.envs.clear()
        for disk in self.disks.values():
            if power:
                disk.crash_power(self.rng)
            else:
                disk.crash_process()

    def env(self) -> SimEnv:
        env = SimEnv(self)
        self.envs.append(env)
        return env

    async def awake(self) -> None:
        """For coroutines that belong to this host: go on only while it is not paused."""
        await self._awake.wait()


class SimEnv:
    """See ``ports.Env``: one life of one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._life = host.life
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self.random = random.Random(host.rng.random())
        self._disk_free_at = 0.0
        self._disk_jobs: collections.deque[Job] = collections.deque()
        self._work_free_at = 0.0

    def clock(self) -> float:
        return self._host.clock()

    def wall(self) -> float:
        return 1_790_000_000.0 + self._host.loop.time() + self._host.wall_offset_s

    def entropy(self, size: int) -> bytes:
        return self.random.randbytes(size)

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: object) -> Handle:
        timer = Timer()
        timer.inner = self._host.loop.call_later(max(0.0, delay_s) / self._host.rate, self._fire, timer, fn, args)
        return timer

    def call_soon(self, fn: Callable[..., object], *args: object) -> Handle:
        timer = Timer()
        timer.inner = self._host.loop.call_soon(self._fire, timer, fn, args)
        return timer

    def _fire(self, timer: Timer, fn: Callable[..., object], args: tuple[object, ...]) -> None:
        host = self._host
        if self._life == host.life:
            if host.paused:
                host._run(self._life, self._fire, (timer, fn, args))
            elif not timer.cancelled:
                fn(*args)

    def call_from_thread(self, fn: Callable[..., object], *args: object) -> None:
        self.call_soon(fn, *args)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = self._host.loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(lambda over: self._tasks.pop(over, None))
        return task

    async def listen(
        self,
        address: Address,
        factory: Callable[[], asyncio.Protocol],
        backlog: int = 1024,
        make_room: Callable[[], bool] | None = None,
    ) -> Listening:
        del backlog, make_room
        if str(address) in self._host.network.listeners:
            raise OSError(98, f"{address}: address in use (simulated)")
        self._host.network.listeners[str(address)] = (self._host, factory)
        return Listening(self._host.network, address)

    async def dial(self, address: Address, factory: Callable[[], asyncio.Protocol], timeout_s: float) -> Any:
        await self._host.awake()
        if self._life != self._host.life:
            raise OSError("this life is over (simulated)")
        return await self._host.network.dial(self._host, address, factory, timeout_s)

    def die(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def disk(self, directory: str) -> Disk:
        disks = self._host.disks
        if directory not in disks:
            disks[directory] = SimDisk()
        return disks[directory].mount()

    def on_disk_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        loop = self._host.loop
        self._disk_jobs.append((work, done))
        at = max(self._disk_free_at, loop.time()) + self._host.rng.expovariate(1 / DISK_DELAY_MEAN_S)
        self._disk_free_at = at
        loop.call_at(at, self._disk_work)

    def _disk_work(self) -> None:
        """It is time for one more job: the oldest, whatever a stall or the loop has made of the order of timers."""

        def go() -> None:
            if self._host.disk_stalled:
                self._host.loop.call_later(STALL_POLL_S, self._disk_work)
            else:
                self._finish(*self._disk_jobs.popleft())

        self._host._run(self._life, go, ())

    def on_work_thread(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        """It takes a while, in which the node goes on; jobs keep their order."""
        loop = self._host.loop
        at = max(self._work_free_at, loop.time()) + self._host.rng.expovariate(1 / WORK_DELAY_MEAN_S)
        self._work_free_at = at
        loop.call_at(at, self._host._run, self._life, self._finish, (work, done))

    def _finish(self, work: Callable[[], Any], done: Callable[[BaseException | None], None]) -> None:
        error: BaseException | None = None
        try:
            work()
        except Exception as caught:
            error = caught
        self._host._run(self._life, done, (error,))
