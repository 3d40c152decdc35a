"""A waiter that asks again with its id: who holds already is answered at once, whoever stands in line (C5).

Knows: a node of one process, its client frames. Must not know: how the queues are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cluster.codec import frame, pack, unpack
from cluster.env import RealEnv
from cluster.local import LocalNode
from cluster.opcodes import Op, Status
from cluster.ports import Hello

pytestmark = pytest.mark.fast

NAME = b"job"


class Client:
    """One connection to the node, and the replies that came over it."""

    def __init__(self, node: LocalNode, client_id: bytes) -> None:
        self._node = node
        self._hello = Hello("client", "test:1", client_id)
        self._tail = b""
        self._rid = 0
        self._epoch = 0
        self.replies: dict[int, list[Any]] = {}

    async def open(self) -> Client:
        self._connection, welcome = await self._node.open_client(self._hello)
        self._epoch = welcome.epoch
        self._connection.on_data = self._read
        self._connection.on_closed = lambda reason: None
        return self

    def wait(self, acq_id: bytes, wait_ms: int = 60_000) -> int:
        """Ask for the name, ready to wait; returns the request's number."""
        return self.ask([int(Op.WAIT), wait_ms, acquisition(acq_id)])

    def acquire(self, acq_id: bytes) -> int:
        return self.ask(acquisition(acq_id))

    def close(self) -> None:
        self._connection.close("the test says so")

    def ask(self, operation: list[Any]) -> int:
        self._rid += 1
        self._connection.write(frame(pack([self._rid, self._epoch, operation])))
        return self._rid

    async def answer(self, rid: int) -> list[Any]:
        for _ in range(1000):
            if rid in self.replies:
                return self.replies[rid]
            await asyncio.sleep(0)
        raise AssertionError(f"no answer to {rid}: {self.replies}")

    def _read(self, data: bytes) -> None:
        self._tail += data
        while len(self._tail) >= 4:
            size = int.from_bytes(self._tail[:4], "big")
            if len(self._tail) < 4 + size:
                return
            message = unpack(self._tail[4 : 4 + size])
            self._tail = self._tail[4 + size :]
            if message[0]:
                self.replies[message[0]] = message[1]


def acquisition(acq_id: bytes, name: bytes = NAME) -> list[Any]:
    return [int(Op.ACQUIRE), acq_id, name, 60_000, 1, 0, 0, b"test:1", b""]


def on_a_node(story: Callable[[LocalNode], Coroutine[Any, Any, None]]) -> None:
    async def tell() -> None:
        env = RealEnv(asyncio.get_running_loop())
        node = LocalNode(env)
        try:
            await turns()
            assert node.server.batcher.serving
            await story(node)
        finally:
            node.close()
            env.close()

    asyncio.run(tell())


def test_a_holder_that_asks_again_does_not_stand_behind_those_who_wait_for_it__I5() -> None:
    async def story(node: LocalNode) -> None:
        mine, others = b"m" * 16, b"o" * 16
        first = await Client(node, b"A" * 16).open()
        granted = await first.answer(first.wait(mine))
        assert granted[0] == Status.OK
        other = await Client(node, b"B" * 16).open()
        waiting = other.wait(others)
        # The reply was lost with its connection, as far as the client knows: it asks on another one.
        again = await Client(node, b"A" * 16).open()
        answer = await again.answer(again.wait(mine))
        assert answer[:3] == granted[:3], "the same token and slot"
        assert waiting not in other.replies

    on_a_node(story)


def hold_back(node: LocalNode, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on nothing is committed until the returned function is called."""
    pending: list[tuple[int, bytes]] = []

    def propose(command: bytes) -> int:
        node.log._index += 1
        pending.append((node.log._index, command))
        return node.log._index

    def commit() -> None:
        taken, pending[:] = pending[:], []
        for index, command in taken:
            node.server.apply(index, node.log.term, command)

    monkeypatch.setattr(node.log, "propose", propose)
    return commit


@pytest.mark.parametrize("first_waits", [True, False])
def test_nor_if_its_first_grant_was_under_way_when_it_asked_again__I5(monkeypatch: pytest.MonkeyPatch, first_waits: bool) -> None:
    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        mine, others = b"m" * 16, b"o" * 16
        first = await Client(node, b"A" * 16).open()
        first.wait(mine) if first_waits else first.acquire(mine)
        await turns()
        other = await Client(node, b"B" * 16).open()
        waiting = other.wait(others)
        await turns()
        again = await Client(node, b"A" * 16).open()
        asked = again.wait(mine)
        await turns()
        for _ in range(3):
            commit()
            await turns()
        assert (await again.answer(asked))[0] == Status.OK
        assert waiting not in other.replies

    on_a_node(story)


@pytest.mark.parametrize("first_waits", [True, False])
@pytest.mark.parametrize("then_waits", [True, False])
def test_nobody_is_refused_from_memory_while_an_older_copy_is_under_way__C5(
    monkeypatch: pytest.MonkeyPatch, first_waits: bool, then_waits: bool
) -> None:
    """Else the older copy would be granted to somebody who was refused for good, and the name held by nobody until it expires."""

    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        mine, others = b"m" * 16, b"o" * 16
        first = await Client(node, b"A" * 16).open()
        first.wait(mine) if first_waits else first.acquire(mine)
        await turns()
        other = await Client(node, b"B" * 16).open()
        waiting = other.wait(others)
        await turns()
        first.close()
        await turns()
        again = await Client(node, b"A" * 16).open()
        asked = again.wait(mine, 1) if then_waits else again.acquire(mine)
        await turns()
        for _ in range(100_000):
            if node.server.control.waiter_count == 1:
                # The other's: this one's wait is over.
                break
            await asyncio.sleep(0)
        await turns()
        assert asked not in again.replies
        for _ in range(4):
            commit()
            await turns()
        answer = await again.answer(asked)
        assert answer[0] == Status.OK
        assert waiting not in other.replies
        assert [row[2] for row in node.server.table.rows(NAME, node.server.keeper.stamp())] == [answer[1]]

    on_a_node(story)


@pytest.mark.parametrize("then_waits", [True, False])
def test_nor_while_its_older_copy_has_yet_to_travel__C5(monkeypatch: pytest.MonkeyPatch, then_waits: bool) -> None:
    """A waiter that was proposed stays in the next batch, although its connection is gone."""

    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        mine = b"m" * 16
        busy = await Client(node, b"H" * 16).open()
        busy.ask(acquisition(b"h" * 16, b"another"))
        await turns()
        first = await Client(node, b"A" * 16).open()
        first.wait(mine)
        other = await Client(node, b"B" * 16).open()
        waiting = other.wait(b"o" * 16)
        await turns()
        first.close()
        await turns()
        again = await Client(node, b"A" * 16).open()
        asked = again.wait(mine) if then_waits else again.acquire(mine)
        await turns()
        commit()
        await turns()
        assert asked not in again.replies
        for _ in range(3):
            commit()
            await turns()
        assert (await again.answer(asked))[0] == Status.OK
        assert waiting not in other.replies

    on_a_node(story)


def test_who_asks_again_when_its_older_copy_came_to_nothing_is_refused_then(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: LocalNode) -> None:
        holder = await Client(node, b"H" * 16).open()
        assert (await holder.answer(holder.acquire(b"h" * 16)))[0] == Status.OK
        commit = hold_back(node, monkeypatch)
        mine = b"m" * 16
        first = await Client(node, b"A" * 16).open()
        first.acquire(mine)
        await turns()
        other = await Client(node, b"B" * 16).open()
        other.wait(b"o" * 16)
        first.close()
        await turns()
        again = await Client(node, b"A" * 16).open()
        asked = again.acquire(mine)
        await turns()
        assert asked not in again.replies
        commit()
        assert (await again.answer(asked))[0] == Status.HELD

    on_a_node(story)


@pytest.mark.parametrize("then_waits", [True, False])
def test_what_its_connection_has_left_behind_does_not_take_back_what_its_client_gave_up__C5(
    monkeypatch: pytest.MonkeyPatch, then_waits: bool
) -> None:
    """Else the name would be granted to who has given it up, and be held by nobody, with a session for as long as its process lives."""

    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        mine, others = b"m" * 16, b"o" * 16
        first = await Client(node, b"A" * 16).open()
        first.acquire(mine)
        await turns()
        other = await Client(node, b"B" * 16).open()
        waiting = other.wait(others)
        await turns()
        first.close()
        await turns()
        again = await Client(node, b"A" * 16).open()
        again.wait(mine) if then_waits else again.acquire(mine)
        await turns()
        again.close()
        await turns()
        last = await Client(node, b"A" * 16).open()
        last.ask([int(Op.ABANDON), mine, NAME])
        await turns()
        for _ in range(6):
            commit()
            await turns()
        assert (await other.answer(waiting))[0] == Status.OK

    on_a_node(story)


def test_who_is_refused_while_nothing_is_under_way_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: LocalNode) -> None:
        holder = await Client(node, b"H" * 16).open()
        assert (await holder.answer(holder.acquire(b"h" * 16)))[0] == Status.OK
        other = await Client(node, b"B" * 16).open()
        other.wait(b"o" * 16)
        await turns()
        hold_back(node, monkeypatch)
        late = await Client(node, b"L" * 16).open()
        assert (await late.answer(late.acquire(b"l" * 16)))[0] == Status.HELD

    on_a_node(story)


async def turns() -> None:
    """Let everything that is ready happen."""
    for _ in range(20):
        await asyncio.sleep(0)
