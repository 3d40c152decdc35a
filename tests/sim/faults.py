"""What goes wrong, drawn from the seed.

Knows: the kinds of faults and how to undo them. Must not know: what is checked. Faults with more than one step are in ``plots``.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from tests.sim import newcomers, plots, registry
from tests.sim.coverage import state_of
from tests.sim.node import SimNode, restarted
from tests.sim.world import World

Kind = Callable[[], Awaitable[None]]


class Faults:
    """``tracks`` of faults side by side; within a track one after the other, each undone after a while."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self._kinds: list[tuple[int, Kind]] = [
            (3, self.crash), (1, self.crash_all), (3, self.pause_node), (2, self.pause_worker), (3, self.isolate),
            (2, self.one_way), (2, self.cut_worker), (2, self.break_connections), (2, self.lose), (2, self.slow_link),
            (2, self.slow_node), (1, self.drift), (1, self.wall_step), (2, self.stall_disk), (1, self.disk_full),
            (1, self.disk_error), (1, self.wipe), (1, self.overload), (1, self.handover),
        ]  # fmt: skip
        self._kinds += [(fault.weight, partial(fault.play, world, self.count)) for fault in registry.FAULTS]
        self._calm: list[Kind] = [partial(plots.calm, world, self.count, pause=pause) for pause in (True, False)]
        self._calm.append(partial(plots.ran_ahead, world, self.count))

    async def run(self, until: float) -> None:
        """First one in quiet, as only then it is known what must not come of it; then all sorts."""
        await self.rng.choice(self._calm)()
        await asyncio.gather(*[self._track(until) for _ in range(self.world.shape.tracks)])

    async def _track(self, until: float) -> None:
        loop, rng = self.world.loop, self.rng
        kinds, weights = [kind for _, kind in self._kinds], [weight for weight, _ in self._kinds]
        while loop.time() < until:
            await asyncio.sleep(rng.expovariate(1 / 1.0))
            if self.world.shape.tracks == 1 and rng.random() < 0.15:
                await rng.choice(self._calm)()
            else:
                await rng.choices(kinds, weights)[0]()
            self.world.raise_failure()

    def count(self, kind: str, node: SimNode | None = None) -> None:
        self.world.counts[f"fault {kind}: {state_of(self.world, node)}"] += 1

    def _victim(self) -> SimNode:
        leader = self.world.leader()
        if leader is not None and self.rng.random() < 0.5:
            return leader
        return self.rng.choice(self.world.nodes)

    async def _for(self, mean_s: float) -> None:
        # Long ones are rare enough to be cut off: a run is only so long.
        await asyncio.sleep(min(self.rng.expovariate(1 / mean_s), 6.0))

    # Processes.

    async def crash(self) -> None:
        node = self._victim()
        power = self.rng.random() < 0.5
        self.count("power cut" if power else "crash", node)
        node.crash(power=power)
        # Some come back before anybody has noticed.
        await self._for(self.rng.choice([0.02, 0.7]))
        await restarted(node)

    async def crash_all(self) -> None:
        power = self.rng.random() < 0.5
        self.count("power cut everywhere" if power else "crash everywhere")
        for node in self.world.nodes:
            node.crash(power=power)
        await self._for(0.3)
        for node in self.world.nodes:
            await restarted(node)

    async def wipe(self) -> None:
        """Never more than a minority at once: all others must have their memory."""
        node = self._victim()
        if not self.world.whole:
            return
        self.count("wipe", node)
        node.wipe()
        await self._for(self.rng.choice([0.02, 0.5]))
        await restarted(node)

    async def pause_node(self) -> None:
        node = self._victim()
        self.count("pause", node)
        node.host.pause()
        await self._for(0.8)
        node.host.resume()

    async def pause_worker(self) -> None:
        worker = self.rng.choice(self.world.workers)
        self.count("pause worker")
        worker.host.pause()
        await self._for(self.rng.choice([0.5, 3.0]))
        worker.host.resume()

    async def overload(self) -> None:
        self.count("overload")
        await self.rng.choice(self.world.workers).burst(60)

    async def handover(self) -> None:
        leader = self.world.leader()
        if leader is not None and leader.node is not None:
            self.count("handover", leader)
            leader.node.raft.transfer(None)
            await self._for(0.2)

    # The network.

    def _everybody(self) -> list[str]:
        return [host.name for host in self.world.hosts()]

    async def _cut(self, pairs: Iterable[tuple[str, str]], mean_s: float) -> None:
        pairs = list(pairs)
        for source, target in pairs:
            self.world.network.cut(source, target)
        await self._for(mean_s)
        for source, target in pairs:
            self.world.network.join(source, target)

    async def isolate(self) -> None:
        node = self._victim()
        self.count("isolate", node)
        others = [other.name for other in self.world.nodes] if self.rng.random() < 0.5 else self._everybody()
        await self._cut(
            [pair for other in others if other != node.name for pair in ((node.name, other), (other, node.name))], 1.2
        )

    async def one_way(self) -> None:
        node = self._victim()
        others = [other.name for other in self.world.nodes if other is not node]
        if self.rng.random() < 0.5:
            self.count("one way in", node)
            await self._cut([(other, node.name) for other in others], 1.0)
        else:
            self.count("one way out", node)
            await self._cut([(node.name, other) for other in others], 1.0)

    async def cut_worker(self) -> None:
        worker = self.rng.choice(self.world.workers).name
        self.count("cut worker")
        there = [(worker, node.name) for node in self.world.nodes]
        back = [(target, source) for source, target in there]
        await self._cut(self.rng.choice([there, back, there + back]), self.rng.choice([0.3, 2.0]))

    async def break_connections(self) -> None:
        self.count("reset")
        everybody = self._everybody()
        for _ in range(self.rng.randint(1, 4)):
            self.world.network.reset(self.rng.choice(everybody), self.rng.choice(everybody))

    async def lose(self) -> None:
        """One end sees its connection break; what it had sent arrives all the same, late."""
        one, other = self.rng.sample(self._everybody(), 2)
        leader = self.world.leader()
        if leader is not None and self.rng.random() < 0.5:
            one, other = self.rng.choice(self.world.workers).name, leader.name
        self.count("lose")
        network = self.world.network
        network.slow(one, other, 0.5)
        await self._for(0.2)
        network.lose(one, other)
        network.slow(one, other, 0.0)
        await self._for(0.5)

    async def slow_link(self) -> None:
        one, other = self.rng.sample(self._everybody(), 2)
        self.count("slow link")
        self.world.network.slow(one, other, self.rng.choice([0.02, 0.1, 0.4]))
        await self._for(1.0)
        self.world.network.slow(one, other, 0.0)

    async def slow_node(self) -> None:
        """All that a node sends takes longer; several entries are under way at once."""
        node = self._victim()
        self.count("slow node", node)
        extra_s = self.rng.choice([0.02, 0.1, 0.2])
        for other in self._everybody():
            self.world.network.slow(node.name, other, extra_s)
        await self._for(1.5)
        for other in self._everybody():
            self.world.network.slow(node.name, other, 0.0)

    # Clocks and disks.

    async def drift(self) -> None:
        # Any two rates differ by less than the declared bound of 1 %.
        self.count("drift")
        self.rng.choice(self.world.hosts()).drift(self.rng.uniform(0.9955, 1.0045))

    async def wall_step(self) -> None:
        self.count("wall clock step")
        self.rng.choice(self.world.nodes).host.wall_offset_s += self.rng.choice([-3600.0, 3600.0])

    async def stall_disk(self) -> None:
        node = self._victim()
        self.count("disk stall", node)
        node.host.disk_stalled = True
        await self._for(0.8)
        node.host.disk_stalled = False

    async def disk_full(self) -> None:
        node = self._victim()
        if node.host.disk_faulty:
            return
        self.count("disk full", node)
        await self._disk_refuses(node, lambda disk: setattr(disk, "capacity_bytes", 0))

    async def disk_error(self) -> None:
        node = self._victim()
        if node.host.disk_faulty:
            return
        self.count("disk error", node)
        kind = self.rng.choice(["datasync", "pwrite", "rename", "syncdir"])
        await self._disk_refuses(
            node, lambda disk: disk.failing.update({kind: OSError(errno.EIO, "Input/output error")})
        )

    async def _disk_refuses(self, node: SimNode, spoil: Callable[..., object]) -> None:
        """The node stops by itself, and is started again until its disk works."""
        node.host.disk_faulty = True
        for disk in node.host.disks.values():
            spoil(disk)
        await self._for(0.8)
        for disk in node.host.disks.values():
            disk.capacity_bytes = 1 << 62
            disk.failing.clear()
        # It may have lost unsynced bytes to a failed sync without knowing where: as after a crash, only a new life reads them.
        node.crash()
        node.host.disk_faulty = False
        await restarted(node)

    async def mend(self) -> None:
        """Everything runs again."""
        self.world.network.heal()
        for host in self.world.hosts():
            if host.paused:
                host.resume()
            host.disk_stalled = False
        for node in self.world.nodes:
            await restarted(node)
        await newcomers.finish(self.world)
