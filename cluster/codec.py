"""msgpack, strictly: the one home of that package outside the compiled modules.

Knows: how a value becomes bytes and back, and what is refused on the way back. Must not know: what any message
means, or sockets.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import msgpack

from cluster._wire import check_value
from cluster.limits import PEER_FRAME_MAX_BYTES

DEPTH_MAX: Final = 16
"""The same as in the compiled ``check_value``; a test compares the two."""
_LENGTH = struct.Struct(">I")


def pack(value: Any) -> bytes:
    """Encode a value of None, bool, int, float, str, bytes, list, tuple and dict.

    Raises:
        TypeError: for any other type.
        ValueError, OverflowError: for what msgpack cannot hold (integers beyond 64 bits, cycles).
    """
    data: bytes = msgpack.packb(value, use_bin_type=True)
    return data


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension type {code} is not part of this protocol")


def unpack(data: bytes) -> Any:
    """Decode exactly one value; ``str`` stays str, ``bin`` stays bytes, arrays become lists.

    Refuses extension types (timestamps too), map keys that are neither str nor bytes, more than
    ``PEER_FRAME_MAX_BYTES``, nesting deeper than ``DEPTH_MAX``, and anything after the value.

    Raises:
        ValueError: for all of that, and for bytes that are not msgpack or not UTF-8. Nothing else is ever raised.
    """
    if len(data) > PEER_FRAME_MAX_BYTES:
        raise ValueError(f"{len(data)} bytes are more than the limit of {PEER_FRAME_MAX_BYTES}")
    # First: msgpack takes memory for what an array announces, a thousand levels of it in a few kilobytes, and some of its releases keep it.
    check_value(data)
    try:
        # Extensions longer than 0 bytes are refused by length, which covers the timestamp that no hook sees.
        return msgpack.unpackb(data, raw=False, strict_map_key=True, max_ext_len=0, ext_hook=_refuse_extension)
    except ValueError:
        raise
    except Exception as error:
        # The pure Python form of msgpack reports some malformed input by other types.
        raise ValueError(f"not msgpack: {type(error).__name__}") from error


def frame(payload: bytes) -> bytes:
    """Put the length prefix (big-endian u32) before a payload of less than 4 GiB."""
    return _LENGTH.pack(len(payload)) + payload


def unpack_stream(data: bytes) -> Iterator[Any]:
    """Decode the values that this node's own table wrote one after the other: bytes of ours, not of a stranger."""
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=0)
    unpacker.feed(data)
    return iter(unpacker)
