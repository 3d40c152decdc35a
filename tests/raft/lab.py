"""A raft group on one table: a clock that is moved by hand, connections whose every message is delivered by hand.

Knows: ``ports.Env`` and ``ports.PeerNet`` as the adapter uses them, how a node starts and dies. Must not know: which schedule is played.

Each direction of a connection is a queue, first in first out, as over TCP. A connection that is broken loses what is under way. Timers
fire only for the node that is ticked, or for all when time runs by itself (``run``).
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from cluster.ports import Env, Hello, PeerNet
from cluster.raft.adapter import Adapter
from cluster.raft.config import RaftConfig
from cluster.raft.messages import decode
from cluster.raft.node import RaftNode
from cluster.storage import Storage, open_storage
from tests.raft.labenv import START_S, LabEnv
from tests.raft.ledger import Ledger, ListMachine
from tests.storage.simdisk import SimDisk


class Link:
    """One connection between two nodes."""

    def __init__(self, a: str, b: str) -> None:
        self.ends = (a, b)
        self.queues: dict[str, deque[bytes]] = {a: deque(), b: deque()}
        self.open = True


class LabNet:
    """See ``ports.PeerNet``."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self.links: dict[str, Link] = {}
        self.known: dict[str, None] = {}
        self.on_frame: Callable[[str, bytes], None]
        self.on_connected: Callable[[str, Hello], None]
        self.on_disconnected: Callable[[str], None]

    def send(self, peer: str, payload: bytes) -> bool:
        link = self.links.get(peer)
        if link is None or not link.open:
            return False
        link.queues[self._name].append(payload)
        self._world.sent(link, self._name)
        return True

    def send_encoded(self, peer: str, frame: bytes) -> bool:
        return self.send(peer, frame[4:])

    def connected(self) -> frozenset[str]:
        return frozenset(self.links)

    def add_peer(self, peer: str) -> None:
        self.known[peer] = None
        self._world.wanted(self._name, peer)

    def drop_peer(self, peer: str) -> None:
        self.known.pop(peer, None)
        self._world.not_wanted(self._name, peer)


class LabNode:
    """A member: its drive lives on, the rest is one life."""

    def __init__(self, world: World, name: str, config: dict[str, Any]) -> None:
        self.world = world
        self.name = name
        self.config = config
        self.told: tuple[str, ...] | None = None
        self.drive = SimDisk(random.Random(world.rng.random()))
        self.alive = False
        self.rate = 1.0
        self.fatal: list[str] = []
        self.env: LabEnv
        self.net: LabNet
        self.storage: Storage
        self.machine: ListMachine
        self.raft: RaftNode

    @property
    def adapter(self) -> Any:
        return self.raft._adapter

    @property
    def last(self) -> int:
        return int(self.storage.journal[-1][1])

    def boot(self) -> None:
        """Start from the drive. Raises what opening raises."""
        world = self.world
        self.env = LabEnv(world, self.drive, world.rng.getrandbits(32))
        self.env.rate = self.rate
        self.net = LabNet(world, self.name)
        env = cast(Env, self.env)
        self.storage = open_storage(env, "data", world.durability, segment_bytes=world.segment_bytes)  # type: ignore[arg-type]
        self.machine = world.machine_of(self)
        told = world.names if self.told is None else self.told
        config = RaftConfig(self.name, tuple(n for n in told if n != self.name), **self.config)
        raft_class = type("LabRaft", (RaftNode,), {"adapter_class": world.adapter_class})
        self.raft = raft_class(env, config, self.storage, self.machine, cast(PeerNet, self.net), self._fatal)
        self.machine.raft = self.raft
        self.alive = True
        self.raft.start()
        self.env.run_soon()

    def _fatal(self, why: str) -> None:
        self.fatal.append(why)

    def hello(self) -> Hello:
        meta = self.storage.meta
        return Hello("peer", self.name, meta.incarnation, meta.cluster_id, self.raft.hello_info())


class World:
    """All nodes, their connections and the time."""

    durability = "process"
    segment_bytes = 1 << 16

    def __init__(
        self,
        names: Sequence[str] = "ABC",
        adapter_class: type[Adapter] = Adapter,
        *,
        seed: int = 1,
        connect: bool = True,
        **config: Any,
    ) -> None:
        self.rng = random.Random(seed)
        self.now = START_S
        self._number = itertools.count()
        self.names = tuple(names)
        self.config = config
        self.adapter_class = adapter_class
        self.ledger = Ledger(self)
        self.nodes = {name: LabNode(self, name, dict(config)) for name in names}
        if connect:
            for node in self.nodes.values():
                node.boot()
            for a, b in itertools.combinations(names, 2):
                self.link(a, b)

    def __getitem__(self, name: str) -> LabNode:
        return self.nodes[name]

    def machine_of(self, node: LabNode) -> Any:
        """What a node that begins applies its log to."""
        return ListMachine(self.ledger, node.name)

    def next_number(self) -> int:
        return next(self._number)

    # What a world that runs by itself listens to.

    def timer_set(self, env: LabEnv, at: float) -> None:
        """A node has set a timer."""

    def disk_job(self, env: LabEnv) -> None:
        """A node has work for its disk thread."""

    def sent(self, link: Link, sender: str) -> None:
        """A message is under way."""

    def wanted(self, name: str, peer: str) -> None:
        """A node begins to call that peer."""

    def not_wanted(self, name: str, peer: str) -> None:
        """A node wants no connection with that peer any more."""
        if self[name].alive and peer in self[name].net.links:
            self.cut(name, peer)

    # Connections.

    def link(self, a: str, b: str) -> Link:
        """Connect two nodes; a connection they had is closed first."""
        self.cut(a, b)
        link = Link(a, b)
        for me, other in ((a, b), (b, a)):
            self[me].net.links[other] = link
        hellos = {name: self[name].hello() for name in (a, b)}
        for me, other in ((a, b), (b, a)):
            self[me].net.on_connected(other, hellos[other])
            self[me].env.run_soon()
        return link

    def let_in(self, caller: str, called: str) -> bool:
        """Whether the called one, asked as its net asks it, takes the caller's connection, and the caller wants one."""
        if called not in self[caller].net.known:
            return False
        objection = self[called].raft.objection(self[caller].hello())
        if objection is not None and objection[0] == "removed":
            self[caller].raft.told_of_removal(called, objection[1])
        return objection is None

    def cut(self, a: str, b: str) -> None:
        """Break their connection; what is under way is lost."""
        for me, other in ((a, b), (b, a)):
            node = self[me]
            link = node.net.links.pop(other, None) if node.alive else None
            if link is not None:
                link.open = False
                node.net.on_disconnected(other)
                node.env.run_soon()

    def isolate(self, name: str, others: Iterable[str] | None = None) -> None:
        for other in list(self[name].net.links) if others is None else others:
            self.cut(name, other)

    def pending(self, sender: str, receiver: str) -> list[list[Any]]:
        return [decode(payload) for payload in self[sender].net.links[receiver].queues[sender]]

    def deliver(self, sender: str, receiver: str, count: int = 1) -> None:
        """Deliver the next messages of one direction."""
        queue = self[sender].net.links[receiver].queues[sender]
        for _ in range(count):
            self.hand_over(sender, receiver, queue.popleft())

    def hand_over(self, sender: str, receiver: str, payload: bytes) -> None:
        node = self[receiver]
        if node.alive:
            node.net.on_frame(sender, payload)
            node.env.run_soon()

    def flow(self, sender: str, receiver: str) -> None:
        """Deliver everything of one direction."""
        link = self[sender].net.links.get(receiver)
        while link is not None and link.open and link.queues[sender]:
            self.deliver(sender, receiver)

    def lose(self, sender: str, receiver: str) -> None:
        self[sender].net.links[receiver].queues[sender].clear()

    # Nodes.

    def kill(self, name: str, *, power: bool = False) -> None:
        """kill -9, or the machine's power."""
        node = self[name]
        if node.alive:
            self.isolate(name)
        node.alive = False
        node.env.over = True
        self.ledger.forget(name)
        if power:
            node.drive.crash_power()
        else:
            node.drive.crash_process()

    def wipe(self, name: str) -> None:
        self[name].drive = SimDisk(random.Random(self.rng.random()))

    def newcomer(self, name: str, told: Iterable[str]) -> None:
        """Start another node, told of these."""
        node = self.nodes[name] = LabNode(self, name, dict(self.config))
        node.told = tuple(told)
        self.names = (*self.names, name)
        node.boot()

    def restart(self, name: str, peers: Iterable[str] = ()) -> None:
        self[name].boot()
        for peer in peers:
            self.link(name, peer)

    # Time.

    def tick(self, name: str, dt_s: float = 0.08) -> None:
        """Let time pass and this node's due timers fire; the others' wait."""
        self.now += dt_s
        node = self[name]
        node.env.fire_due()
        self.work(name)

    def work(self, name: str) -> None:
        """Do all that waits for this node's disk thread."""
        node = self[name]
        while node.env.disk_jobs and node.alive:
            node.env.do_disk_job()

    # Raft.

    def elect(self, name: str, voters: Iterable[str], *, and_no_more: bool = False) -> None:
        """Let this node stand after a silence, and the voters answer; others hear nothing.

        With ``and_no_more`` nobody hears what it says once it leads.
        """
        self.now += 0.7
        node = self[name]
        node.adapter._guard(node.adapter._campaign)
        node.env.run_soon()
        for _ in range(3):
            for voter in voters:
                if and_no_more and node.raft.is_leader:
                    self.lose(name, voter)
                self.flow(name, voter)
                self.flow(voter, name)
        assert node.raft.is_leader, f"{name} was not elected"

    def beat(self, leader: str, followers: Iterable[str], rounds: int = 2) -> None:
        """Some rounds of heartbeats, all delivered."""
        for _ in range(rounds):
            self.tick(leader)
            for _ in range(2):
                for follower in followers:
                    self.flow(leader, follower)
                    self.work(follower)
                    self.flow(follower, leader)
            for follower in followers:
                self.flow(leader, follower)

    def propose(self, name: str, command: str) -> None:
        node = self[name]
        index = node.raft.propose(command.encode())
        assert index is not None, f"{name} does not lead"
        self.ledger.proposed(name, index, node.raft.term, command.encode())
        node.env.run_soon()

    def compact(self, name: str) -> None:
        node = self[name]
        node.adapter._guard(node.adapter._compact)
        self.work(name)

    def form(self, leader: str = "A") -> None:
        """Elect a leader and let all know."""
        others = [name for name in self.names if name != leader]
        self.elect(leader, others)
        self.beat(leader, others)
