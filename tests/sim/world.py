"""One simulated run: nodes, clients, what is written down, and what must hold at the end.

Knows: how to make the real node and the real client run on simulated hosts. Must not know: which faults come when (``faults``), what is
checked on the way (``observer``).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from cluster.address import Address
from cluster.errors import CoordinationError
from cluster.node import NodeConfig
from cluster.storage import Durability
from tests.history.record import Recorder
from tests.sim.host import Host
from tests.sim.loop import VirtualLoop
from tests.sim.model_table import fresh_table
from tests.sim.network import Network
from tests.sim.node import SimNode, restarted
from tests.sim.observer import Observer
from tests.sim.rounds import NAMES, WORKS
from tests.sim.shape import Shape
from tests.sim.violation import Violation
from tests.sim.worker import Worker

if TYPE_CHECKING:
    from tests.sim.newcomers import Change

PORT = 7001
SETTLE_S = 30.0
CLOSE_S = 5.0


class World:
    """Everything of one seed."""

    def __init__(
        self, rng: random.Random, shape: Shape, workers: int = 3, durability: Durability = "fsync", work: str = "all"
    ) -> None:
        self.rng = rng
        self.shape = shape
        self.works = WORKS[work]
        self.loop = VirtualLoop()
        self.network = Network(self.loop, random.Random(rng.random()))
        self.observer = Observer(self.loop.time, fresh_table())
        self.history = Recorder(self.loop.time)
        self.counts: Counter[str] = Counter()
        self.failure: Violation | None = None
        self._restarts: list[asyncio.Task[None]] = []
        self._addresses = [f"n{number}:{PORT}" for number in range(1, shape.nodes + 1)]
        self.nodes = [self._node(address, tuple(self._addresses), durability) for address in self._addresses]
        self._worker_count = workers
        self.workers: list[Worker] = []
        self._durability = durability
        self.changing = False
        self.replaced = 0
        self.removed: list[SimNode] = []
        self.open_changes: list[Change] = []

    @property
    def whole(self) -> bool:
        """All members have their memory, and no others are coming: one may lose it."""
        return not self.changing and all(node.member for node in self.nodes)

    def newcomer(self) -> SimNode:
        """Another node, not started, told of the members as they are."""
        number = len(self.nodes) + len(self.removed) + 1
        return self._node(f"n{number}:{PORT}", tuple(f"{node.name}:{PORT}" for node in self.nodes), self._durability)

    def _host(self, name: str) -> Host:
        return Host(name, self.loop, self.network, self.rng.getrandbits(64))

    def _node(self, address: str, peers: tuple[str, ...], durability: Durability) -> SimNode:
        config = NodeConfig(
            listen=Address.parse(address), peers=peers, data_dir="data", durability=durability, insecure=True
        )
        return SimNode(self, self._host(address.partition(":")[0]), config)

    def fail(self, violation: Violation) -> None:
        """An invariant does not hold. The first one counts."""
        self.failure = self.failure or violation

    def restart(self, node: SimNode) -> None:
        self._restarts.append(self.loop.create_task(restarted(node)))

    async def begin(self) -> None:
        for node in self.nodes:
            await node.start()
        for number in range(self._worker_count):
            self.workers.append(Worker(self, self._host(f"w{number + 1}"), self._addresses))
        self.observer.believers.extend(self.workers)

    def hosts(self) -> list[Host]:
        return [node.host for node in (*self.nodes, *self.removed)] + [worker.host for worker in self.workers]

    def leader(self) -> SimNode | None:
        """Who serves; of two, one of whom does not know better yet, the one in the greater term."""
        serving = [node for node in self.nodes if node.node is not None and node.node.server.batcher.serving]
        return max(serving, key=lambda node: node.adapter.term, default=None)

    async def settle(self) -> None:
        """After the faults: one leader, and all nodes at the same index with the same state, within a bound."""
        until = self.loop.time() + SETTLE_S
        while not self._settled():
            self.raise_failure()
            if self.loop.time() >= until:
                raise Violation(f"the nodes do not agree {SETTLE_S:g} s after the last fault: {self._where()}")
            await asyncio.sleep(0.1)
        for node in self.nodes:
            assert node.node is not None
            server = node.node.server
            self.observer.agrees(node.name, server.table.snapshot(), server.events)

    def _settled(self) -> bool:
        applied = {node.node.raft.status()["applied_index"] for node in self.nodes if node.node is not None}
        all_there = all(node.up and node.member for node in self.nodes)
        return (
            all_there and len(applied) == 1 and max(applied) >= self.observer.last_index and self.leader() is not None
        )

    def _where(self) -> dict[str, Any]:
        fields = ("role", "term", "leader", "commit_index", "applied_index", "last_index", "member")
        return {
            node.name: {field: node.node.raft.status()[field] for field in fields} if node.node is not None else "down"
            for node in self.nodes
        }

    async def serve_everybody(self) -> None:
        """Liveness: whoever asks now and waits long enough is granted."""
        for name in NAMES:
            try:
                lease = await self.workers[0].coordinator.aio.acquire(
                    name, lease_time=1.0, wait_time=10.0, timeout=10.0
                )
            except CoordinationError as error:
                raise Violation(f"{name!r} is not granted to anybody when all work has ended: {error}") from error
            if lease is None:
                raise Violation(f"{name!r} is not granted to anybody 10 s after all work ended")
            await lease.release()

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        for host in self.hosts():
            host.crash()
        pending = asyncio.all_tasks(self.loop)
        for task in pending:
            task.cancel()
        if pending:
            # Who waits for an answer from a process that is gone, as for a release, waits for ever.
            self.loop.run_until_complete(asyncio.wait(pending, timeout=CLOSE_S))
        self.loop.close()
