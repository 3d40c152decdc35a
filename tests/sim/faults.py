"""What goes wrong, drawn from the seed.

Knows: the kinds of faults and how to undo them. Must not know: what is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.sim.world import SimNode, World


class Faults:
    """One fault after the other, each undone after a while. Counts what fired, by kind and by the role of whom it hit."""

    def __init__(self, world: World, *, power: bool = True) -> None:
        self.world = world
        self.rng = world.rng
        self._power = power
        self._kinds: list[Callable[[], Awaitable[None]]] = [
            self.crash,
            self.crash_all,
            self.pause_node,
            self.pause_worker,
            self.isolate,
            self.deafen,
            self.break_connections,
            self.slow_link,
            self.drift,
            self.wall_step,
            self.stall_disk,
        ]

    async def run(self, until: float) -> None:
        loop = self.world.loop
        while loop.time() < until:
            await asyncio.sleep(self.rng.expovariate(1 / 1.0))
            await self.rng.choice(self._kinds)()
            self.world.raise_failure()

    def _count(self, kind: str, node: SimNode | None = None) -> None:
        role = "" if node is None else (" leader" if node is self.world.leader() else " follower")
        self.world.counts[f"fault {kind}{role}"] += 1

    def _victim(self) -> SimNode:
        leader = self.world.leader()
        if leader is not None and self.rng.random() < 0.5:
            return leader
        return self.rng.choice(self.world.nodes)

    async def _for(self, mean_s: float) -> None:
        await asyncio.sleep(self.rng.expovariate(1 / mean_s))

    async def restart(self, node: SimNode) -> None:
        if not node.up:
            await node.start()

    async def crash(self) -> None:
        node = self._victim()
        power = self._power and self.rng.random() < 0.5
        self._count("power cut" if power else "crash", node)
        node.crash(power=power)
        await self._for(0.7)
        await self.restart(node)

    async def crash_all(self) -> None:
        power = self._power and self.rng.random() < 0.5
        self._count("power cut everywhere" if power else "crash everywhere")
        for node in self.world.nodes:
            node.crash(power=power)
        await self._for(0.3)
        for node in self.world.nodes:
            await self.restart(node)

    async def pause_node(self) -> None:
        node = self._victim()
        self._count("pause", node)
        node.host.pause()
        await self._for(0.8)
        node.host.resume()

    async def pause_worker(self) -> None:
        worker = self.rng.choice(self.world.workers)
        self._count("pause worker")
        worker.host.pause()
        await self._for(1.0)
        worker.host.resume()

    def _everybody(self) -> list[str]:
        return [node.name for node in self.world.nodes] + [worker.name for worker in self.world.workers]

    async def isolate(self) -> None:
        node = self._victim()
        self._count("isolate", node)
        alone_from = [node.name for node in self.world.nodes] if self.rng.random() < 0.5 else self._everybody()
        for other in alone_from:
            self.world.network.cut(node.name, other)
            self.world.network.cut(other, node.name)
        await self._for(1.2)
        self.world.network.heal()

    async def deafen(self) -> None:
        node = self._victim()
        self._count("one way", node)
        for other in self.world.nodes:
            if other is not node:
                self.world.network.cut(other.name, node.name)
        await self._for(1.0)
        self.world.network.heal()

    async def break_connections(self) -> None:
        self._count("reset")
        everybody = self._everybody()
        for _ in range(self.rng.randint(1, 4)):
            self.world.network.reset(self.rng.choice(everybody), self.rng.choice(everybody))

    async def slow_link(self) -> None:
        one, other = self.rng.sample(self._everybody(), 2)
        self._count("slow link")
        self.world.network.slow(one, other, self.rng.choice([0.02, 0.1, 0.4]))
        await self._for(1.0)
        self.world.network.heal()

    async def drift(self) -> None:
        # Any two rates differ by less than the declared bound of 1 %.
        hosts = [node.host for node in self.world.nodes] + [worker.host for worker in self.world.workers]
        self._count("drift")
        self.rng.choice(hosts).drift(self.rng.uniform(0.9955, 1.0045))

    async def wall_step(self) -> None:
        self._count("wall clock step")
        hosts = [node.host for node in self.world.nodes]
        self.rng.choice(hosts).wall_offset_s += self.rng.choice([-3600.0, 3600.0])

    async def stall_disk(self) -> None:
        node = self._victim()
        self._count("disk stall", node)
        node.host.disk_stalled = True
        await self._for(0.8)
        node.host.disk_stalled = False

    async def mend(self) -> None:
        """Everything runs again."""
        self.world.network.heal()
        for host in [node.host for node in self.world.nodes] + [worker.host for worker in self.world.workers]:
            if host.paused:
                host.resume()
            host.disk_stalled = False
        for node in self.world.nodes:
            await self.restart(node)
