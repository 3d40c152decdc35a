"""Entries of the log that name the members.

Knows: their encoding. Must not know: what follows from them, the engine.

One byte 255, with which no command begins, and msgpack ``[1, [member, …], request id]``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cluster.codec import pack, unpack

RESERVED: Final = 0xFF
"""First byte of no command: kept for entries of the group about itself."""

_PREFIX: Final = bytes((RESERVED,))
_KIND: Final = 1


@dataclass(frozen=True, slots=True)
class Members:
    """A list of members, sorted; the index of the entry that says so; and the id of the request that led to it, or none."""

    index: int
    names: tuple[str, ...]
    change: bytes = b""


def members_entry(names: Iterable[str], change: bytes = b"") -> bytes:
    return _PREFIX + pack((_KIND, sorted(names), change))


def names_members(command: bytes) -> bool:
    """Whether an entry is one of these. The engine's own entries are one byte or none."""
    return command[:1] == _PREFIX


def read_members(index: int, command: bytes) -> Members:
    """Raises ValueError for anything that ``members_entry`` does not make."""
    fields = unpack(command[1:])
    if type(fields) is not list or len(fields) != 3 or fields[0] != _KIND or type(fields[2]) is not bytes:
        raise ValueError(f"the entry {index} of the raft group about itself is of another release")
    names = fields[1]
    if type(names) is not list or not names or any(type(name) is not str for name in names):
        raise ValueError(f"entry {index} names no members")
    return Members(index, tuple(names), fields[2])
