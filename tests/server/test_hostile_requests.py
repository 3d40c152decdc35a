"""Requests of a client that means no good: the node goes on, and others are served meanwhile.

Knows: a node of one process, client frames. Must not know: how the server is made.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.codec import frame, pack, unpack
from cluster.limits import CLIENTS_INPUT_MAX_BYTES, FRAME_MAX_BYTES, OUTPUT_BUFFER_MAX_BYTES, PAGES_QUEUED_MAX
from cluster.local import LocalNode
from cluster.opcodes import Op, Status
from cluster.ports import Connection, Hello
from tests.server.test_asking_again import on_a_node, turns

pytestmark = pytest.mark.fast

U63, U64_MAX = 1 << 63, (1 << 64) - 1


class Talker:
    """A connection that sends whatever it is told to, many requests at once too."""

    def __init__(self) -> None:
        self.connection: Connection
        self.answers: dict[int, list[Any]] = {}
        self.ended = ""
        self._rid = 0
        self._tail = b""

    async def open(self, node: LocalNode, client: bytes) -> Talker:
        self.connection, welcome = await node.open_client(Hello("client", "test:1", client))
        self._epoch = welcome.epoch
        self.connection.on_data = self._read
        self.connection.on_closed = self._closed
        return self

    def send(self, *operations: list[Any]) -> list[int]:
        """All in one write. Returns the requests' numbers."""
        first = self._rid + 1
        self._rid += len(operations)
        numbers = list(range(first, self._rid + 1))
        frames = [frame(pack([rid, self._epoch, each])) for rid, each in zip(numbers, operations, strict=True)]
        self.connection.write(b"".join(frames))
        return numbers

    async def ask(self, operation: list[Any]) -> list[Any]:
        (rid,) = self.send(operation)
        for _ in range(5000):
            if rid in self.answers or self.ended:
                break
            await asyncio.sleep(0)
        assert rid in self.answers, f"no answer to {operation}; the connection: {self.ended or 'open'}"
        return self.answers[rid]

    def _closed(self, reason: str) -> None:
        self.ended = reason

    def _read(self, data: bytes) -> None:
        self._tail += data
        start = 0
        while len(self._tail) - start >= 4:
            stop = start + 4 + int.from_bytes(self._tail[start : start + 4], "big")
            if stop > len(self._tail):
                break
            message = unpack(self._tail[start + 4 : stop])
            start = stop
            if message[0]:
                self.answers[message[0]] = message[1]
        self._tail = self._tail[start:]


def acquire(acq_id: bytes, *, max_leaders: int = 1, metadata: bytes = b"", name: bytes = b"job") -> list[Any]:
    return [int(Op.ACQUIRE), acq_id, name, 60_000, max_leaders, 0, 0, b"test:1", metadata]


def leases(after_slot: int = 0, limit: int = 1000) -> list[Any]:
    return [int(Op.LEASES), b"", b"a", after_slot, limit]


@pytest.mark.parametrize("max_leaders", [U63, U64_MAX])
def test_a_waiter_with_an_endless_max_leaders_stops_neither_the_node_nor_the_line__I7(max_leaders: int) -> None:
    async def story(node: LocalNode) -> None:
        holder, evil, good = [await Talker().open(node, who * 16) for who in (b"H", b"E", b"G")]
        held = await holder.ask(acquire(b"h" * 16))
        first = acquire(b"f" * 16)
        good.send([int(Op.WAIT), 60_000, first])
        (jammed,) = evil.send([int(Op.WAIT), 60_000, acquire(b"e" * 16, max_leaders=max_leaders)])
        await turns()
        assert await good.ask([int(Op.CANCEL), first[1]]) == [Status.OK]
        (waiting,) = good.send([int(Op.WAIT), 60_000, acquire(b"g" * 16)])
        await turns()
        assert await holder.ask([int(Op.RELEASE), b"h" * 16, b"job", held[1], 1]) == [Status.OK]
        await turns()
        assert evil.answers[jammed] == [Status.INVALID, 4]
        assert good.answers[waiting][0] == Status.OK

    on_a_node(story)


@pytest.mark.parametrize("after_slot", [U63, U64_MAX])
def test_a_page_after_an_endless_slot_is_answered(after_slot: int) -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"T" * 16)
        await talker.ask(acquire(b"t" * 16))
        answer = await talker.ask(leases(after_slot))
        assert answer[0] == Status.OK
        assert [row[0] for row in answer[2]] == [b"job"]

    on_a_node(story)


def test_many_pages_asked_at_once_are_read_one_a_turn_and_bounded() -> None:
    async def story(node: LocalNode) -> None:
        greedy, other = [await Talker().open(node, who * 16) for who in (b"G", b"O")]
        greedy.send(*[leases()] * (2 * PAGES_QUEUED_MAX))
        assert (await other.ask(acquire(b"o" * 16)))[0] == Status.OK
        read = [answer for answer in greedy.answers.values() if answer[0] == Status.OK]
        assert len(read) < PAGES_QUEUED_MAX // 2, "served before all the pages"
        for _ in range(10 * PAGES_QUEUED_MAX):
            if len(greedy.answers) == 2 * PAGES_QUEUED_MAX:
                break
            await asyncio.sleep(0)
        statuses = [answer[0] for answer in greedy.answers.values()]
        assert statuses.count(Status.OK) + statuses.count(Status.OVERLOADED) == 2 * PAGES_QUEUED_MAX
        assert statuses.count(Status.OVERLOADED) > 0
        greedy.send(*[leases()] * PAGES_QUEUED_MAX)
        await turns()
        greedy.connection.close()
        assert (await other.ask(leases()))[0] == Status.OK, "what is left of a client that has gone costs nothing"

    on_a_node(story)


def test_nothing_more_is_answered_to_a_client_whose_connection_was_closed_while_it_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(node: LocalNode) -> None:
        asked = 0
        status = node.server.status

        def large_status() -> dict[str, Any]:
            nonlocal asked
            asked += 1
            return {**status(), "filling": b"x" * OUTPUT_BUFFER_MAX_BYTES}

        monkeypatch.setattr(node.server, "status", large_status)
        deaf = await Talker().open(node, b"D" * 16)
        deaf.send(*[[int(Op.STATUS)]] * 100)
        await turns()
        assert deaf.ended
        assert asked == 1

    on_a_node(story)


def test_many_requests_at_once_are_answered_in_slices_and_in_the_order_of_a_clients_chunks() -> None:
    async def story(node: LocalNode) -> None:
        greedy, other = [await Talker().open(node, who * 16) for who in (b"G", b"O")]
        numbers = greedy.send(*[[int(Op.STATUS)]] * 3000, [int(Op.WAIT), 60_000, acquire(b"g" * 16)])
        assert (await other.ask(acquire(b"o" * 16, name=b"other")))[0] == Status.OK
        assert len(greedy.answers) < 2000, "another is served before all of them"
        # Its waiter is not in line yet; what gives it up takes the hot path, and must come after it all the same.
        (abandoned,) = greedy.send([int(Op.ABANDON), b"g" * 16, b"job"])
        for _ in range(10_000):
            if abandoned in greedy.answers:
                break
            await asyncio.sleep(0)
        assert greedy.answers[abandoned] == [Status.OK]
        assert len([rid for rid in numbers if rid in greedy.answers]) == 3001
        assert (await other.ask(acquire(b"p" * 16)))[0] == Status.OK, "nothing is left of what was given up"

    on_a_node(story)


def test_a_client_that_sends_faster_than_it_can_be_answered_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: LocalNode) -> None:
        monkeypatch.setattr("cluster.server.clients.INPUT_BUFFER_MAX_BYTES", 1000)
        # One request a turn, however fast the machine is.
        monkeypatch.setattr("cluster.server.turns.SLICE_S", 0.0)
        greedy = await Talker().open(node, b"G" * 16)
        greedy.send(*[[int(Op.STATUS)]] * 3000)
        for _ in range(100):
            greedy.send(*[[int(Op.PING)]] * 10)
            await asyncio.sleep(0)
            if greedy.ended:
                break
        await turns()
        assert greedy.ended

    on_a_node(story)


def test_what_waits_for_its_turn_is_taken_apart_one_piece_at_a_time__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: LocalNode) -> None:
        # One request a turn, however fast the machine is.
        monkeypatch.setattr("cluster.server.turns.SLICE_S", 0.0)
        greedy = await Talker().open(node, b"G" * 16)
        (session,) = node.server.sessions._by_number.values()
        greedy.send(*[[int(Op.STATUS)]] * 50)
        for _ in range(20):
            await asyncio.sleep(0)
            greedy.send(*[[int(Op.PING)]] * 100)
        apart = pieces = 0
        while len(greedy.answers) < 2050:
            await asyncio.sleep(0)
            apart, pieces = max(apart, len(session._backlog)), max(pieces, len(session._unread))
        assert pieces > 10, "they did wait"
        assert apart <= 100, "small frames take many times their bytes once they are apart"

    on_a_node(story)


def test_frames_that_are_never_finished_are_bounded_for_all_clients_together__G5() -> None:
    async def work(node: LocalNode) -> None:
        slow = [await Talker().open(node, b"s%015d" % number) for number in range(60)]
        honest = await Talker().open(node, b"honest honest...")
        for talker in slow:
            talker.connection.write(FRAME_MAX_BYTES.to_bytes(4, "big") + bytes(FRAME_MAX_BYTES - 1))
            await turns()
        held = sum(session.held() for session in node.server.sessions._by_number.values())
        assert held <= CLIENTS_INPUT_MAX_BYTES
        assert sum("closed by the other side" in talker.ended for talker in slow) >= 8
        assert (await honest.ask(acquire(b"h" * 16)))[0] == Status.OK
        for talker in slow:
            talker.connection.close()
        await turns()
        assert node.server.sessions._budget.total == 0

    on_a_node(work)


def test_who_waits_is_bounded_in_bytes__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.server.waiting.WAITERS_MAX_BYTES", 100_000)

    async def work(node: LocalNode) -> None:
        holder, crowd = await Talker().open(node, b"h" * 16), await Talker().open(node, b"c" * 16)
        assert (await holder.ask(acquire(b"h" * 16)))[0] == Status.OK
        waits = [[int(Op.WAIT), 60_000, acquire(b"w%015d" % number, metadata=bytes(4000))] for number in range(30)]
        numbers = crowd.send(*waits)
        await turns()
        refused = [crowd.answers[number] for number in numbers if number in crowd.answers]
        assert refused == [[int(Status.OVERLOADED), "WAITERS_MAX_BYTES"]] * len(refused)
        assert len(refused) == 30 - node.server.control.waiter_count > 0
        assert (await crowd.ask([int(Op.PING)])) == [int(Status.OK)]
        crowd.connection.close()
        await turns()
        assert node.server.control._waiting._queues.weight == 0

    on_a_node(work)
