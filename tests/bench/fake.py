"""A node that grants everything, for the load generator to run against: it checks each request and remembers what it saw.

Knows: the handshake and docs/protocol.md, in plain Python. Must not know: the product's server, table and hot path.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

from cluster.codec import frame, pack, unpack
from cluster.net.handshake import NONCE_BYTES, AcceptorHandshake
from cluster.ports import Hello, Welcome
from cluster.secrets import Secrets
from tests.wire.model import Unreadable, read_operation

EPOCH = 300
OWN = Hello("peer", "127.0.0.1:1", b"n" * 16, b"c" * 16)


class FakeNode:
    """Serves on its own thread until closed. ``leading=False`` welcomes without an epoch; ``status`` is what every answer begins with."""

    def __init__(self, *, leading: bool = True, status: int = 0, push: bool = False) -> None:
        self.leading = leading
        self.status = status
        self.push = push
        self.seen: Counter[int] = Counter()
        self.faults: list[str] = []
        self.clients: set[bytes] = set()
        self.tokens: dict[tuple[bytes, bytes], int] = {}
        self.address = ""
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._done = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fake-node", daemon=True)

    def __enter__(self) -> FakeNode:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await self._loop.create_server(lambda: FakeConnection(self), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        self._ready.set()
        await self._done.wait()
        server.close()

    def welcome(self, hello: Hello) -> Welcome:
        if hello.incarnation in self.clients:
            self.faults.append("two connections have one client id")
        self.clients.add(hello.incarnation)
        return Welcome(OWN.node_id, OWN.cluster_id, EPOCH if self.leading else 0, "")

    def answer(self, operation: list[Any]) -> list[Any]:
        code = operation[0]
        self.seen[code] += 1
        if self.status:
            return [self.status]
        key = (operation[1], operation[2])
        if code == 1:
            if key in self.tokens:
                self.faults.append(f"{key} was acquired twice")
            self.tokens[key] = len(self.tokens) + 2**33
            return [0, self.tokens[key], 0, operation[3], False]
        if self.tokens.get(key) != operation[3]:
            self.faults.append(f"{operation} does not name the token of its lease")
        if code == 5:
            del self.tokens[key]
            return [0]
        return [0, operation[4]]


class FakeConnection(asyncio.Protocol):
    def __init__(self, node: FakeNode) -> None:
        self._node = node
        self._data = b""
        self._rids: set[int] = set()
        self._handshake = AcceptorHandshake(OWN, Secrets.of(None), b"x" * NONCE_BYTES, lambda hello: None, node.welcome)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        out = []
        while len(self._data) >= 4 and len(self._data) >= 4 + int.from_bytes(self._data[:4], "big"):
            size = int.from_bytes(self._data[:4], "big")
            payload, self._data = self._data[4 : 4 + size], self._data[4 + size :]
            out.append(self._take(payload))
        self._transport.write(b"".join(out))

    def _take(self, payload: bytes) -> bytes:
        if not self._handshake.done:
            answer = self._handshake.receive(payload)
            return b"" if answer is None else frame(answer)
        rid, epoch, operation = unpack(payload)
        if rid in self._rids or rid <= 0 or epoch != EPOCH:
            self._node.faults.append(f"request id {rid} in epoch {epoch}")
        self._rids.add(rid)
        encoded = pack(operation)
        try:
            read_operation(encoded)
        except Unreadable:
            self._node.faults.append(f"{operation} is not for the hot path")
        push = frame(pack([0, [1, epoch, ""]])) if self._node.push and rid % 3 == 0 else b""
        return push + frame(pack([rid, self._node.answer(operation)]))
