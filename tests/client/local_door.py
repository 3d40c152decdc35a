"""A coordinator on the real server of one process: for tests with real threads and real time.

Knows: ``cluster.local``, how a client gets its door and thread. Must not know: what is tested.
"""

from __future__ import annotations

from cluster.client import Coordinator, IoThread
from cluster.local import LocalNode
from cluster.ports import Connection, Env, Hello, Welcome


class NodeInProcess:
    """See ``client.door.Door``."""

    endpoints = ["local"]  # noqa: RUF012

    def __init__(self, node: LocalNode) -> None:
        self.node = node

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        return await self.node.open_client(hello)


def open_local(timeout: float = 5.0) -> Coordinator:
    """A coordinator, its node and its thread: all end with ``close``."""
    io = IoThread()

    async def make() -> LocalNode:
        return LocalNode(io.env)

    node: LocalNode = io.run(make())
    return Coordinator(NodeInProcess(node), io=io, timeout=timeout, at_close=node.close)
