"""A batch's answers, cut into what each connection is sent.

Knows: ``Sealed``'s contract. Must not know: what answers mean.
"""

from __future__ import annotations

import random
from collections import defaultdict

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster._wire import FrameReader, Intake, Sealed
from cluster.limits import FRAME_MAX_BYTES
from tests.wire.frames import EPOCH, renew, request

pytestmark = pytest.mark.fast

OK = msgpack.packb([0])


def sealed_for(to: list[int], rids: list[int] | None = None) -> Sealed:
    """A batch whose i-th operation came from connection ``to[i]``; 0 stands for the slow path, with ticket i + 1."""
    intake = Intake(1, 20_000, 1 << 24, 20_000)
    intake.epoch = EPOCH
    readers = {conn: FrameReader(intake, conn, FRAME_MAX_BYTES) for conn in set(to)}
    for i, conn in enumerate(to):
        if conn:
            assert readers[conn].feed(request(rids[i] if rids else i + 1, renew())) == []
        else:
            intake.add(b"\x91\x0a", i + 1)
    sealed = intake.seal(0)
    assert sealed is not None
    return sealed


def read_frames(data: bytes) -> list[list[object]]:
    out = []
    while data:
        size = int.from_bytes(data[:4], "big")
        out.append(msgpack.unpackb(data[4 : 4 + size]))
        data = data[4 + size :]
    return out


@given(
    to=st.lists(st.integers(0, 5), min_size=1, max_size=60),
    answers=st.lists(
        st.lists(st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=40), st.none()), max_size=4),
        min_size=60,
        max_size=60,
    ),
)
@settings(deadline=None)
def test_every_answer_goes_once_to_who_asked(to: list[int], answers: list[list[object]]) -> None:
    answers = answers[: len(to)]
    frames, slow = sealed_for(to).route(b"".join(msgpack.packb(a) for a in answers))
    expected = defaultdict(list)
    for i, conn in enumerate(to):
        expected[conn].append([i + 1, answers[i]])
    assert [[ticket, msgpack.unpackb(answer)] for ticket, answer in slow] == expected.pop(0, [])
    assert {conn: read_frames(data) for conn, data in frames} == expected
    assert [conn for conn, _ in frames] == list(dict.fromkeys(conn for conn in to if conn))


@pytest.mark.parametrize("rid", [1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**64 - 1])
def test_request_ids_come_back_as_they_were(rid: int) -> None:
    ((conn, data),), _ = sealed_for([4], [rid]).route(OK)
    reply = msgpack.packb([rid, [0]])
    assert (conn, data) == (4, len(reply).to_bytes(4, "big") + reply)


def test_ten_thousand_answers_over_256_connections() -> None:
    to = [1 + (i * 7919) % 256 for i in range(10_000)]
    frames, slow = sealed_for(to).route(b"".join(msgpack.packb([0, i]) for i in range(10_000)))
    assert slow == []
    assert len(frames) == 256
    for conn, data in frames:
        assert read_frames(data) == [[i + 1, [0, i]] for i in range(10_000) if to[i] == conn]


def test_connections_that_meet_in_the_hash_table_are_kept_apart() -> None:
    ids = [random.Random(seed).getrandbits(62) for seed in range(2000)]
    frames, _ = sealed_for(ids).route(b"".join(msgpack.packb([0, i]) for i in range(2000)))
    assert [(conn, read_frames(data)) for conn, data in frames] == [(ids[i], [[i + 1, [0, i]]]) for i in range(2000)]


def test_connection_ids_may_be_any_64_bits() -> None:
    ids = [2**63 - 1, -(2**63), -1, 1, 2**40, 2**40 + 2**32]
    frames, _ = sealed_for(ids).route(OK * len(ids))
    assert [conn for conn, _ in frames] == ids


NESTED = [
    msgpack.packb([0, {"a": [1, {"b": [2.5, None, True, "x" * 40]}]}, b"y" * 70_000, -5, "s" * 300]),
    msgpack.packb([0, list(range(70_000)), {i: i for i in range(20)}]),
    msgpack.packb(
        [0, msgpack.ExtType(1, b"z" * 300), msgpack.ExtType(2, b"1234"), msgpack.ExtType(2, b"123"), [2**40, -(2**40)]]
    ),
    b"\x91" * 5000 + b"\x90",
]


@pytest.mark.parametrize("answer", NESTED, ids=["maps", "long", "ext", "deep"])
def test_answers_of_any_shape_are_stepped_over_whole(answer: bytes) -> None:
    ((_, data),), slow = sealed_for([3, 0, 3]).route(answer * 3)
    assert data[4 + 2 : 4 + 2 + len(answer)] == answer
    assert slow == [(2, answer)]


@pytest.mark.parametrize(
    "replies",
    [
        b"",
        OK,
        OK * 3,
        OK + b"\x00",
        OK + b"\xc1",
        OK + b"\x92\x00",
        OK + b"\x91\xc1",
        OK + b"\x91\xdd\xff\xff\xff\xff",
        OK + b"\x91\xc6\xff\xff\xff\xff\x00",
    ],
)
def test_replies_that_do_not_fit_the_batch_are_an_error_of_ours(replies: bytes) -> None:
    with pytest.raises(RuntimeError):
        sealed_for([1, 2]).route(replies)


@given(replies=st.binary(max_size=60))
@settings(deadline=None)
def test_no_replies_can_do_more_than_raise(replies: bytes) -> None:
    sealed = sealed_for([1, 0, 2])
    try:
        frames, slow = sealed.route(replies)
    except RuntimeError:
        return
    assert len(slow) == 1
    assert sum(len(data) for _, data in frames) + len(slow[0][1]) == len(replies) + 2 * (4 + 1 + 1)


@pytest.mark.parametrize("answer", [b"", b"\x00", b"\x91", b"\x91\x00\x00", b"\xc1"])
def test_a_refusal_is_exactly_one_answer(answer: bytes) -> None:
    with pytest.raises(RuntimeError):
        sealed_for([1, 0]).refuse(answer)


def test_a_refusal_reaches_everyone() -> None:
    frames, slow = sealed_for([1, 2, 0, 1]).refuse(b"\x91\x26")
    assert {conn: read_frames(data) for conn, data in frames} == {1: [[1, [38]], [4, [38]]], 2: [[2, [38]]]}
    assert slow == [(3, b"\x91\x26")]


def test_routing_twice_gives_the_same() -> None:
    sealed = sealed_for([1, 2, 0, 1])
    assert sealed.route(OK * 4) == sealed.route(OK * 4)
