"""Bytes into frames: cuts, limits and hostile input.

Knows: ``FrameReader``'s contract. Must not know: how a batch is sealed or answered beyond looking into it.
"""

from __future__ import annotations

import resource
import sys
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster._wire import FrameReader, Intake, WireError
from cluster.limits import (
    FRAME_MAX_BYTES,
    LEASE_MAX_MS,
    LEASE_MIN_MS,
    MAX_LEADERS_MAX,
    METADATA_MAX_BYTES,
    NAME_MAX_BYTES,
    NODE_ID_MAX_BYTES,
)
from tests.wire.frames import EPOCH, ID, Operation, acquire, cut, frame, payload, release, renew, request

pytestmark = pytest.mark.fast


def new_intake(queue_max: int = 1000) -> Intake:
    intake = Intake(1, 1000, 1 << 20, queue_max)
    intake.epoch = EPOCH
    return intake


def sealed_operations(intake: Intake) -> bytes:
    sealed = intake.seal(0)
    return sealed.batch[24:] if sealed is not None else b""


def taken(operation: Any) -> bool:
    """Whether the hot path takes an operation: byte for byte if so, else it is handed over whole."""
    intake = new_intake()
    diverted = FrameReader(intake, 1, FRAME_MAX_BYTES).feed(request(1, operation))
    if diverted:
        assert diverted == [payload(1, operation)]
        assert intake.queued == 0
        return False
    assert sealed_operations(intake) == msgpack.packb(operation)
    return True


MIXED = [
    acquire(),
    [64],
    renew(),
    [2, ID, [b"a"], 1000],
    release(),
    [68, 100, acquire()],
    [6, ID, b"job"],
    [13, ID, b"job", 9],
]


def test_cut_at_any_place_a_stream_gives_the_same__nothing_lost() -> None:
    stream = b"".join(request(rid, operation) for rid, operation in enumerate(MIXED, 1))
    hot = b"".join(msgpack.packb(op) for op in MIXED if op[0] in (1, 4, 5, 6, 13))
    slow = [payload(rid, op) for rid, op in enumerate(MIXED, 1) if op[0] not in (1, 4, 5, 6, 13)]
    for place in range(len(stream) + 1):
        intake = new_intake()
        reader = FrameReader(intake, 1, FRAME_MAX_BYTES)
        assert [p for piece in cut(stream, [place]) for p in reader.feed(piece)] == slow
        assert sealed_operations(intake) == hot


def test_byte_by_byte_a_stream_gives_the_same__nothing_lost() -> None:
    stream = b"".join(request(rid, operation) for rid, operation in enumerate(MIXED, 1))
    intake = new_intake()
    reader = FrameReader(intake, 1, FRAME_MAX_BYTES)
    diverted = [p for i in range(len(stream)) for p in reader.feed(stream[i : i + 1])]
    assert len(diverted) == 3
    assert intake.queued == 5


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        (acquire(b"a" * NAME_MAX_BYTES), acquire(b"a" * (NAME_MAX_BYTES + 1))),
        (acquire(b"a"), acquire(b"")),
        (acquire(b"9a_-:./Z"), acquire(b"_a")),
        (acquire(b"a.b"), acquire(b"a b")),
        (acquire(b"a/b"), acquire(b"a\x00")),
        (acquire(b"a:b"), acquire(b"a\xc3\xa9")),
        (acquire(), acquire(acq_id=ID + b"x")),
        (acquire(), acquire(acq_id=ID[:15])),
        (acquire(), acquire(acq_id="0123456789abcdef")),
        (acquire(lease_ms=LEASE_MIN_MS), acquire(lease_ms=LEASE_MIN_MS - 1)),
        (acquire(lease_ms=LEASE_MAX_MS), acquire(lease_ms=LEASE_MAX_MS + 1)),
        (acquire(), acquire(lease_ms=-1)),
        (acquire(), acquire(lease_ms=60_000.0)),
        (acquire(max_leaders=MAX_LEADERS_MAX), acquire(max_leaders=MAX_LEADERS_MAX + 1)),
        (acquire(max_leaders=1), acquire(max_leaders=0)),
        (acquire(max_leaders=1), acquire(max_leaders=True)),
        (acquire(min_ms=60_000), acquire(min_ms=60_001)),
        (acquire(session=2**63 - 1), acquire(session=2**63)),
        (acquire(session=0), acquire(session=None)),
        (acquire(node_id=b"n" * NODE_ID_MAX_BYTES), acquire(node_id=b"n" * (NODE_ID_MAX_BYTES + 1))),
        (acquire(metadata=b"m" * METADATA_MAX_BYTES), acquire(metadata=b"m" * (METADATA_MAX_BYTES + 1))),
        (acquire(metadata=b""), acquire(metadata=None)),
        (acquire(), acquire()[:-1]),
        (acquire(), [*acquire(), 0]),
        ([3, ID, b"job", 2**63 - 1, LEASE_MIN_MS], [3, ID, b"job", 2**63, LEASE_MIN_MS]),
        ([3, ID, b"job", 1, LEASE_MAX_MS], [3, ID, b"job", 1, LEASE_MAX_MS + 1]),
        (renew(2**63 - 1), renew(2**63)),
        (release(outcome=4), release(outcome=5)),
        (release(outcome=0), release(outcome=-1)),
        ([6, ID, b"job"], [6, ID, b"job", 1]),
        ([12, LEASE_MIN_MS, b""], [12, LEASE_MIN_MS - 1, b""]),
        ([12, LEASE_MAX_MS, b"n"], [12, LEASE_MAX_MS + 1, b"n"]),
        ([13, ID, b"job", 1], [13, ID, b"job", b"1"]),
    ],
)
def test_limits_from_both_sides__the_batch_holds_only_what_the_table_can_read(good: Operation, bad: Operation) -> None:
    assert taken(good)
    assert not taken(bad)


@pytest.mark.parametrize(
    "operation",
    [
        [2, ID, [b"a"], 60_000, 1, 0, 0, b"", b""],
        [7, b"job", None, False],
        [8],
        [9, 2],
        [10],
        [11, ID, 1],
        [64],
        [65, b"job", True],
        [14],
        [],
        1,
        None,
    ],
)
def test_everything_but_hot_operations_goes_to_python(operation: Any) -> None:
    assert not taken(operation)


@pytest.mark.parametrize("rid", [0, -1, None, b"1", 2**64 - 1])
def test_a_request_id_is_a_positive_number(rid: Any) -> None:
    intake = new_intake()
    diverted = FrameReader(intake, 1, FRAME_MAX_BYTES).feed(frame(msgpack.packb([rid, EPOCH, renew()])))
    assert len(diverted) == (0 if rid == 2**64 - 1 else 1)


@pytest.mark.parametrize("extra", [b"\x00", b"\xc1", b"\x93"])
def test_bytes_after_the_request_make_it_odd(extra: bytes) -> None:
    odd = payload(1, renew()) + extra
    assert FrameReader(new_intake(), 1, FRAME_MAX_BYTES).feed(frame(odd)) == [odd]


def test_every_prefix_of_a_request_is_diverted_whole__never_read_past_the_frame() -> None:
    whole = payload(1, acquire(metadata=b"m" * 300))
    for size in range(1, len(whole)):
        intake = new_intake()
        # The bytes behind the frame would complete it, if the parser looked there: they are in the same buffer.
        rest = whole[size:]
        diverted = FrameReader(intake, 1, FRAME_MAX_BYTES).feed(frame(whole[:size]) + frame(rest))
        assert diverted == [whole[:size], rest]
        assert intake.queued == 0


def test_the_frame_limit_from_both_sides() -> None:
    reader = FrameReader(new_intake(), 1, 10)
    assert reader.feed(frame(b"\xc4" + b"x" * 9)) == [b"\xc4" + b"x" * 9]
    with pytest.raises(WireError, match="11 bytes is longer than 10"):
        reader.feed(b"\x00\x00\x00\x0b")
    with pytest.raises(WireError, match="earlier"):
        reader.feed(frame(b"ok"))


@pytest.mark.parametrize("place", range(5))
def test_a_bad_length_is_found_wherever_it_is_cut(place: int) -> None:
    for bad in (b"\x00\x00\x00\x00", b"\x00\x10\x00\x01", b"\xff\xff\xff\xff"):
        reader = FrameReader(new_intake(), 1, FRAME_MAX_BYTES)
        first, second = cut(bad + b"xyz", [place])
        if place < 4:
            assert reader.feed(first) == []
        with pytest.raises(WireError):
            reader.feed(second if place < 4 else first)


def test_hot_operations_before_a_bad_length_stay_queued_until_dropped() -> None:
    intake = new_intake()
    with pytest.raises(WireError):
        FrameReader(intake, 3, FRAME_MAX_BYTES).feed(request(1, renew()) + b"\x00\x00\x00\x00")
    assert intake.queued == 1
    assert intake.drop(3) == 1


def test_an_announced_length_takes_no_memory() -> None:
    intake = new_intake()
    readers = [FrameReader(intake, i, FRAME_MAX_BYTES) for i in range(2000)]
    before = resident_bytes()
    for reader in readers:
        reader.feed(FRAME_MAX_BYTES.to_bytes(4, "big") + b"x" * 10)
    # Had each taken what it was announced, it would be 2 GB.
    assert resident_bytes() - before < 64 << 20


def resident_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def test_hot_operations_make_no_python_objects() -> None:
    intake = Intake(1, 10_000, 1 << 20, 100_000)
    intake.epoch = EPOCH
    reader = FrameReader(intake, 1, FRAME_MAX_BYTES)
    stream = b"".join(request(rid, acquire()) for rid in range(1, 5001))
    reader.feed(stream)
    tracemalloc.start()
    try:
        reader.feed(stream)
        _, size = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert intake.queued == 10_000
    assert size < 1000


@given(data=st.binary(max_size=300), places=st.lists(st.integers(0, 300), max_size=5))
@settings(deadline=None)
def test_garbage_never_does_more_than_divert_or_end_the_stream(data: bytes, places: list[int]) -> None:
    intake = new_intake()
    reader = FrameReader(intake, 1, 200)
    out = []
    try:
        for piece in cut(data, places):
            out += reader.feed(piece)
    except WireError:
        pass
    assert intake.queued == 0
    assert sum(len(p) + 4 for p in out) <= len(data)


@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3))
@settings(deadline=None)
def test_a_request_with_changed_bytes_is_taken_as_it_is_or_diverted_as_it_is(flips: list[tuple[int, int]]) -> None:
    changed = bytearray(payload(1, acquire(metadata=b"m" * 40)))
    for place, value in flips:
        changed[place % len(changed)] = value
    intake = new_intake()
    diverted = FrameReader(intake, 1, FRAME_MAX_BYTES).feed(frame(bytes(changed)))
    if diverted:
        assert diverted == [bytes(changed)]
    else:
        operation = sealed_operations(intake)
        assert bytes(changed).endswith(operation)
        assert msgpack.unpackb(operation)[0] in (1, 3, 4, 5, 6, 12, 13)


def test_feed_takes_bytes_only() -> None:
    reader = FrameReader(new_intake(), 1, FRAME_MAX_BYTES)
    for wrong in (None, bytearray(b"x"), "x", memoryview(b"x")):
        with pytest.raises(TypeError):
            reader.feed(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("frame_max", [0, -1, 2**31])
def test_the_frame_limit_itself_has_a_range(frame_max: int) -> None:
    with pytest.raises(ValueError, match="frame_max"):
        FrameReader(new_intake(), 1, frame_max)
