"""A snapshot as bytes: in the storage and between nodes alike.

Knows: the format. Must not know: files, what the state means.

``TNRSNAP1``, a little-endian u32 length, so many bytes of msgpack ``[index, term, [member, …]]``, and the machine's state. Equal logs give
equal bytes, so a transfer that one leader began can be ended by another.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cluster.codec import pack, unpack

MAGIC: Final = b"TNRSNAP1"
_LENGTH = struct.Struct("<I")
_START: Final = len(MAGIC) + _LENGTH.size


@dataclass(frozen=True, slots=True)
class Content:
    """What a snapshot says: the machine's ``state`` after the entry ``index`` of ``term``, in a group of ``members``."""

    index: int
    term: int
    members: list[str]
    state: bytes


def encode(index: int, term: int, members: Sequence[str], state: bytes) -> bytes:
    head = pack((index, term, list(members)))
    return b"".join((MAGIC, _LENGTH.pack(len(head)), head, state))


def decode(data: bytes) -> Content:
    """Raises ValueError for anything that ``encode`` does not make."""
    if data[: len(MAGIC)] != MAGIC or len(data) < _START:
        raise ValueError("not a snapshot of this release")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    head = unpack(data[_START : _START + length])
    if type(head) is not list or tuple(map(type, head)) != (int, int, list):
        raise ValueError("the snapshot's head is not what it should be")
    return Content(head[0], head[1], [str(member) for member in head[2]], data[_START + length :])
