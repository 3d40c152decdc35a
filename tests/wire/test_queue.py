"""The queue between connections and the log: what it takes, in which order it gives it away, and what it forgets.

Knows: ``Intake``'s contract. Must not know: what operations mean.
"""

from __future__ import annotations

import struct
import time

import msgpack
import pytest

from cluster._wire import FrameReader, Intake, Sealed
from cluster.limits import FRAME_MAX_BYTES
from tests.wire.frames import EPOCH, ID, acquire, payload, release, renew, request

pytestmark = pytest.mark.fast

SLOW = msgpack.packb([2, ID, [b"a", b"b"]])


def new_intake(max_ops: int = 100, max_bytes: int = 1 << 20, queue_max: int = 1000) -> Intake:
    intake = Intake(1, max_ops, max_bytes, queue_max)
    intake.epoch = EPOCH
    return intake


def reader_of(intake: Intake, conn_id: int = 1) -> FrameReader:
    return FrameReader(intake, conn_id, FRAME_MAX_BYTES)


def seal(intake: Intake, stamp_ms: int = 0) -> Sealed:
    sealed = intake.seal(stamp_ms)
    assert sealed is not None
    return sealed


def operations(sealed: Sealed) -> list[list[object]]:
    unpacker = msgpack.Unpacker()
    unpacker.feed(sealed.batch[24:])
    return list(unpacker)


def test_the_header_says_level_count_epoch_and_stamp() -> None:
    intake = Intake(3, 10, 1000, 10)
    intake.epoch = 2**40
    reader_of(intake).feed(request(1, renew(), epoch=2**40) + request(2, renew(), epoch=2**40))
    sealed = seal(intake, 123_456_789_012)
    assert struct.unpack_from("<BBHIQq", sealed.batch) == (3, 0, 0, 2, 2**40, 123_456_789_012)
    assert sealed.count == 2


def test_an_empty_queue_seals_to_none() -> None:
    intake = new_intake()
    assert intake.seal(0) is None
    assert intake.take_all() is None


def test_batches_keep_the_order_and_both_limits() -> None:
    intake = new_intake(max_ops=3, max_bytes=24 + 2 * len(msgpack.packb(renew())))
    reader_of(intake).feed(b"".join(request(i, renew(i)) for i in range(1, 6)))
    assert [operations(seal(intake)) for _ in range(3)] == [[renew(1), renew(2)], [renew(3), renew(4)], [renew(5)]]
    intake = new_intake(max_ops=3)
    reader_of(intake).feed(b"".join(request(i, renew(i)) for i in range(1, 6)))
    assert [seal(intake).count, seal(intake).count, intake.seal(0)] == [3, 2, None]


def test_an_operation_bigger_than_a_batch_goes_alone() -> None:
    intake = new_intake(max_bytes=40)
    reader_of(intake).feed(request(1, renew()) + request(2, acquire(metadata=b"m" * 100)) + request(3, renew()))
    assert [seal(intake).count for _ in range(3)] == [1, 1, 1]
    assert intake.seal(0) is None


@pytest.mark.parametrize(("mine", "theirs"), [(7, 8), (7, 6), (7, 0), (0, 0), (0, 7)])
def test_a_request_of_another_epoch_is_diverted__stale_requests_cannot_act(mine: int, theirs: int) -> None:
    intake = Intake(1, 10, 1000, 10)
    intake.epoch = mine
    assert reader_of(intake).feed(request(1, renew(), epoch=theirs)) == [payload(1, renew(), epoch=theirs)]
    assert intake.queued == 0


def test_the_epoch_cannot_begin_over_requests_of_the_last__stale_requests_cannot_act() -> None:
    intake = new_intake()
    reader_of(intake).feed(request(1, renew()))
    intake.epoch = 0
    with pytest.raises(RuntimeError, match="take_all"):
        intake.epoch = EPOCH + 1
    assert intake.epoch == 0
    assert intake.take_all() is not None
    intake.epoch = EPOCH + 1
    assert reader_of(intake).feed(request(2, renew(), epoch=EPOCH + 1)) == []


def test_what_the_node_itself_queued_may_wait_for_the_epoch() -> None:
    intake = Intake(1, 10, 1000, 10)
    intake.add(SLOW, 1)
    intake.epoch = EPOCH
    assert seal(intake).count == 1


def test_an_acquire_of_a_waited_name_is_diverted__no_one_overtakes() -> None:
    intake = new_intake()
    intake.waited.add(b"job")
    reader = reader_of(intake)
    mixed = [
        acquire(b"job"),
        acquire(b"job2"),
        release(b"job"),
        [6, ID, b"job"],
        [13, ID, b"job", 1],
        [3, ID, b"job", 1, 1000],
    ]
    assert reader.feed(b"".join(request(i, op) for i, op in enumerate(mixed, 1))) == [payload(1, acquire(b"job"))]
    assert intake.queued == 5
    intake.waited.discard(b"job")
    assert reader.feed(request(9, acquire(b"job"))) == []


def test_a_full_queue_turns_new_work_away_first__leases_are_not_lost_to_load() -> None:
    intake = new_intake(queue_max=3)
    reader = reader_of(intake)
    opened = [12, 60_000, b""]
    assert reader.feed(request(1, renew()) + request(2, acquire()) + request(3, opened)) == []
    assert not intake.takes(True)
    assert intake.takes(False)
    assert reader.feed(request(4, acquire()) + request(5, opened)) == [payload(4, acquire()), payload(5, opened)]
    keeping = [renew(), release(), [3, ID, b"job", 1, 1000]]
    assert reader.feed(b"".join(request(6 + i, op) for i, op in enumerate(keeping))) == []
    assert intake.queued == 6
    assert not intake.takes(False)
    assert reader.feed(request(9, renew())) == [payload(9, renew())]
    intake.add(SLOW, 1)
    assert intake.queued == 7
    seal(intake)
    assert reader.feed(request(10, acquire())) == []


def test_the_queues_bytes_are_bounded_too() -> None:
    intake = new_intake(queue_max=40, max_bytes=100)
    reader = reader_of(intake)
    big = acquire(metadata=b"m" * 4000)
    diverted = reader.feed(b"".join(request(rid, big) for rid in range(1, 11)))
    # 40 * 256 bytes hold three of them, and whoever comes while there is room is taken.
    assert len(diverted) == 7
    assert reader.feed(request(11, renew())) == []


def test_drop_forgets_one_connections_operations_only() -> None:
    intake = new_intake()
    one, two = reader_of(intake, 1), reader_of(intake, 2)
    for rid in range(1, 5):
        one.feed(request(rid, renew(100 + rid)))
        two.feed(request(rid, renew(200 + rid)))
    intake.add(SLOW, 1)
    assert intake.drop(1) == 4
    assert intake.drop(1) == 0
    assert intake.drop(99) == 0
    assert intake.queued == 5
    sealed = seal(intake)
    assert operations(sealed)[:4] == [renew(200 + rid) for rid in range(1, 5)]
    frames, slow = sealed.route(b"\x91\x00" * 5)
    assert [conn for conn, _ in frames] == [2]
    assert slow == [(1, b"\x91\x00")]
    assert intake.drop(2) == 0


def test_drop_reaches_what_is_left_after_a_partial_seal() -> None:
    intake = new_intake(max_ops=3)
    reader_of(intake, 1).feed(b"".join(request(rid, renew()) for rid in range(1, 6)))
    seal(intake)
    assert intake.drop(1) == 2
    assert intake.seal(0) is None
    assert intake.queued == 0


def test_a_dropped_connection_that_goes_on_is_known_again() -> None:
    intake = new_intake()
    reader = reader_of(intake, 1)
    reader.feed(request(1, renew()))
    assert intake.drop(1) == 1
    reader.feed(request(2, renew()))
    assert intake.queued == 1
    assert intake.drop(1) == 1
    assert intake.take_all() is None


def test_drops_cost_nothing_to_the_others() -> None:
    """All of 2,000 connections end at once over a full queue: a scan of it for each would take minutes."""
    intake = new_intake(queue_max=200_000)
    for conn_id in range(2000):
        reader_of(intake, conn_id).feed(b"".join(request(rid, renew()) for rid in range(1, 101)))
    assert intake.queued == 200_000
    begun = time.process_time()
    assert sum(intake.drop(conn_id) for conn_id in range(2000)) == 200_000
    assert time.process_time() - begun < 1.0
    assert intake.seal(0) is None


def test_take_all_takes_everything_and_cannot_be_proposed() -> None:
    intake = new_intake(max_ops=2)
    reader_of(intake, 5).feed(b"".join(request(rid, renew()) for rid in range(1, 6)))
    intake.add(SLOW, 9)
    everything = intake.take_all()
    assert everything is not None
    assert (everything.count, everything.batch, intake.queued) == (6, b"", 0)
    frames, slow = everything.refuse(b"\x91\x24")
    assert [conn for conn, _ in frames] == [5]
    assert slow == [(9, b"\x91\x24")]


@pytest.mark.parametrize(
    "operation",
    [b"", b"\x91", b"\x91\x0a\x00", b"\x0a", b"\x80", b"\x91\xc1", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"],
)
def test_the_slow_path_cannot_spoil_a_batch(operation: bytes) -> None:
    intake = new_intake()
    with pytest.raises(ValueError, match="exactly one msgpack array"):
        intake.add(operation, 1)
    assert intake.queued == 0


@pytest.mark.parametrize("ticket", [0, -1])
def test_tickets_are_positive(ticket: int) -> None:
    with pytest.raises(ValueError, match="not positive"):
        new_intake().add(SLOW, ticket)


@pytest.mark.parametrize(
    "arguments",
    [(0, 1, 1, 1), (256, 1, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0), (1, 2**31, 1, 1), (1, 1, 1, 2**31)],
)
def test_limits_have_ranges(arguments: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="max_ops"):
        Intake(*arguments)


def test_a_long_overload_keeps_order_and_loses_nothing() -> None:
    """The queue's head moves through its memory again and again without ever becoming empty."""
    intake = new_intake(max_ops=64, queue_max=1000)
    reader = reader_of(intake)
    sent = 0
    seen: list[object] = []
    for _ in range(200):
        reader.feed(b"".join(request(sent + i, renew(sent + i)) for i in range(1, 66)))
        sent += 65
        seen += [op[1] for op in operations(seal(intake))]
    while intake.queued:
        seen += [op[1] for op in operations(seal(intake))]
    assert seen == list(range(1, sent + 1))


def test_drop_finds_its_operations_after_the_queue_has_moved() -> None:
    intake = new_intake(max_ops=64, queue_max=10_000)
    one, two = reader_of(intake, 1), reader_of(intake, 2)
    sent: list[list[object]] = []
    for _ in range(300):
        one.feed(b"".join(request(rid, renew(1)) for rid in range(1, 34)))
        two.feed(b"".join(request(rid, renew(2)) for rid in range(1, 34)))
        sent += [renew(1)] * 33 + [renew(2)] * 33
        sent = sent[seal(intake).count :]
    assert intake.queued == len(sent)
    assert intake.drop(1) == sent.count(renew(1))
    rest = []
    while (sealed := intake.seal(0)) is not None:
        rest += operations(sealed)
    assert rest == [renew(2)] * sent.count(renew(2))
