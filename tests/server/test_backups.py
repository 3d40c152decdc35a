"""Backups handed out by a node: whole, one at a time, to operators only; and what callers hear while a restored group waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cluster.backup import begin_anew, decode, describe
from cluster.client import Coordinator, IoThread
from cluster.client.saving import fetch_backup
from cluster.codec import unpack
from cluster.env import RealEnv
from cluster.errors import Unavailable, UsageError
from cluster.limits import BACKUP_PIECE_BYTES, METADATA_MAX_BYTES
from cluster.local import LocalDoor, LocalNode
from cluster.opcodes import Status
from cluster.server import backups as backups_module
from cluster.server.backups import Backups

pytestmark = pytest.mark.core

SAID = {
    "node_id": "n1",
    "applied_index": 7,
    "term": 2,
    "members": [
        {"node_id": "n2", "role": "follower"},
        {"node_id": "n1", "role": "leader"},
        {"node_id": "one that joins", "role": "joining"},
    ],
}


def with_node(role: str) -> tuple[Coordinator, LocalNode]:
    """A coordinator of this role, and the node that it talks to: both end with its ``close``."""
    io = IoThread()

    async def make() -> LocalNode:
        return LocalNode(io.env)

    node: LocalNode = io.run(make())
    return Coordinator(LocalDoor(node), io=io, at_close=node.close, role=role), node


@pytest.mark.parametrize("any_node", [False, True])
def test_a_backup_of_many_pieces_arrives_whole(any_node: bool) -> None:
    coordinator, _ = with_node("admin")
    with coordinator:
        text = {"text": "x" * (METADATA_MAX_BYTES - 50)}
        count = 2 * BACKUP_PIECE_BYTES // METADATA_MAX_BYTES + 20
        for _ in range(count):
            assert coordinator.acquire("crowd", max_leaders=1024, lease_time=60, metadata=text) is not None
        data = fetch_backup(coordinator, any_node=any_node, timeout_s=10.0)
        assert len(data) > 2 * BACKUP_PIECE_BYTES
        backup = decode(data, "backup")
        assert (backup.node_id, backup.members) == ("local", ("local",))
        assert describe(backup, len(data))["leases"] == count
        coordinator.close(limit=0.001)


def test_a_backup_needs_the_admin_role() -> None:
    coordinator, _ = with_node("client")
    with coordinator, pytest.raises(UsageError, match="admin"):
        fetch_backup(coordinator, any_node=False, timeout_s=5.0)


def told(tell: Callable[[RealEnv], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        env = RealEnv(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(tell(env), 10)
        finally:
            env.close()

    asyncio.run(run())


async def asked(backups: Backups, backup_id: bytes, offset: int) -> list[Any]:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    backups.ask(backup_id, offset, answer.set_result)
    found: list[Any] = unpack(await answer)
    return found


def test_one_at_a_time_and_another_when_nobody_fetches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tell(env: RealEnv) -> None:
        backups = Backups(env, lambda: lambda: b"state", lambda: SAID)
        first = asyncio.ensure_future(asked(backups, b"", 0))
        await asyncio.sleep(0)
        assert await asked(backups, b"", 0) == [Status.OVERLOADED, "BACKUPS_MAX"], "while one is made"
        _, backup_id, size, offset, data = await first
        assert (size, offset) == (len(data), 0)
        assert b"one that joins" not in data, "who joins is no member"
        assert await asked(backups, b"another", 0) == [Status.OVERLOADED, "BACKUPS_MAX"], "while one is fetched"
        assert await asked(backups, backup_id, 10) == [Status.OK, backup_id, size, 10, data[10:]]
        monkeypatch.setattr(backups_module, "IDLE_S", 0.0)
        _, other_id, _, offset, _ = await asked(backups, backup_id[::-1], 10)
        assert other_id != backup_id
        assert offset == 0, "of a backup that is not there any more: another one, from its beginning"
        backups.close()

    told(tell)


def test_a_backup_that_cannot_be_made_is_told_and_forgotten() -> None:
    states: list[Callable[[], bytes]] = [lambda: b"state"]

    def no_memory() -> bytes:
        raise MemoryError

    async def tell(env: RealEnv) -> None:
        backups = Backups(env, lambda: states[-1], lambda: SAID)
        states.append(no_memory)
        assert (await asked(backups, b"", 0))[0] == Status.OVERLOADED
        states.pop()
        assert (await asked(backups, b"", 0))[0] == Status.OK
        backups.close()

    told(tell)


def test_one_that_takes_longer_than_the_one_before_is_kept_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backups_module, "KEPT_S", 0.2)
    monkeypatch.setattr(backups_module, "IDLE_S", 0.0)
    over = threading.Event()

    def slow() -> bytes:
        assert over.wait(10)
        return b"another state"

    states: list[Callable[[], bytes]] = [slow, lambda: b"state"]

    async def tell(env: RealEnv) -> None:
        backups = Backups(env, states.pop, lambda: SAID)
        first = await asked(backups, b"", 0)
        second = asyncio.ensure_future(asked(backups, b"", 0))
        env.call_later(0.4, over.set)
        status, backup_id, *_ = await second
        assert status == Status.OK
        assert backup_id != first[1]
        backups.close()

    told(tell)


def test_who_waits_for_a_backup_is_answered_when_the_node_ends() -> None:
    async def tell(env: RealEnv) -> None:
        backups = Backups(env, lambda: lambda: b"state", lambda: SAID)
        waiting = asyncio.ensure_future(asked(backups, b"", 0))
        await asyncio.sleep(0)
        backups.close()
        assert await waiting == [Status.CLOSING]

    told(tell)


def test_while_a_restored_group_waits_nobody_is_told_that_the_name_is_held__E15() -> None:
    """An outage is never reported as contention, to who waits neither; and who waits long enough is served."""
    source, _ = with_node("admin")
    with source:
        assert source.acquire("job", lease_time=0.8) is not None
        backup = decode(fetch_backup(source, any_node=False, timeout_s=5.0), "backup")
    coordinator, node = with_node("client")
    with coordinator:
        server = node.server
        beginning = begin_anew(backup, ["local"])
        assert beginning.wait_ms == 800
        done = asyncio.run_coroutine_threadsafe(_begin(server, beginning.state), coordinator._port.engine._env._loop)  # type: ignore[attr-defined]
        done.result(5)
        assert 0 < coordinator.status().grants_in <= 0.8
        for wait_time in (0.0, 0.1):
            with pytest.raises(Unavailable, match="nothing is granted yet"):
                coordinator.acquire("job", lease_time=1.0, wait_time=wait_time)
        assert coordinator.acquire("job", lease_time=1.0, wait_time=20.0) is not None
        assert coordinator.status().grants_in == 0


async def _begin(server: Any, state: bytes) -> None:
    """Begin anew with this state, as a node does that starts with it."""
    term = server.log.term + 1
    server.role_changed(False, term, None)
    server.restore(state)
    server.log.term = term
    server.role_changed(True, term, "local")
    for _ in range(20):
        await asyncio.sleep(0)
    assert server.table.cluster_id
