"""One node of a raft group: its parts put together, and the ways to run it.

Knows: which part needs which, in what order they start and stop. Must not know: what any of them decides.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from cluster.address import Address
from cluster.env import RealEnv
from cluster.errors import CoordinationError, Unavailable, UsageError
from cluster.limits import ELECTION_TIMEOUT_MAX_S, ELECTION_TIMEOUT_MIN_S, HEARTBEAT_S, NODE_WEIGHT_MAX, PEERS_MAX
from cluster.net import NodeNet, check_exposure, memory_pair
from cluster.ports import Connection, Env, Hello, Welcome
from cluster.secrets import NO_SECRETS, Secrets
from cluster.server.server import Server
from cluster.storage import Durability, Storage, open_storage
from cluster.tls import Credentials, Tls

logger = logging.getLogger(__name__)

DURABILITIES: tuple[Durability, ...] = ("fsync", "process")
READY_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """How one node runs.

    Attributes:
        listen: where it listens; port 0 takes a free one.
        also_listen: further addresses, for clients of this machine.
        peers: advertised addresses of the other members; may contain this node's own.
        advertise: address under which the others reach it; ``None``: ``listen``.
        data_dir: directory of its journal; ``None``: ``./tenure-data/<advertised address>``.
        ephemeral: no directory; every start is a new incarnation that catches up before it votes.
        durability: ``"fsync"`` survives power cuts, ``"process"`` survives kills of the process only.
        single: a raft group of one, without peers.
        secrets: what proves each role, in the raft group and to its clients.
        tls: certificate files; every connection but those of Unix sockets is protected then.
        insecure: allow to listen on more than this machine without a secret or TLS.
        weight: of the members that could lead the heaviest shall, 0 to 1,000.
        election_min_s, election_max_s: a follower that hears no leader for a random time between the two asks for votes.
    """

    listen: Address
    peers: tuple[str, ...] = ()
    also_listen: tuple[Address, ...] = ()
    advertise: Address | None = None
    data_dir: str | None = None
    ephemeral: bool = False
    durability: Durability = "fsync"
    single: bool = False
    secrets: Secrets = NO_SECRETS
    tls: Tls | None = None
    insecure: bool = False
    weight: int = 1
    election_min_s: float = ELECTION_TIMEOUT_MIN_S
    election_max_s: float = ELECTION_TIMEOUT_MAX_S
    heartbeat_s: float = HEARTBEAT_S

    @property
    def address(self) -> str:
        """Under which the others know it."""
        return str(self.advertise or self.listen)

    def check(self) -> None:
        """Raises UsageError for a combination that makes no sense. Nothing was opened."""
        others = [peer for peer in self.peers if peer != self.address]
        if not others and not self.single:
            raise UsageError(
                f"node {self.listen} has no peers",
                "give the addresses of the other nodes, or ask for a raft group of one (--single, or single=True)",
            )
        if self.single and others:
            raise UsageError("single and peers exclude each other", "leave out --single, or --peers")
        if len(self.peers) > PEERS_MAX:
            raise UsageError(f"{len(self.peers)} peers are more than {PEERS_MAX}", "a raft group of 3 or 5 is enough")
        if not (self.advertise or self.listen).is_unix and (self.advertise or self.listen).port == 0:
            raise UsageError(f"{self.advertise or self.listen}: port 0 cannot be advertised to others", "choose a port")
        if self.durability not in DURABILITIES:
            raise UsageError(f"durability {self.durability!r} is not known", "choose fsync or process")
        if self.ephemeral and self.data_dir is not None:
            raise UsageError("ephemeral and a data directory exclude each other", "leave one of them out")
        if not 0 < self.heartbeat_s * 3 < self.election_min_s < self.election_max_s:
            raise UsageError(
                f"election timeout {self.election_min_s}-{self.election_max_s} s does not fit a heartbeat of {self.heartbeat_s} s",
                "the shortest must be more than three heartbeats, and less than the longest",
            )
        if type(self.weight) is not int or not 0 <= self.weight <= NODE_WEIGHT_MAX:
            raise UsageError(f"weight={self.weight!r} is no weight of a node", f"give a whole number from 0 to {NODE_WEIGHT_MAX}")
        self.secrets.of_role("peer")
        check_exposure((self.listen, *self.also_listen), self.secrets, self.tls, self.insecure)


class Node:
    """A running node. Made by ``Node.start``, on the loop of its env."""

    def __init__(
        self,
        env: Env,
        config: NodeConfig,
        storage: Storage,
        fatal: Callable[[str], None],
        tls: Credentials | None = None,
    ) -> None:
        from cluster.raft import RaftConfig, RaftNode

        self._env = env
        self._config = config
        self._storage = storage
        self._fatal = fatal
        self._closed = False
        self.failure: CoordinationError | None = None
        """Why it had to stop by itself."""
        self.address = config.address
        self.tls = tls
        self.others = tuple(peer for peer in config.peers if peer != self.address)
        self.server = Server(env, new_cluster_id=lambda: storage.meta.cluster_id or env.entropy(16), peers_wall_s=self._peers_wall_s)
        self.server.on_cluster_id = self._learn_cluster_id
        self.net = NodeNet(
            env,
            listen=(config.listen, *config.also_listen),
            advertise=config.advertise or config.listen,
            peers=(),
            secrets=config.secrets,
            hello=self._hello,
            welcome=self.server.welcome,
            accept=lambda other: self.raft.objection(other) if other.role == "peer" else None,
            tls=tls,
        )
        self.raft = RaftNode(
            env,
            RaftConfig(
                node_id=self.address,
                peers=self.others,
                single=config.single,
                election_min_s=config.election_min_s,
                election_max_s=config.election_max_s,
                heartbeat_s=config.heartbeat_s,
                ephemeral=config.ephemeral,
                weight=config.weight,
            ),
            storage,
            self.server,
            self.net,
            self._fail,
        )
        self.net.on_removed = self.raft.told_of_removal
        self.server.bind(self.raft)
        self.raft.on_members(self.server.members_changed)
        self.net.on_client = self.server.client_connected

    @classmethod
    async def start(cls, env: Env, config: NodeConfig, fatal: Callable[[str], None]) -> Node:
        """Open the data, the sockets, and begin to take part.

        ``fatal`` is called with one clear line if the node must stop by itself (a damaged or full disk, a newer format).

        Raises:
            UsageError: a bad configuration, an address, directory or TLS file that cannot be used.
            CoordinationError: damaged data. The message names the file.
        """
        config.check()
        tls = None if config.tls is None else Credentials(config.tls)
        directory = config.data_dir or f"tenure-data/{config.advertise or config.listen}".replace("unix:", "")
        storage = (
            open_storage(env, None, "memory") if config.ephemeral else open_storage(env, directory, config.durability)
        )
        try:
            node = cls(env, config, storage, fatal, tls)
            await node.net.start()
        except BaseException:
            storage.close()
            raise
        node.raft.start()
        if not storage.meta.joined and not config.single:
            logger.info("node.waits node=%s for=%s until they answer", node.address, ",".join(node.others))
        return node

    async def ready(self, timeout_s: float) -> None:
        """Wait until a raft leader is known.

        Raises:
            Unavailable: not within ``timeout_s``. The message names the peers that were not reached.
            CoordinationError: it had to stop by itself; at once.
        """
        until = self._env.clock() + timeout_s
        while self.raft.leader is None or (self.raft.is_leader and not self.server.batcher.serving):
            if self.failure is not None:
                raise self.failure
            if self._env.clock() >= until:
                missing = [
                    peer for peer in self._config.peers if peer != self.address and peer not in self.net.connected()
                ]
                unreached = f"; not reached: {', '.join(missing)}" if missing else ""
                # A majority is enough only for a group that has been formed.
                enough = (
                    "a majority of the nodes"
                    if self._storage.meta.joined
                    else "all nodes, since a raft group forms when all answer"
                )
                raise Unavailable(
                    f"node {self.address} found no raft leader within {timeout_s:g} s{unreached}",
                    f"start {enough}, and check the addresses in peers",
                )
            await asyncio.sleep(READY_POLL_S)

    async def open_client(self, hello: Hello) -> tuple[Connection, Welcome]:
        """A client connection to this node without a socket. Raises ConnectionRefusedError if it had to stop by itself."""
        if self.failure is not None:
            raise ConnectionRefusedError(self.failure.detail)
        ours, theirs = memory_pair(self._env, hello)
        self.server.client_connected(theirs)
        return ours, self.server.welcome(hello)

    def close(self) -> None:
        """Stop taking part. Clients are told; leases stay."""
        if self._closed:
            return
        self._closed = True
        self.server.close()
        self.raft.close()
        self.net.close()
        self._storage.close()

    def _fail(self, why: str) -> None:
        logger.critical("node.fatal reason=%s", why)
        self.failure = CoordinationError(why, "see the log of this node")
        self._fatal(why)

    def _hello(self) -> Hello:
        meta = self._storage.meta
        return Hello("peer", self.address, meta.incarnation, meta.cluster_id, self.raft.hello_info())

    def _learn_cluster_id(self, cluster_id: bytes) -> None:
        if self._storage.meta.cluster_id != cluster_id:
            self._storage.meta.save(cluster_id=cluster_id)

    def _peers_wall_s(self) -> float:
        return max(self._env.wall(), self.raft.peers_wall_ms() / 1000.0)


async def run_node(config: NodeConfig, stop: asyncio.Event, ready: Callable[[], None]) -> None:
    """Run one node on the running loop until ``stop`` is set; ``ready`` is called once it serves or follows.

    Raises:
        UsageError, CoordinationError: it could not start, or had to stop by itself.
    """
    env = RealEnv(asyncio.get_running_loop())
    node = await Node.start(env, config, lambda why: stop.set())
    try:
        waiting = asyncio.ensure_future(node.ready(float("inf")))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done() and not waiting.cancelled() and waiting.exception() is None and not stop.is_set():
            ready()
        await stopping
        waiting.cancel()
    finally:
        node.close()
        await node.net.wait_closed()
        env.close()
    if node.failure is not None:
        raise node.failure
