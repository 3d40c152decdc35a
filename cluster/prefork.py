"""One node for all processes of a machine: ``join_or_connect``.

Knows: which process has the lock, when to take over. Must not know: what the node and its clients do.

Each process tries for the lock of one file, without waiting in it: who has it is the node and listens on the Unix socket beside it, others
are its clients. The system gives the lock back however the process ends, so the next one to try takes over, with the same data directory:
to the raft group it is the same node, restarted, and to the clients a node that was away for a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Iterable
from typing import Final

from cluster.address import Address
from cluster.client import Coordinator, IoThread, Resident, TcpDoor
from cluster.client.checks import Seconds, timeout_s
from cluster.client.coordinator import TIMEOUT_S
from cluster.descriptors import LockedFile
from cluster.embedded import READY_TIMEOUT_S, node_config
from cluster.env import process_id
from cluster.errors import CoordinationError, Unavailable, UsageError
from cluster.node import Node, NodeConfig
from cluster.ports import Connection, Env, Hello, Welcome
from cluster.secrets import Secret
from cluster.storage import Durability
from cluster.tls import Credentials, Tls

logger = logging.getLogger(__name__)

LOCK_SUFFIX: Final = ".lock"
TRY_EVERY_S: Final = 0.1
# The system gives back the lock of a process that ends before its sockets, and the data directory in between.
PATIENCE_S: Final = 1.0
RETRY_S: Final = 0.05
STEPPED_DOWN_S: Final = 2.0
ASK_S: Final = 1.0


class Seat:
    """One process's part in it, on its loop: a candidate for the machine's node, and the way (``client.door.Door``) to whoever is."""

    def __init__(self, env: Env, config: NodeConfig, socket: Address) -> None:
        self._env = env
        self._config = dataclasses.replace(config, also_listen=(socket,))
        self._socket = socket
        own, tls = config.address, None if config.tls is None else Credentials(config.tls)
        self._sockets = TcpDoor([own, *(peer for peer in config.peers if peer != own)], config.secrets, tls=tls)
        self.endpoints = self._sockets.endpoints
        self._node: Node | None = None
        self._failure: CoordinationError | None = None
        self._lock: LockedFile | None = None
        self._over = asyncio.Event()
        self._settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._candidacy = env.spawn(self._stand(), "tenure-prefork")

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        if address != self._config.address:
            return await self._sockets.open(env, address, hello)
        if self._node is not None:
            return await self._node.open_client(hello)
        return await self._sockets.open(env, str(self._socket), hello)

    async def settle(self) -> None:
        """Wait until this process is the node, or has found that another one is. Raises what keeps it from being the node."""
        await asyncio.shield(self._settled)

    async def ready(self, coordinator: Coordinator, limit_s: float) -> None:
        """Wait until a raft leader is known. Raises Unavailable; CoordinationError if the node is here and had to stop by itself."""
        until = self._env.clock() + limit_s
        while True:
            left = until - self._env.clock()
            if self._failure is not None:
                raise self._failure
            if self._node is not None:
                await self._node.ready(left)
                return
            try:
                if (await coordinator.aio.status(timeout=max(0.001, min(ASK_S, left)))).leader:
                    return
            except Unavailable:
                if left <= ASK_S:
                    raise
            if left <= 0:
                raise Unavailable(
                    f"the node behind {self._socket} found no raft leader within {limit_s:g} s",
                    "start a majority of the nodes, and check the addresses in peers",
                )
            await asyncio.sleep(RETRY_S)

    def close(self) -> None:
        """End the node, if it is here, and let another process take over."""
        self._candidacy.cancel()
        if self._node is not None:
            self._node.close()
        self._unlock()

    async def wait_closed(self) -> None:
        await asyncio.wait({self._candidacy})
        if self._node is not None:
            await self._node.net.wait_closed()

    # Standing for it.

    async def _stand(self) -> None:
        """Try for the lock, again and again; have it, be the node."""
        try:
            while True:
                try:
                    await asyncio.sleep(await self._try())
                except Exception as error:
                    if not self._settled.done():
                        self._settled.set_exception(error)
                        return
                    # Not the end of it: files or memory may be short for a moment only.
                    known = isinstance(error, CoordinationError)
                    logger.error("prefork.takeover_failed node=%s reason=%s", self._config.address, error, exc_info=not known)
                    self._unlock()
                    await asyncio.sleep(STEPPED_DOWN_S)
        finally:
            self._unlock()

    async def _try(self) -> float:
        """Returns after how many seconds to try again."""
        if not self._try_lock():
            self._settle()
            return TRY_EVERY_S
        await self._serve()
        # Ended by itself: maybe another process can.
        return STEPPED_DOWN_S

    def _try_lock(self) -> bool:
        path = self._socket.path + LOCK_SUFFIX
        try:
            self._lock = LockedFile(path)
        except BlockingIOError:
            return False
        except OSError as error:
            raise UsageError(
                f"the lock file {path} cannot be used: {error.strerror or error}",
                "let all processes run as one user, and give a socket_path in a directory that it may write to",
            ) from error
        self._lock.say(f"{process_id()}\n")
        return True

    async def _serve(self) -> None:
        self._over.clear()
        self._failure = None
        self._node = node = await self._begin()
        logger.info("prefork.node node=%s socket=%s pid=%d", self._config.address, self._socket, process_id())
        self._settle()
        try:
            await self._over.wait()
        finally:
            node.close()
        self._node, self._failure = None, node.failure
        await node.net.wait_closed()
        self._unlock()

    async def _begin(self) -> Node:
        until = self._env.clock() + PATIENCE_S
        while True:
            try:
                return await Node.start(self._env, self._config, lambda why: self._over.set())
            except CoordinationError:
                if self._env.clock() >= until:
                    raise
            await asyncio.sleep(RETRY_S)

    def _settle(self) -> None:
        if not self._settled.done():
            self._settled.set_result(None)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _socket_address(path: object) -> Address:
    text = str(path)
    address = Address.parse(text if text.startswith("unix:") else f"unix:{text}", what="socket_path")
    if not address.path.startswith("/"):
        raise UsageError(f"socket_path {text!r} is not absolute", "every process must mean the same file: begin it with /")
    return address


def join_or_connect(
    socket_path: object,
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
    timeout: Seconds = TIMEOUT_S,
    ready_timeout: Seconds = READY_TIMEOUT_S,
) -> Coordinator:
    """Be a node of a raft group together with the other processes of this machine, as a prefork server's workers are.

    Call it in each of them, after the fork, with the same arguments. One becomes the node, the others are its clients over a Unix socket;
    when it ends, another takes over, with the same data directory, within a second or so. Coordinators, leases and sessions of the others
    live on. What the ended process itself held is free when its leases have run out.

    Args:
        socket_path: absolute path of the Unix socket, as text or ``pathlib.Path``; a lock file is made beside it, with the node's process
            id in it. Its directory must exist. Who may write to the directory may take part, unless there is a ``secret``.
        timeout: seconds, 0.001 to 1 day: the coordinator's default.
        ready_timeout: seconds, 0.001 to 1 day: how long to wait until a raft leader is known.

    The others are those of ``join``. ``ephemeral`` with ``single`` loses all leases when the node's process ends, and the next one grants
    at once what other processes believe they hold.

    Returns:
        A coordinator. Closing it stops the node too, if it is here; then another process takes over.

    Raises:
        UsageError: a bad argument, an address, directory or lock file that cannot be used. Nothing was started.
        Unavailable: no raft leader within ``ready_timeout``.
        CoordinationError: the data directory is damaged, and the message names the file; or the node is in this process and had to stop by
            itself, and it says why (a full disk, a removal from the raft group).
    """
    config = node_config(listen, peers, single, data_dir, ephemeral, durability, secret, tls, insecure, advertise, weight, election)
    config.secrets.of_role("client")
    socket = _socket_address(socket_path)
    patience_s = timeout_s(ready_timeout, "ready_timeout")
    io = IoThread("tenure-node")

    async def take() -> Seat:
        return Seat(io.env, config, socket)

    home = Resident(io, take, _end)
    try:
        seat = io.run(home.begin())
        io.run(seat.settle())
        coordinator = Coordinator(seat, timeout=timeout, node_id=node_id, io=io, at_close=seat.close)
        with contextlib.ExitStack() as undo:
            undo.callback(coordinator.close, limit=0)
            io.run(seat.ready(coordinator, patience_s))
            undo.pop_all()
        return coordinator
    except BaseException:
        io.stop()
        raise


async def _end(seat: Seat) -> None:
    seat.close()
    await seat.wait_closed()
