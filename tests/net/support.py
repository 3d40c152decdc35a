"""Real sockets on the loopback interface, for tests: nodes that write down what happens to them.

Knows: loops, ports, ``NodeNet``. Must not know: what a test wants to show.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from hypothesis import settings

from cluster.address import Address
from cluster.codec import frame
from cluster.env import RealEnv, new_loop
from cluster.net import NodeNet
from cluster.net.handshake import NONCE_BYTES, DialerHandshake
from cluster.ports import Connection, Hello, Welcome
from cluster.secrets import Secret, Secrets
from cluster.tls import Credentials
from tests.support_cluster import free_ports

SECRET = b"a long random secret"
POLL_S = 0.005

# Of property tests: the same examples at every run, and no deadline, since the machine may be busy.
quick = settings(deadline=None, max_examples=60, derandomize=True)

_started: list[Node] = []


async def until(predicate: Callable[[], object], what: str, within_s: float = 8.0) -> None:
    """Let the loop run until ``predicate()`` is true. Raises AssertionError with ``what`` if it never is."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not predicate():
        if loop.time() >= deadline:
            raise AssertionError(f"not within {within_s:g} s: {what}")
        await asyncio.sleep(POLL_S)


def run(work: Callable[[RealEnv], Coroutine[Any, Any, None]], *, plain: bool = False, within_s: float = 20.0) -> None:
    """Run one test on a fresh loop (uvloop's where installed, unless ``plain``), and leave nothing behind."""
    loop = asyncio.new_event_loop() if plain else new_loop()
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda loop, context: faults.append(context))
    try:
        loop.run_until_complete(asyncio.wait_for(work(RealEnv(loop)), within_s))
        loop.run_until_complete(loop.shutdown_default_executor())
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        assert not left, f"tasks left behind: {left}"
        assert not faults, f"the loop reported: {faults}"
    finally:
        # A failed test leaves nodes running, and they would go on calling each other while the loop is being closed.
        loop.run_until_complete(_stop_all())
        loop.close()


async def _stop_all() -> None:
    for node in _started:
        node.net.close()
    for node in _started:
        await asyncio.wait_for(node.net.wait_closed(), 5.0)
    _started.clear()


class Node:
    """A ``NodeNet`` that writes down what it is told. Clients are echoed.

    Attributes:
        story: ``("up", peer)``, ``("down", peer)``, ``("frame", peer, payload)`` in order.
        clients: the server ends of clients' connections; ``ends`` the reasons of those that are over.
    """

    def __init__(
        self,
        env: RealEnv,
        address: str,
        peers: Iterable[str] = (),
        *,
        secret: Secret = SECRET,
        tls: Credentials | None = None,
        listen: Address | list[Address] | None = None,
        incarnation: bytes | None = None,
        cluster_id: bytes = b"",
        accept: Callable[[Hello], tuple[str, str] | None] | None = None,
    ) -> None:
        self.address = address
        self.story: list[tuple[Any, ...]] = []
        self.clients: list[Connection] = []
        self.ends: list[str] = []
        self.hello = Hello("peer", address, incarnation or address.encode().ljust(16, b"-")[-16:], cluster_id)
        self.net = NodeNet(
            env,
            listen or Address.parse(address),
            Address.parse(address),
            peers,
            Secrets.of(secret),
            lambda: self.hello,
            lambda other: Welcome(address, cluster_id, 3, address),
            accept=accept,
            tls=tls,
        )
        self.net.on_connected = lambda peer, hello: self.story.append(("up", peer))
        self.net.on_disconnected = lambda peer: self.story.append(("down", peer))
        self.net.on_frame = lambda peer, payload: self.story.append(("frame", peer, payload))
        self.net.on_client = self._client
        _started.append(self)

    def _client(self, connection: Connection) -> None:
        self.clients.append(connection)
        connection.on_data = connection.write
        connection.on_closed = self.ends.append

    def frames(self, peer: str) -> list[bytes]:
        return [entry[2] for entry in self.story if entry[0] == "frame" and entry[1] == peer]

    def is_up(self, *peers: str) -> bool:
        return self.net.connected() == frozenset(peers)

    async def stop(self) -> None:
        self.net.close()
        await self.net.wait_closed()


def addresses(count: int) -> list[str]:
    """Free loopback addresses, in the order of their text: the first one is the one that decides."""
    return sorted(f"127.0.0.1:{port}" for port in free_ports(count))


async def mesh(env: RealEnv, count: int, **more: Any) -> list[Node]:
    """Started nodes that know each other, themselves included in their lists."""
    names = addresses(count)
    nodes = [Node(env, name, names, **more) for name in names]
    for node in nodes:
        await node.net.start()
    return nodes


async def formed(nodes: list[Node]) -> None:
    names = {node.address for node in nodes}
    await until(lambda: all(node.is_up(*(names - {node.address})) for node in nodes), "the mesh is whole")


def client(name: str = "tester:1", cluster_id: bytes = b"") -> Hello:
    return Hello("client", name, b"k" * 16, cluster_id)


class Raw:
    """A blocking socket in the hands of a stranger, on threads so that the loop goes on."""

    def __init__(self, address: str) -> None:
        at = Address.parse(address)
        self.socket = socket.create_connection((at.host, at.port), timeout=10)

    async def send(self, data: bytes) -> None:
        await asyncio.to_thread(self.socket.sendall, data)

    async def read(self, size: int = 65536) -> bytes:
        """What comes next; nothing when the other side has closed or reset."""
        try:
            return await asyncio.to_thread(self.socket.recv, size)
        except ConnectionResetError:
            return b""

    async def frame(self) -> bytes:
        """The payload of the next frame."""
        head = await self._exactly(4)
        return await self._exactly(int.from_bytes(head, "big"))

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = await self.read(size - len(data))
            assert more, f"the connection ended after {len(data)} of {size} bytes"
            data += more
        return data

    async def shake(self, hello: Hello, secret: bytes | None = SECRET) -> None:
        """Be a correct dialer, to misbehave afterwards."""
        handshake = DialerHandshake(hello, secret, threading.get_ident().to_bytes(NONCE_BYTES, "big"))
        await self.send(frame(handshake.start()))
        while not handshake.done:
            answer = handshake.receive(await self.frame())
            if answer is not None:
                await self.send(frame(answer))

    def close(self) -> None:
        self.socket.close()
