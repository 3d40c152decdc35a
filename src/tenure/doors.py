"""The ways in: to a group elsewhere, or to none.

Knows: which part of ``cluster`` opens which door, and what a process needs for it. Must not know: what goes through the door.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.client import Coordinator, IoThread, checks
from cluster.client import connect as _connect
from cluster.local import LOCAL_ADDRESS, LocalNode
from cluster.ports import Connection, Env, Hello, Welcome


def connect(
    endpoints: str | Iterable[str], *, secret: bytes | str | None = None, timeout: checks.Seconds = 5.0
) -> Coordinator:
    """Become a client of nodes that run elsewhere.

    Args:
        endpoints: ``"host:port,host:port"``, ``"unix:/path"``, or a sequence of such: one is enough, more are safer.
        secret: the shared secret of the raft group, if it has one.
        timeout: seconds, 0.001 to 1 day: for this first contact, and the coordinator's default.

    Raises:
        UsageError: bad endpoints, secret or timeout. Nothing was opened.
        Unavailable: no node answered in time; the message has each address and its reason.
        AuthenticationError: every node refused this client.
        ProtocolError: what answers at every address is no node of this version.
    """
    return _connect(endpoints, secret=secret, timeout=timeout)


class _LocalDoor:
    def __init__(self, node: LocalNode) -> None:
        self.endpoints = [LOCAL_ADDRESS]
        self._node = node

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        return await self._node.open_client(hello)


def local() -> Coordinator:
    """One process, no network: the same rules for tests and for programs that run once. What is held ends with the coordinator.

    >>> with local() as coordinator:
    ...     with coordinator.acquire("job") as lease:
    ...         coordinator.acquire("job") is None
    True
    """
    io = IoThread("tenure-local")
    try:
        node = io.run(_local_node(io.env))
        return Coordinator(_LocalDoor(node), io=io, at_close=node.close)
    except BaseException:
        io.stop()
        raise


async def _local_node(env: Env) -> LocalNode:
    # Made on its loop, where its timers belong.
    return LocalNode(env)
