"""A client in virtual time: a loop that never waits, an env on it, and a fake cluster.

Knows: how to run a story and what must be left at its end. Must not know: the client's inner parts, but for its counters.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from cluster.client import AsyncCoordinator, Coordinator
from cluster.env import RealEnv
from cluster.ports import Handle
from tests.client.fakeserver import FakeCluster
from tests.sim.loop import VirtualLoop

T = TypeVar("T")

CLOCK_START_S = 1000.0


class VirtualEnv(RealEnv):
    """``ports.Env`` on a loop in virtual time, every random thing from a seed.

    ``jump`` moves the clock and no timer, as on a machine that was suspended. ``rate``: its seconds in a second of the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int, rate: float = 1.0) -> None:
        super().__init__(loop)
        self._virtual = loop
        self._rate = rate
        self._random = random.Random(seed)
        self._jumped_s = 0.0
        self.clock = self._clock
        self.wall = lambda: 1_790_000_000.0 + loop.time()
        self.entropy = self._random.randbytes

    def _clock(self) -> float:
        return CLOCK_START_S + self._virtual.time() * self._rate + self._jumped_s

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: object) -> Handle:
        return self._virtual.call_later(delay_s / self._rate, fn, *args)

    def jump(self, seconds: float) -> None:
        self._jumped_s += seconds

    def call_from_thread(self, fn: Callable[..., object], *args: object) -> None:
        self._virtual.call_soon(fn, *args)


class World:
    """One client and its fake cluster."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seed: int, timeout: float) -> None:
        self.loop = loop
        self.env = VirtualEnv(loop, seed)
        self.cluster = FakeCluster(self.env)
        self.coordinator = Coordinator(self.cluster.door(), env=self.env, node_id="me", timeout=timeout)

    @property
    def aio(self) -> AsyncCoordinator:
        return self.coordinator.aio

    @property
    def now(self) -> float:
        return self.env.clock()

    def another(self, node_id: str = "other", timeout: float = 5.0) -> Coordinator:
        """A second client of the same cluster."""
        return Coordinator(self.cluster.door(), env=self.env, node_id=node_id, timeout=timeout)

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        await asyncio.sleep(seconds)

    async def until(self, predicate: Callable[[], object], within_s: float = 30.0) -> float:
        """Let time pass in small steps until ``predicate()``; returns how long it took."""
        started = self.now
        while not predicate():
            assert self.now - started < within_s, f"it did not come about; under way: {self.counts()}"
            await asyncio.sleep(0.005)
        return self.now - started

    def counts(self) -> dict[str, int]:
        return counts(self.coordinator)


def counts(coordinator: Coordinator) -> dict[str, int]:
    """What the client has under way, but for the link's own pulse."""
    return {what: count for what, count in coordinator._port.engine.counts().items() if what != "timers" and count}


def armed(loop: asyncio.AbstractEventLoop) -> list[str]:
    """The client's timers that wait to fire, by the function they call."""
    handles = [handle for _, _, handle in loop._later if not handle.cancelled()]  # type: ignore[attr-defined]
    functions = [getattr(handle._callback, "__func__", None) for handle in handles]
    return [f.__qualname__ for f in functions if f is not None and f.__module__.startswith("cluster.client")]


def story(
    tell: Callable[[World], Awaitable[T]], *, seed: int = 1, timeout: float = 5.0, leaks: bool = True
) -> T:
    """Run one story in virtual time. With ``leaks``, nothing of the client may be left when it ends."""
    loop = VirtualLoop()

    async def run() -> T:
        world = World(loop, seed, timeout)
        result = await tell(world)
        if leaks:
            await world.until(lambda: not world.counts(), within_s=60.0)
            await world.aio.close(limit=0)
            assert world.coordinator._port.engine.link.timers == 0
            assert not armed(loop)
        return result

    try:
        return loop.run_until_complete(run())
    finally:
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        if leftover:
            loop.run_until_complete(asyncio.gather(*leftover, return_exceptions=True))
        loop.close()
        assert not leftover or not leaks, leftover


async def outcome_of(work: Coroutine[Any, Any, T]) -> T | BaseException:
    """What a coroutine ends with, value or error."""
    try:
        return await work
    except BaseException as error:
        return error
