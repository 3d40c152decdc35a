"""Being a node and its client in one process: ``join``, and ``local`` for a process alone.

Knows: which thread runs the node, in what order node and coordinator come and go. Must not know: what either of them does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from cluster.address import Address
from cluster.client import Coordinator, IoThread, Resident, TcpDoor
from cluster.client.checks import Seconds, flag, timeout_s
from cluster.errors import UsageError
from cluster.local import LocalDoor, LocalNode
from cluster.node import Node, NodeConfig
from cluster.ports import Connection, Env, Hello, Welcome
from cluster.secrets import Secret, Secrets
from cluster.storage import Durability
from cluster.tls import Tls

READY_TIMEOUT_S: Final = 30.0

ELECTIONS: Final = {
    "low": (0.15, 0.3, 0.04),
    "default": (0.3, 0.6, 0.075),
    "region": (1.0, 2.0, 0.25),
}
"""Named rhythms: shortest and longest election timeout and heartbeat, in seconds. ``low`` for a quiet local network, ``region`` for
round trips of about 100 ms."""

R = TypeVar("R")


class NodeDoor:
    """The way to the own node without a socket, and to the others by theirs."""

    def __init__(self, node: Node, peers: Iterable[str], secrets: Secrets) -> None:
        self._node = node
        self._sockets = TcpDoor([node.address, *(peer for peer in peers if peer != node.address)], secrets, tls=node.tls)
        self.endpoints = self._sockets.endpoints

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        if address == self._node.address:
            return await self._node.open_client(hello)
        return await self._sockets.open(env, address, hello)


def election(name: str) -> tuple[float, float, float]:
    """(shortest timeout, longest timeout, heartbeat) in seconds of a named rhythm. Raises UsageError for another name."""
    if name not in ELECTIONS:
        raise UsageError(f"election {name!r} is not known", f"choose one of {', '.join(ELECTIONS)}")
    return ELECTIONS[name]


def node_config(
    listen: str,
    peers: str | Iterable[str],
    single: bool,
    data_dir: str | None,
    ephemeral: bool,
    durability: Durability,
    secret: Secret,
    tls: Tls | None,
    insecure: bool,
    advertise: str | None,
    weight: int,
    rhythm: str,
) -> NodeConfig:
    """What ``join`` was given, checked. Raises UsageError."""
    if not isinstance(peers, Iterable):
        raise UsageError(f"peers is {type(peers).__name__}", "give the addresses of all nodes, as text or as a list")
    texts = peers.split(",") if isinstance(peers, str) else list(peers)
    if data_dir is not None and (not (isinstance(data_dir, str) or hasattr(data_dir, "__fspath__")) or "\0" in str(data_dir)):
        raise UsageError(f"data_dir={data_dir!r} is no directory", "give a path, or leave it out")
    shortest_s, longest_s, heartbeat_s = election(rhythm)
    config = NodeConfig(
        listen=Address.parse(listen, what="listen"),
        peers=tuple(str(Address.parse(text, what="peer")) for text in texts if not isinstance(text, str) or text.strip()),
        advertise=None if advertise is None else Address.parse(advertise, what="advertise"),
        data_dir=None if data_dir is None else str(data_dir),
        ephemeral=flag(ephemeral, "ephemeral"),
        durability=durability,
        single=flag(single, "single"),
        secrets=Secrets.of(secret),
        tls=tls,
        insecure=flag(insecure, "insecure"),
        weight=weight,
        election_min_s=shortest_s,
        election_max_s=longest_s,
        heartbeat_s=heartbeat_s,
    )
    config.check()
    return config


def join(
    listen: str,
    peers: str | Iterable[str] = (),
    *,
    single: bool = False,
    data_dir: str | None = None,
    ephemeral: bool = False,
    durability: Durability = "fsync",
    node_id: str | None = None,
    secret: Secret = None,
    tls: Tls | None = None,
    insecure: bool = False,
    advertise: str | None = None,
    weight: int = 1,
    election: str = "default",
    ready_timeout: Seconds = READY_TIMEOUT_S,
) -> Coordinator:
    """Become a node of a raft group, in this process.

    Args:
        listen: address that this node listens on, for nodes and clients alike.
        peers: addresses of all members; this node's own may be among them. Every member must be given the same list.
        single: be a raft group of one. It must be asked for: nothing takes over when this process ends.
        data_dir: directory of the journal; None: ``./tenure-data/<address>``. It belongs to this node alone.
        ephemeral: keep nothing on disk; after each start the node catches up before it votes.
        durability: ``"fsync"`` survives power cuts, ``"process"`` survives kills of the process only.
        node_id: what people see as the holder; None: ``hostname:pid``.
        secret: shared secret of the raft group and its clients, or a mapping from the roles ``"peer"``, ``"client"`` and ``"admin"`` to
            one secret each. Without it, and without ``tls``, only this machine may connect, unless ``insecure``.
        tls: this node's certificate, its key and the authority that all certificates come from; None: no TLS.
        advertise: address under which the others reach this node, if it is not ``listen``.
        weight: 0 to 1,000: of the members that have caught up, the heaviest shall lead the raft group. Leadership moves by transfer, at
            most every 20 of the longest election timeouts; who is elected when a leader dies does not depend on it.
        election: rhythm by name: ``"default"`` (0.3 to 0.6 s without a leader begin an election), ``"low"``, ``"region"``.
        ready_timeout: seconds, 0.001 to 1 day: how long to wait until a raft leader is known.

    Returns:
        A coordinator. Closing it stops the node too.

    Raises:
        UsageError: a bad argument, an address or directory that cannot be used. Nothing was started.
        Unavailable: no raft leader within ``ready_timeout``: fewer than a majority of the members can be reached.
        CoordinationError: the data directory is damaged, and the message names the file; or the node had to stop by itself, and it says why
            (a full disk, a removal from the raft group).
    """
    config = node_config(listen, peers, single, data_dir, ephemeral, durability, secret, tls, insecure, advertise, weight, election)
    patience_s = timeout_s(ready_timeout, "ready_timeout")
    io = IoThread("tenure-node")
    node: Node | None = None

    def fatal(why: str) -> None:
        # One that stops before it is known here is closed when ``ready`` has told why.
        if node is not None:
            io.env.call_soon(node.close)

    home = Resident(io, lambda: Node.start(io.env, config, fatal), _end)
    try:
        node = io.run(home.begin())
        io.run(node.ready(patience_s))
        return Coordinator(NodeDoor(node, config.peers, config.secrets), node_id=node_id, io=io, at_close=node.close)
    except BaseException:
        io.stop()
        raise


async def _end(node: Node) -> None:
    node.close()
    await node.net.wait_closed()


def local(*, node_id: str | None = None) -> Coordinator:
    """A coordinator of this process alone, without network or files: the same table, the same semantics.

    For tests, and for programs that run once. Two of them know nothing of each other.
    """
    io = IoThread("tenure-local")
    try:
        node = io.run(_start_local(io.env))
        return Coordinator(LocalDoor(node), node_id=node_id, io=io, at_close=node.close)
    except BaseException:
        io.stop()
        raise


async def _start_local(env: Env) -> LocalNode:
    return LocalNode(env)


async def off_loop(make: Callable[[], Coordinator]) -> Coordinator:
    """Run one of the above on a thread, for event loops. If the caller is cancelled meanwhile, what comes of it is closed."""
    making = asyncio.get_running_loop().run_in_executor(None, make)
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        making.add_done_callback(_discard)
        raise


def _discard(made: asyncio.Future[Coordinator]) -> None:
    if not made.cancelled() and made.exception() is None:
        made.result().close(limit=0)
