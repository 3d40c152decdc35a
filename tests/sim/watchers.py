"""Clients that watch while everything goes wrong: what they are told is what happened, in order, and what is missing is said (D9).

Knows: the verb ``watch``, the observer's list of events. Must not know: faults, nodes, how events travel. Not among the kinds of rounds
that are drawn, so that seeds that showed something go on to show it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from cluster.client import LeaseEvent, WatchGap
from cluster.client.watched import read_page
from cluster.errors import CoordinationError
from tests.sim.faults import Faults
from tests.sim.violation import Violation
from tests.sim.worker import Worker
from tests.sim.world import World

TOLD_WITHIN_S = 30.0


class Watcher:
    """One watch by one worker. ``gaps`` and ``told``: how many it was told."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._observer = worker.world.observer
        self.seen = -1
        self.told = self.gaps = 0
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                # Each of several watches goes on where the last one stopped, as another process would.
                after = None if self.seen < 0 else self.seen
                async with await self._worker.coordinator.aio.watch(after=after, extended=True) as watch:
                    self.seen = watch.sequence
                    for _ in range(40):
                        self._take(await watch.next())
            except CoordinationError:
                await asyncio.sleep(0.1)
            except Violation as violation:
                self._worker.world.fail(violation)
                return

    def _take(self, told: LeaseEvent | WatchGap | None) -> None:
        assert told is not None
        if isinstance(told, WatchGap):
            self.gaps += 1
            if told.after != self.seen:
                raise Violation(
                    f"{self._worker.name} had seen {self.seen}, and is told of a gap after {told.after} (D9)"
                )
        else:
            self.told += 1
            self._check(told)
        self.seen = told.sequence

    def _check(self, told: LeaseEvent) -> None:
        if told.sequence != self.seen + 1:
            raise Violation(f"{self._worker.name} had seen {self.seen}, and is told {told.sequence} without a gap (D9)")
        row: list[Any] | None = self._observer.event(told.sequence)
        expected = None if row is None else read_page([0, told.sequence, told.sequence, [row]], told.sequence - 1)[0][0]
        if told != expected:
            raise Violation(f"{self._worker.name} is told {told}, and what happened is {expected} (D9)")

    async def close(self, newest: int) -> None:
        """After the last fault: what had happened by then must be told soon."""
        until = self._worker.world.loop.time() + TOLD_WITHIN_S
        while self.seen < newest and not self._task.done():
            if self._worker.world.loop.time() > until:
                raise Violation(
                    f"{self._worker.name} has seen {self.seen}, and {newest} is {TOLD_WITHIN_S:g} s ago (D9)"
                )
            await asyncio.sleep(0.05)
        self._task.cancel()
        await asyncio.wait({self._task})


class Watched(Faults):
    """The faults of a seed, and two watchers while they last."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.watchers: list[Watcher] = []

    async def run(self, until: float) -> None:
        self.watchers = [Watcher(worker) for worker in self.world.workers[:2]]
        await super().run(until)

    async def mend(self) -> None:
        await super().mend()
        newest = self.world.observer.table.next_event - 1
        for watcher in self.watchers:
            await watcher.close(newest)
        self.world.counts["events told"] += sum(watcher.told for watcher in self.watchers)
        self.world.counts["gaps told"] += sum(watcher.gaps for watcher in self.watchers)
