"""One process, no network: the same server on a log that commits at once.

Knows: how to be the raft leader of nobody. Must not know: files, sockets. For tests and programs that run once; nothing falls back to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cluster import wall
from cluster.errors import CoordinationError
from cluster.net.memory import memory_pair
from cluster.ports import ChangeOutcome, Connection, Env, Hello, Welcome
from cluster.server.server import Server

LOCAL_ADDRESS = "local"
_ALONE = ChangeOutcome("refused", "this is one process without a raft group", "join or connect to one")


class LocalLog:
    """See ``ports.Replicator``: every command is committed when it is proposed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._index = 0
        self.node_id = LOCAL_ADDRESS
        self.term = 1
        self.is_leader = True
        self.leader: str | None = LOCAL_ADDRESS

    def propose(self, command: bytes) -> int | None:
        self._index += 1
        self._server.apply(self._index, self.term, command)
        return self._index

    def has_fresh_majority(self) -> bool:
        return True

    def status(self) -> dict[str, Any]:
        me = {"node_id": LOCAL_ADDRESS, "role": "leader", "match_index": self._index, "lag": 0, "connected": True, "voter": True}
        return {
            "node_id": LOCAL_ADDRESS,
            "role": "leader",
            "term": self.term,
            "leader": LOCAL_ADDRESS,
            "has_quorum": True,
            "members": [me],
            "commit_index": self._index,
            "applied_index": self._index,
        }

    def change_members(self, add: bool, node_id: str, request: bytes, settled: Callable[[ChangeOutcome], None]) -> None:
        settled(_ALONE)

    def hand_over(self, to: str | None, settled: Callable[[ChangeOutcome], None]) -> None:
        settled(_ALONE)

    def close(self) -> None:
        self.is_leader = False


class LocalNode:
    """The node behind ``tenure.local()``: see ``cluster.node.Node`` for the one with a raft group.

    Raises:
        CoordinationError: the wall clock is none that tokens can begin at.
    """

    def __init__(self, env: Env) -> None:
        if why := wall.objection(env.wall()):
            raise CoordinationError(why)
        self._env = env
        self.server = Server(env, new_cluster_id=lambda: env.entropy(16), peers_wall_s=env.wall)
        self.log = LocalLog(self.server)
        self.server.bind(self.log)
        self.server.role_changed(True, self.log.term, LOCAL_ADDRESS)

    async def open_client(self, hello: Hello) -> tuple[Connection, Welcome]:
        ours, theirs = memory_pair(self._env, hello)
        self.server.client_connected(theirs)
        return ours, self.server.welcome(hello)

    def close(self) -> None:
        self.server.close()
        self.log.close()


class LocalDoor:
    """See ``client.door.Door``: the way to a ``LocalNode`` on the same loop."""

    def __init__(self, node: LocalNode) -> None:
        self.node = node
        self.endpoints = [LOCAL_ADDRESS]

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        del env, address
        return await self.node.open_client(hello)
