"""The journal's bytes: segment headers and records.

Knows: the layout and its checksums. Must not know: files, the order of records, what an entry means.

The journal is one endless stream of records, cut into segment files. A *position* is an offset in that stream; a
segment's header says at which position it begins. Every record carries ``settled``: the position up to which everything
had been acknowledged as durable when the record was made. It is what tells damage from a torn tail (see ``replay``).

A record's checksum starts from its segment's secret seed and its own position, so that neither a record that lies
elsewhere nor bytes that a client put into a command are ever taken for a record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Final

Entry = tuple[bytes, int, int]
"""(command, index, term), the shape that the engine keeps."""

MAGIC: Final = b"TENUREJ\n"
VERSION: Final = 1
HEADER_BYTES: Final = 64
RECORD_BYTES: Final = 40

ENTRY: Final = 1  # index, term, and the command as data
CUT: Final = 2  # every entry from this index on is gone
HEAD: Final = 3  # every entry below this index is gone
RESET: Final = 4  # the whole log is replaced by the entries in data: one record, so that it happens whole or not at all
SEAL: Final = 5  # nothing but its ``settled``
_KINDS: Final = frozenset((ENTRY, CUT, HEAD, RESET, SEAL))

_HEADER = struct.Struct("<8sHHQQQQQ4sI")
_CRC = struct.Struct("<I")
_FRONT = struct.Struct("<4sI")
_BODY = struct.Struct("<IB3xQQQ")
_NESTED = struct.Struct("<QQI")
_MASK = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Header:
    """What a segment says of itself. It is complete and on disk before the file gets its name.

    ``number`` counts segments from 1; ``base`` is the position of its first record; ``next_index`` the index that the
    next entry would have had when it was begun (0: any); ``capacity`` the file's size in bytes; ``mark`` (4 bytes, none
    of them zero) begins each record.
    """

    number: int
    base: int
    next_index: int
    settled: int
    capacity: int
    mark: bytes
    seed: int

    def encode(self) -> bytes:
        front = _HEADER.pack(MAGIC, VERSION, 0, *astuple(self))
        return front + _CRC.pack(zlib.crc32(front))

    @classmethod
    def decode(cls, data: bytes) -> Header:
        """Raises ValueError with what is wrong."""
        if len(data) < HEADER_BYTES:
            raise ValueError("the segment's header is cut short")
        magic, version, _, *fields = _HEADER.unpack_from(data)
        (crc,) = _CRC.unpack_from(data, _HEADER.size)
        if magic != MAGIC:
            raise ValueError("this is not a journal segment")
        if crc != zlib.crc32(data[: _HEADER.size]):
            raise ValueError("the segment header's checksum is wrong")
        if version != VERSION:
            raise ValueError(f"the segment has format {version}, this release reads {VERSION}")
        return cls(*fields)


@dataclass(slots=True)
class Record:
    kind: int
    index: int
    term: int
    settled: int
    data: bytes

    @property
    def size(self) -> int:
        return RECORD_BYTES + len(self.data)


def encode_record(header: Header, position: int, kind: int, index: int, term: int, settled: int, data: bytes) -> bytes:
    body = _BODY.pack(len(data), kind, index, term, settled)
    crc = zlib.crc32(data, zlib.crc32(body, (header.seed + position) & _MASK))
    return b"%b%b%b" % (_FRONT.pack(header.mark, crc), body, data)


def decode_record(header: Header, data: bytes, offset: int, limit: int) -> Record | None:
    """The record at ``offset`` of a segment file, or None if there is none that ends at or before ``limit``."""
    if limit - offset < RECORD_BYTES:
        return None
    mark, crc = _FRONT.unpack_from(data, offset)
    if mark != header.mark:
        return None
    start = offset + _FRONT.size
    size, kind, index, term, settled = _BODY.unpack_from(data, start)
    end = offset + RECORD_BYTES + size
    if end > limit or kind not in _KINDS:
        return None
    # The body and the data lie side by side: one pass gives what encode_record makes in two.
    if zlib.crc32(memoryview(data)[start:end], (header.seed + position_of(header, offset)) & _MASK) != crc:
        return None
    return Record(kind, index, term, settled, data[offset + RECORD_BYTES : end])


def position_of(header: Header, offset: int) -> int:
    return header.base + offset - HEADER_BYTES


def offset_of(header: Header, position: int) -> int:
    return position - header.base + HEADER_BYTES


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """The data of a RESET record."""
    return b"".join([_NESTED.pack(index, term, len(command)) + command for command, index, term in entries])


def decode_entries(data: bytes) -> list[Entry]:
    """Raises ValueError on anything that ``encode_entries`` does not make."""
    entries: list[Entry] = []
    offset = 0
    while offset < len(data):
        if len(data) - offset < _NESTED.size:
            raise ValueError("an entry of a reset is cut short")
        index, term, size = _NESTED.unpack_from(data, offset)
        offset += _NESTED.size
        if len(data) - offset < size:
            raise ValueError("a command of a reset is cut short")
        entries.append((data[offset : offset + size], index, term))
        offset += size
    return entries
