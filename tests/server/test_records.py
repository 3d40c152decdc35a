"""Records at the node: what is read without the log, and how little they may keep others waiting.

Knows: a node of one process, client frames. Must not know: how the server is made.
"""

from __future__ import annotations

import pytest

from cluster.limits import (
    BATCH_MAX_BYTES,
    RECORD_REPLIES_UNSENT_MAX_BYTES,
    RECORD_VALUE_MAX_BYTES,
    RECORD_WRITES_QUEUED_MAX_BYTES,
)
from cluster.local import LocalNode
from cluster.opcodes import Op, Status
from tests.server.test_asking_again import on_a_node, turns
from tests.server.test_hostile_requests import Talker, acquire

pytestmark = pytest.mark.fast

BIG = b"v" * RECORD_VALUE_MAX_BYTES


def put(write: int, value: bytes, key: bytes = b"key") -> list[object]:
    return [int(Op.RECORD_PUT), write.to_bytes(16, "big"), key, value, b"", 0, None, None]


def get(key: bytes = b"key") -> list[object]:
    return [int(Op.RECORD_GET), key]


def committed(node: LocalNode) -> int:
    index: int = node.log.status()["commit_index"]
    return index


def test_a_read_says_what_the_record_says_and_which_numbers_are_given_out() -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"T" * 16)
        grant = await talker.ask(acquire(b"t" * 16))
        assert await talker.ask(get()) == [Status.OK, grant[1]]
        version = (await talker.ask(put(1, b"value")))[1]
        assert await talker.ask(get()) == [Status.OK, version, version, 0, b"value", b""]

    on_a_node(story)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_read_goes_through_the_log_unless_a_majority_has_just_answered__E2_E16(fresh: bool) -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"T" * 16)
        await talker.ask(put(1, b"value"))
        node.log.has_fresh_majority = lambda: fresh  # type: ignore[method-assign]
        before = committed(node)
        assert (await talker.ask(get()))[4] == b"value"
        assert committed(node) - before == (0 if fresh else 1)

    on_a_node(story)


class SlowLog:
    """Takes the place of a node's log: what is proposed is applied when the test says so."""

    def __init__(self, node: LocalNode) -> None:
        self._node = node
        self._index = committed(node)
        self._proposed: list[bytes] = []
        self.sizes: list[int] = []

    def propose(self, command: bytes) -> int | None:
        self._index += 1
        self._proposed.append(command)
        self.sizes.append(len(command))
        return self._index

    async def apply_next(self) -> None:
        await turns()
        if self._proposed:
            # The batcher has one entry in flight, so that this is the newest.
            self._node.server.apply(self._index, self._node.log.term, self._proposed.pop())
        await turns()


def test_big_values_do_not_starve_a_renewal__A9() -> None:
    async def story(node: LocalNode) -> None:
        writer, holder = [await Talker().open(node, who * 16) for who in (b"W", b"H")]
        grant = await holder.ask(acquire(b"h" * 16))
        slow = SlowLog(node)
        node.log.propose = slow.propose  # type: ignore[method-assign]
        count = 3 * RECORD_WRITES_QUEUED_MAX_BYTES // RECORD_VALUE_MAX_BYTES // 2
        writes = writer.send(*(put(number, BIG) for number in range(1, count + 1)))
        # Long before the log has moved at all, everything has been read.
        for _ in range(20):
            await turns()
        (extension,) = holder.send([int(Op.EXTEND), b"h" * 16, b"job", grant[1], 60_000])
        for _ in range(RECORD_WRITES_QUEUED_MAX_BYTES // BATCH_MAX_BYTES + 2):
            await slow.apply_next()
        # It stood behind no more than may be queued, whoever sent how much before it.
        assert holder.answers[extension][0] == Status.OK
        assert max(slow.sizes) <= BATCH_MAX_BYTES
        refused = [writer.answers[number] for number in writes if writer.answers[number][0] != Status.OK]
        assert len(refused) > count // 4
        assert refused == [[Status.OVERLOADED, "RECORD_WRITES_QUEUED_MAX_BYTES"]] * len(refused)
        # All are answered: there is room again.
        (again,) = writer.send(put(count + 1, BIG))
        await slow.apply_next()
        assert writer.answers[again][0] == Status.OK

    on_a_node(story)


def test_many_big_reads_at_once_are_put_off_and_the_connection_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    # All in one turn, however slow the machine is.
    monkeypatch.setattr("cluster.server.batcher.SLICE_S", 60.0)

    async def story(node: LocalNode) -> None:
        reader = await Talker().open(node, b"R" * 16)
        await reader.ask(put(1, BIG))
        slow = SlowLog(node)
        node.log.propose = slow.propose  # type: ignore[method-assign]
        node.log.has_fresh_majority = lambda: False  # type: ignore[method-assign]
        reads = reader.send(*[get()] * 200)
        for _ in range(20):
            await turns()
        # All of them are answered in one turn of the loop, or two.
        for _ in range(2):
            await slow.apply_next()
        assert not reader.ended
        good = sum(reader.answers[number][0] == Status.OK for number in reads)
        put_off = sum(
            reader.answers[number] == [Status.OVERLOADED, "RECORD_REPLIES_UNSENT_MAX_BYTES"] for number in reads
        )
        assert good + put_off == 200
        assert put_off > 0
        assert good >= RECORD_REPLIES_UNSENT_MAX_BYTES // RECORD_VALUE_MAX_BYTES
        (again,) = reader.send(get())
        await slow.apply_next()
        assert reader.answers[again][0] == Status.OK

    on_a_node(story)


@pytest.mark.parametrize(
    "operation",
    [
        [int(Op.RECORD_GET), b"-"],
        [int(Op.RECORD_GET)],
        [int(Op.RECORD_PUT), b"w" * 16, b"key", BIG + b"!", b"", 0, None, None],
        [int(Op.RECORD_PUT), b"w" * 15, b"key", b"", b"", 0, None, None],
        [int(Op.RECORD_PUT), b"w" * 16, b"key", b"", b"", 0, -1, None],
        [int(Op.RECORD_DELETE), b"w" * 16, b"key", "job", 1, None, None],
        [int(Op.RECORD_DELETE), b"w" * 16, b"key", b"", 0, None],
    ],
)
def test_what_is_no_request_about_records_is_refused__G5(operation: list[object]) -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"T" * 16)
        assert (await talker.ask(operation))[0] == Status.BAD_REQUEST

    on_a_node(story)
