"""Msgpack for the tests of the table: the few types that operations and snapshots use, and batches around them.

Knows: the encodings, the batch header. Must not know: what an operation means. Written apart from the product's readers, and so a
check on them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from typing import Any

import msgpack

HEADER = struct.Struct("<BBHIQq")


class Unreadable(Exception):
    """These bytes are not, or not wholly, a value of the types that we use."""


def pack(value: Any) -> bytes:
    """The shortest encoding."""
    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def pack_anyhow(value: Any, rng: random.Random) -> bytes:
    """An encoding in a width of ``rng``'s choice, mostly longer than needed."""
    if isinstance(value, bytes):
        return _in_some_width(len(value), ((0xC4, 1), (0xC5, 2), (0xC6, 4)), rng) + value
    if isinstance(value, list):
        return _in_some_width(len(value), ((0xDC, 2), (0xDD, 4)), rng) + b"".join(
            pack_anyhow(item, rng) for item in value
        )
    if value is None or isinstance(value, bool):
        return pack(value)
    return _in_some_width(value, ((0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)), rng)


def _in_some_width(number: int, forms: tuple[tuple[int, int], ...], rng: random.Random) -> bytes:
    head, width = rng.choice([(head, width) for head, width in forms if number < 1 << (8 * width)])
    return bytes([head]) + number.to_bytes(width, "big")


def decode(data: bytes, at: int = 0) -> tuple[Any, int]:
    """One value and the position after it. Integers only as unsigned, byte strings only as bin; no maps, no floats, no extensions."""
    head = _take(data, at, 1)[0]
    at += 1
    if head < 0x80:
        return head, at
    if head in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[head], at
    if 0xCC <= head <= 0xCF:
        return _number(data, at, 1 << (head - 0xCC))
    if 0xC4 <= head <= 0xC6:
        size, at = _number(data, at, 1 << (head - 0xC4))
        return _take(data, at, size), at + size
    if head & 0xF0 == 0x90:
        count = head & 0x0F
    elif head in (0xDC, 0xDD):
        count, at = _number(data, at, 2 if head == 0xDC else 4)
    else:
        raise Unreadable(f"type byte {head:#x}")
    items = []
    for _ in range(count):
        item, at = decode(data, at)
        items.append(item)
    return items, at


def _take(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise Unreadable("ends early")
    return data[at : at + size]


def _number(data: bytes, at: int, width: int) -> tuple[int, int]:
    return int.from_bytes(_take(data, at, width), "big"), at + width


def decode_all(data: bytes) -> list[Any]:
    """Values one after the other, to the end: replies, events."""
    values, at = [], 0
    while at < len(data):
        value, at = decode(data, at)
        values.append(value)
    return values


def batch(
    operations: Iterable[Any], stamp_ms: int, epoch: int = 1, *, level: int = 1, count: int | None = None
) -> bytes:
    """A batch of operations, each a list or the bytes of one. Epochs are numbers of 64 bits, and wrap here."""
    packed = [operation if isinstance(operation, bytes) else pack(operation) for operation in operations]
    return HEADER.pack(level, 0, 0, len(packed) if count is None else count, epoch % 2**64, stamp_ms) + b"".join(packed)
