"""The codec: what goes in comes out, and nothing that is not the protocol's gets in."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster.codec import DEPTH_MAX, frame, pack, unpack
from cluster.limits import PEER_FRAME_MAX_BYTES
from tests.net.support import quick

pytestmark = pytest.mark.fast

scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20) | st.binary(max_size=20)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@quick
@given(values)
def test_what_is_packed_is_unpacked(value: Any) -> None:
    assert unpack(pack(value)) == value


def test_text_and_bytes_stay_what_they_are() -> None:
    assert unpack(pack([b"a", "a", (1, 2)])) == [b"a", "a", [1, 2]]


@quick
@given(st.binary(max_size=200))
@example(b"\xd6\xff\0\0\0\0")
@example(b"\xc7\x00\xff")
@example(b"\xc7\x00\x05")
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\x81\x90\x01")
@example(b"\x91" * 5000 + b"\xc0")
@example(b"\x81\xa1a" * 5000 + b"\xc0")
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    try:
        value = unpack(data)
    except ValueError:
        return
    assert unpack(pack(value)) == value or value != value or "nan" in repr(value)


@quick
@given(values, st.integers(1, 50))
def test_a_truncated_value_is_refused(value: Any, missing: int) -> None:
    data = pack(value)
    if missing <= len(data):
        with pytest.raises(ValueError):  # noqa: PT011 - the type is the contract, the text is not
            unpack(data[:-missing])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(msgpack.packb(msgpack.Timestamp(1)), id="timestamp 32"),
        pytest.param(msgpack.packb(msgpack.Timestamp(2**40, 5)), id="timestamp 96"),
        pytest.param(msgpack.packb([1, msgpack.ExtType(5, b"abc")]), id="extension"),
        pytest.param(msgpack.packb({1: 2}), id="number as a key"),
        pytest.param(b"\xa1\xff", id="not UTF-8"),
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x01\x01", id="two values"),
        pytest.param(b"\xc1", id="never used byte"),
        pytest.param(b"\xc6" + (PEER_FRAME_MAX_BYTES).to_bytes(4, "big") + bytes(PEER_FRAME_MAX_BYTES), id="too large"),
    ],
)
def test_what_is_not_the_protocols_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the type is the contract, the text is not
        unpack(data)


def test_depth_is_bounded() -> None:
    assert unpack(b"\x91" * DEPTH_MAX + b"\x01") is not None
    with pytest.raises(ValueError, match="deeper"):
        unpack(b"\x91" * (DEPTH_MAX + 1) + b"\x01")
    with pytest.raises(ValueError, match="deeper"):
        unpack(b"\x81\xa1a" * (DEPTH_MAX + 1) + b"\x01")


def test_a_frame_is_length_and_payload() -> None:
    assert frame(b"abc") == b"\0\0\0\x03abc"
    assert frame(b"") == b"\0\0\0\0"
