"""The codec: what goes in comes out, and nothing that is not the protocol's gets in."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cluster._wire import check_value
from cluster.codec import DEPTH_MAX, frame, pack, unpack
from cluster.limits import HANDSHAKE_MAX_BYTES, PEER_FRAME_MAX_BYTES
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


@pytest.mark.parametrize("levels", [DEPTH_MAX, 1000])
@pytest.mark.parametrize("size", [HANDSHAKE_MAX_BYTES, 1 << 20])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_only_announced_takes_no_memory(levels: int, size: int, whole: bool) -> None:
    head = b"\xdd" + (size // 2).to_bytes(4, "big")
    if whole:
        head = b"\xdd\0\0\0\x01"
    data = (head * levels).ljust(size, b"\xc0")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError):  # noqa: PT011 - the type is the contract, the text is not
            unpack(data)
        assert tracemalloc.get_traced_memory()[1] < size + 100_000
    finally:
        tracemalloc.stop()


def _tolerant(data: bytes) -> Any:
    """msgpack with nothing refused but what is not msgpack."""
    return msgpack.unpackb(data, raw=True, strict_map_key=False, unicode_errors="replace", ext_hook=lambda code, data: None)


pieces = st.sampled_from(
    [bytes([head]) for head in range(256)] + [b"\0\x01", b"\0\x02", b"\0\0\0\x01", b"\0\0\0\x02", b"\xa1a", b"\x91", b"\x82"]
)


@quick
@given(st.lists(pieces, max_size=12).map(b"".join) | values.map(pack))
@example(b"\xc7\x01\x05a")
@example(b"\xc8\0\x01\x05a")
@example(b"\xc9\0\0\0\x01\x05a")
@example(b"\xd8\x05" + bytes(16))
@example(b"\xde\0\x01\xa1a\x90")
@example(b"\xdf\0\0\0\x01\xa1a\x90")
def test_what_is_taken_for_a_whole_value_is_one__and_nothing_else(data: bytes) -> None:
    try:
        check_value(data)
    except ValueError as error:
        if "deeper" in str(error):
            return
        with pytest.raises((ValueError, TypeError)):
            _tolerant(data)
    else:
        # A key that is a list or a map is whole as well.
        with contextlib.suppress(TypeError):
            _tolerant(data)


def test_a_frame_is_length_and_payload() -> None:
    assert frame(b"abc") == b"\0\0\0\x03abc"
    assert frame(b"") == b"\0\0\0\0"
