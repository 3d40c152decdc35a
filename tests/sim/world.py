"""One simulated run: nodes, clients that work, faults, and what must hold.

Knows: how to make the real node and the real client run on simulated hosts, what workers do. Must not know: which faults come when
(``faults``), what is checked (``observer``).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from cluster.address import Address
from cluster.client import Coordinator, TcpDoor
from cluster.errors import CoordinationError, LeaseLostError
from cluster.node import Node, NodeConfig
from cluster.storage import Durability
from tests.sim.host import Host
from tests.sim.loop import VirtualLoop
from tests.sim.network import Network
from tests.sim.observer import Observer, Violation

PORT = 7001
NAMES = ("nightly", "report", "poll")
SETTLE_S = 30.0


class SimNode:
    """A node process on a host, started and ended many times."""

    def __init__(self, world: World, host: Host, config: NodeConfig) -> None:
        self.world = world
        self.host = host
        self.config = config
        self.node: Node | None = None
        self.fatal = ""

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def up(self) -> bool:
        return self.node is not None

    async def start(self) -> None:
        env = self.host.env()
        node = await Node.start(env, self.config, self._stopped_itself)
        server = node.server
        apply = server.apply

        def observed(index: int, term: int, command: bytes) -> None:
            self.world.watch(self.name, index, term, command, server.table.time_ms)
            apply(index, term, command)

        server.apply = observed  # type: ignore[method-assign]
        self.node = node

    def _stopped_itself(self, why: str) -> None:
        self.fatal = why
        self.world.counts["fatal"] += 1
        self.world.loop.call_soon(self.crash)

    def crash(self, *, power: bool = False) -> None:
        self.node = None
        self.host.crash(power=power)


class Worker:
    """A client process: several tasks that contend, hold, extend, and let go."""

    def __init__(self, world: World, host: Host, endpoints: list[str]) -> None:
        self.world = world
        self.host = host
        self.name = host.name
        self.rng = random.Random(host.rng.random())
        self.coordinator = Coordinator(TcpDoor(endpoints, None), env=host.env(), node_id=host.name)
        self._engine: Any = self.coordinator._port.engine

    def believes(self, lease: bytes) -> list[tuple[int, int, float]]:
        now = self.host.clock()
        return [
            (core.token, core.slot, core.deadline() - now)
            for core in self._engine.leases.values()
            if core.name == lease and not core.reason and not core.given_back and core.deadline() > now
        ]

    async def work(self, until: float) -> None:
        loop = self.world.loop
        while loop.time() < until:
            await self.host.awake()
            try:
                await self._one_round()
            except LeaseLostError:
                self.world.counts["lost"] += 1
            except CoordinationError as error:
                self.world.counts[type(error).__name__] += 1
            await asyncio.sleep(self.rng.expovariate(1 / 0.05))

    async def _one_round(self) -> None:
        rng, counts = self.rng, self.world.counts
        lease_s = rng.choice([0.3, 0.8, 2.0])
        wait_s = rng.choice([0.0, 0.2, 3.0])
        slots = rng.random() < 0.2
        name = "slots" if slots else rng.choice(NAMES)
        arguments: dict[str, Any] = {"lease_time": lease_s, "wait_time": wait_s, "auto_extend": rng.random() < 0.4, "timeout": 2.0}
        if slots:
            arguments["max_leaders"] = 2
        if rng.random() < 0.1:
            arguments["min_lease_time"] = lease_s / 2
        if rng.random() < 0.1:
            await self._all_of_them(arguments)
            return
        lease = await self.coordinator.aio.acquire(name, **arguments)
        if lease is None:
            counts["skipped"] += 1
            return
        counts["granted"] += 1
        self.world.observer.acknowledged(name, lease.token)
        await self._hold(lease, lease_s)

    async def _hold(self, lease: Any, lease_s: float) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 4)):
            await asyncio.sleep(rng.expovariate(1 / (lease_s / 3)))
            await self.host.awake()
            if lease.confidence == "lost":
                break
            if rng.random() < 0.3:
                await lease.extend()
        if rng.random() < 0.8:
            await lease.release()
        else:
            # A job that forgot about the time: the lease runs out, or is renewed until this process lets go.
            await asyncio.sleep(lease_s)
            await lease.release()

    async def _all_of_them(self, arguments: dict[str, Any]) -> None:
        leases = await self.coordinator.aio.acquire_all(NAMES[:2], **arguments)
        if leases is None:
            self.world.counts["skipped all"] += 1
            return
        self.world.counts["granted all"] += 1
        for lease in leases:
            self.world.observer.acknowledged(lease.name, lease.token)
        await asyncio.sleep(self.rng.expovariate(1 / 0.1))
        await self.host.awake()
        await leases.release()


class World:
    """Everything of one seed."""

    def __init__(self, seed: int, nodes: int = 3, workers: int = 3, durability: Durability = "fsync") -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.loop = VirtualLoop()
        self.network = Network(self.loop, random.Random(self.rng.random()))
        self.observer = Observer()
        self.counts: Counter[str] = Counter()
        self.failure: Violation | None = None
        addresses = [f"n{number}:{PORT}" for number in range(1, nodes + 1)]
        self.nodes = [self._node(address, tuple(addresses), durability) for address in addresses]
        self._addresses = addresses
        self._worker_count = workers
        self.workers: list[Worker] = []

    def _host(self, name: str) -> Host:
        return Host(name, self.loop, self.network, self.rng.getrandbits(64))

    def _node(self, address: str, peers: tuple[str, ...], durability: Durability) -> SimNode:
        config = NodeConfig(
            listen=Address.parse(address), peers=peers, data_dir="data", durability=durability, insecure=True
        )
        return SimNode(self, self._host(address.partition(":")[0]), config)

    def watch(self, node: str, index: int, term: int, command: bytes, time_ms: int) -> None:
        try:
            self.observer.applied(node, index, term, command, time_ms)
        except Violation as violation:
            self.failure = self.failure or violation
            raise

    async def begin(self) -> None:
        for node in self.nodes:
            await node.start()
        for number in range(self._worker_count):
            self.workers.append(Worker(self, self._host(f"w{number + 1}"), self._addresses))
        self.observer.believers.extend(self.workers)

    def leader(self) -> SimNode | None:
        return next((node for node in self.nodes if node.node is not None and node.node.server.batcher.serving), None)

    async def settle(self) -> None:
        """After the faults: one leader, and all nodes at the same index with the same state, within a bound."""
        until = self.loop.time() + SETTLE_S
        while self.loop.time() < until:
            self.raise_failure()
            running = [node.node for node in self.nodes if node.node is not None]
            applied = {node.raft.status()["applied_index"] for node in running}
            if len(running) == len(self.nodes) and len(applied) == 1 and self.leader() is not None:
                break
            await asyncio.sleep(0.1)
        else:
            raise Violation(f"the nodes do not agree {SETTLE_S:g} s after the last fault")
        for node in self.nodes:
            assert node.node is not None
            self.observer.agrees(node.name, self.observer.last_index, node.node.server.table.snapshot())

    async def serve_everybody(self) -> None:
        """Liveness: whoever asks now and waits long enough is granted."""
        for name in NAMES:
            lease = await self.workers[0].coordinator.aio.acquire(name, lease_time=1.0, wait_time=10.0, timeout=10.0)
            if lease is None:
                raise Violation(f"{name!r} is not granted to anybody 10 s after all work ended")
            await lease.release()

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        for host in [*(node.host for node in self.nodes), *(worker.host for worker in self.workers)]:
            host.crash()
        pending = asyncio.all_tasks(self.loop)
        for task in pending:
            task.cancel()
        if pending:
            self.loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self.loop.close()


