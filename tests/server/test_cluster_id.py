"""Every node of a raft group knows the group's id, whoever proposed it (E4).

Knows: what a server is told by its log. Must not know: how entries are replicated.
"""

from __future__ import annotations

import asyncio

import pytest

from cluster.env import RealEnv
from cluster.local import LocalLog
from cluster.server.server import Server

pytestmark = pytest.mark.fast


class Recorded(LocalLog):
    def __init__(self, server: Server, commands: list[bytes]) -> None:
        super().__init__(server)
        self._commands = commands

    def propose(self, command: bytes) -> int | None:
        self._commands.append(command)
        return super().propose(command)


def server_of(env: RealEnv, commands: list[bytes], told: list[bytes]) -> Server:
    server = Server(env, new_cluster_id=lambda: b"the cluster's id", peers_wall_s=env.wall)
    server.on_cluster_id = told.append
    server.bind(Recorded(server, commands))
    return server


def test_followers_learn_the_cluster_id_too_and_once__E4() -> None:
    async def tell() -> None:
        env = RealEnv(asyncio.get_running_loop())
        commands: list[bytes] = []
        told: tuple[list[bytes], ...] = ([], [], [])
        leader, follower, newcomer = (server_of(env, commands, heard) for heard in told)
        try:
            leader.role_changed(True, 1, "local")
            for _ in range(20):
                await asyncio.sleep(0)
            for index, command in enumerate(tuple(commands), 1):
                follower.apply(index, 1, command)
            newcomer.restore(leader.freeze()())
            newcomer.restore(leader.freeze()())
            assert told == ([b"the cluster's id"],) * 3
        finally:
            for server in (leader, follower, newcomer):
                server.close()
            env.close()

    asyncio.run(asyncio.wait_for(tell(), 5))
