"""The compiled frames between nodes say the same as msgpack does, and nothing else is taken for a message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import _peer
from cluster.codec import frame, pack

pytestmark = pytest.mark.fast

numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))
floats = st.floats(allow_nan=False)
entries = st.lists(st.tuples(numbers, st.binary(max_size=300)), max_size=40)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(numbers, floats, numbers, numbers, numbers, entries)
def test_an_append_is_what_msgpack_makes_of_it(
    term: int, sent: float, prev: int, prev_term: int, commit: int, commands: list[tuple[int, bytes]]
) -> None:
    made = _peer.append_frame(term, sent, prev, prev_term, commit, commands)
    assert made == frame(pack((1, term, sent, prev, prev_term, commit, commands)))
    assert _peer.decode(made[4:]) == [1, term, sent, prev, prev_term, commit, commands]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(numbers, floats, numbers, st.booleans(), st.booleans())
def test_an_answer_is_what_msgpack_makes_of_it(term: int, sent: float, index: int, agreed: bool, voter: bool) -> None:
    made = _peer.ack_frame(term, sent, index, agreed, voter)
    assert made == frame(pack((2, term, sent, index, agreed, voter)))
    assert _peer.decode(made[4:]) == [2, term, sent, index, agreed, voter]


@pytest.mark.parametrize("size", [0, 255, 256, 65_535, 65_536, 1 << 20])
def test_commands_of_every_head_size(size: int) -> None:
    command = bytes(size)
    made = _peer.append_frame(1, 0.0, 0, 0, 0, [(1, command)])
    assert made == frame(pack((1, 1, 0.0, 0, 0, 0, [(1, command)])))
    assert _peer.decode(made[4:])[6] == [(1, command)]


MESSAGES: list[list[Any]] = [
    [1, 3, 0.5, 7, 2, 6, [[3, b"abc"], [3, b""]]],
    [2, 3, 0.5, 7, True, False],
    [3, 3, 0.5, 6, 9, 2, 1000, 77, 0, b"piece"],
    [4, 3, 0.5, 9, 77, 512, True],
    [5, 3, 7, 2, False],
    [6, 3],
    [7, 3],
    [8, 3, 1, 7, 2],
    [9, 3, 1],
    [10, 3, 7],
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: f"kind {message[0]}")
def test_every_kind_is_read_whole_and_nothing_less_or_more(message: list[Any]) -> None:
    payload = pack(message)
    read = _peer.decode(payload)
    assert [list(map(list, field)) if isinstance(field, list) else field for field in read] == message
    for cut in range(len(payload)):
        with pytest.raises(ValueError, match="raft message"):
            _peer.decode(payload[:cut])
    with pytest.raises(ValueError, match="followed by 1 bytes"):
        _peer.decode(payload + b"\0")
    for at, field in enumerate(message):
        wrongs: tuple[Any, ...] = (None, "text", -1, [], {}, b"x", 0.5, True, 1 << 63)
        for wrong in wrongs:
            if type(wrong) is not type(field):
                with pytest.raises(ValueError, match="raft message"):
                    _peer.decode(pack([*message[:at], wrong, *message[at + 1 :]]))


@settings(derandomize=True, max_examples=500, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=80),
        st.sampled_from(MESSAGES)
        .map(pack)
        .flatmap(lambda p: st.tuples(st.just(p), st.integers(0, len(p) - 1), st.integers(0, 255)))
        .map(lambda t: t[0][: t[1]] + bytes([t[2]]) + t[0][t[1] + 1 :]),
    )
)
def test_any_bytes_are_a_message_or_a_value_error(payload: bytes) -> None:
    try:
        message = _peer.decode(payload)
    except ValueError:
        return
    assert 1 <= message[0] <= 10


def test_a_claimed_length_allocates_nothing() -> None:
    for payload in (
        b"\x97\x01\x01\xcb" + bytes(8) + b"\x00\x00\x00\xdc\xff\xff",
        b"\x97\x01\x01\xcb" + bytes(8) + b"\x00\x00\x00\x91\x92\x01\xc6\xff\xff\xff\xff",
    ):
        with pytest.raises(ValueError, match="raft message"):
            _peer.decode(payload)
