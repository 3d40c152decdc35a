"""From the bytes of the segments to the log they hold, or to the place where they are damaged.

Knows: the order of records and what each does to the log. Must not know: files, threads, the raft group. It is a pure
function.

**Torn or damaged.** The log is read up to the first place X that holds no valid record. If nothing but zeros follows,
the log ends there. Otherwise something was written at X and is not whole. It is *damage* if any readable record or
segment header after X carries a ``settled`` beyond X: what stood at X had been acknowledged as durable. If none does,
everything from X on belongs to the *last group*, the records that no later one proves to have been settled; a power cut
may have kept any part of them in any order, so a damaged one cannot be told from a torn one, and it is cut. A log that
was at rest for a second, or was closed, ends in a SEAL, which proves all before it; so only what was written within the
last moments can ever be cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster.storage import record as r
from cluster.storage.damage import StorageDamaged
from cluster.storage.record import Entry, Header


class Segment(NamedTuple):
    """A segment file as it was read."""

    name: str
    data: bytes


class Cut(NamedTuple):
    """Where the last group is torn: segments after ``ordinal`` go, and this one is zeroed from ``offset`` on."""

    ordinal: int
    offset: int


@dataclass(slots=True)
class Log:
    """What the segments hold.

    ``starts[i]`` is the position of the record that holds ``entries[i]``. ``next_index`` is the only index that the next entry may have
    (0: any). ``end`` is where the next record goes, in the last segment that stays. Up to ``proven`` it says of itself that it was settled.
    """

    headers: list[Header]
    next_index: int
    end: int
    entries: list[Entry] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    records: int = 0
    proven: int = 0
    cut: Cut | None = None

    @property
    def head(self) -> int:
        """The first index that the log holds or would hold; 0: any."""
        return self.entries[0][1] if self.entries else self.next_index


def replay(segments: Sequence[Segment]) -> Log:
    """Read a whole journal. ``segments`` is in the order of their names and not empty.

    Raises:
        StorageDamaged: naming the segment and the offset in it. Cost: one pass over the bytes.
    """
    headers = _headers(segments)
    log = Log(headers, headers[0].next_index, headers[0].base)
    for ordinal, (segment, header) in enumerate(zip(segments, headers, strict=True)):
        log.proven = max(log.proven, header.settled)
        last = ordinal + 1 == len(segments)
        limit = header.capacity if last else r.offset_of(header, headers[ordinal + 1].base)
        offset = _read(log, segment, header, limit)
        log.end = r.position_of(header, offset)
        if offset == limit or (last and not any_byte(segment.data, offset)):
            continue
        if _settled_after(segments, headers, ordinal, offset) > log.end:
            raise StorageDamaged(segment.name, offset, "a record that had been settled cannot be read")
        log.cut = Cut(ordinal, offset)
        break
    return log


def any_byte(data: bytes, offset: int) -> bool:
    """Whether anything but zeros stands at or after ``offset``."""
    return data.count(0, offset) != len(data) - offset


def _headers(segments: Sequence[Segment]) -> list[Header]:
    headers: list[Header] = []
    for segment in segments:
        try:
            header = Header.decode(segment.data)
        except ValueError as error:
            raise StorageDamaged(segment.name, 0, str(error)) from None
        if len(segment.data) != header.capacity:
            # A segment has its full size before it has its name, and nothing ever changes the size.
            shorter = min(len(segment.data), header.capacity)
            raise StorageDamaged(
                segment.name, shorter, f"the file has {len(segment.data)} bytes, it was made with {header.capacity}"
            )
        if headers:
            before = headers[-1]
            if header.number != before.number + 1:
                raise StorageDamaged(segment.name, 0, f"segment {before.number + 1} before it is missing")
            if not r.HEADER_BYTES <= r.offset_of(before, header.base) <= before.capacity:
                raise StorageDamaged(segment.name, 0, f"it does not continue segment {before.number}")
        headers.append(header)
    return headers


def _read(log: Log, segment: Segment, header: Header, limit: int) -> int:
    """Take the records of one segment into the log, up to the first offset that holds none."""
    offset = r.HEADER_BYTES
    while (record := r.decode_record(header, segment.data, offset, limit)) is not None:
        try:
            _take(log, record, r.position_of(header, offset))
        except ValueError as error:
            raise StorageDamaged(segment.name, offset, str(error)) from None
        log.records += 1
        log.proven = max(log.proven, record.settled)
        offset += record.size
    return offset


def _take(log: Log, record: r.Record, position: int) -> None:
    """Do to the log what the record says. Raises ValueError if it cannot follow what came before."""
    if record.kind == r.ENTRY:
        if log.next_index not in (0, record.index):
            raise ValueError(f"entry {record.index} stands where {log.next_index} belongs")
        _append(log, (record.data, record.index, record.term), position)
    elif record.kind == r.CUT:
        if record.index > log.next_index:
            raise ValueError(f"a cut at {record.index} of a log that ends before {log.next_index}")
        keep = max(0, record.index - log.head) if log.entries else 0
        del log.entries[keep:], log.starts[keep:]
        log.next_index = record.index
    elif record.kind == r.HEAD:
        if record.index > log.next_index:
            raise ValueError(f"a head at {record.index} of a log that ends before {log.next_index}")
        drop = max(0, record.index - log.head) if log.entries else 0
        del log.entries[:drop], log.starts[:drop]
    elif record.kind == r.RESET:
        entries = r.decode_entries(record.data)
        if len(entries) != record.term:
            raise ValueError(f"a reset to {record.term} entries holds {len(entries)}")
        log.entries.clear()
        log.starts.clear()
        log.next_index = 0
        for entry in entries:
            if log.next_index not in (0, entry[1]):
                raise ValueError(f"a reset holds entry {entry[1]} where {log.next_index} belongs")
            _append(log, entry, position)


def _append(log: Log, entry: Entry, position: int) -> None:
    log.entries.append(entry)
    log.starts.append(position)
    log.next_index = entry[1] + 1


def _settled_after(segments: Sequence[Segment], headers: Sequence[Header], ordinal: int, offset: int) -> int:
    """The furthest position that anything readable after this place proves to have been settled."""
    proof = 0
    for segment, header in zip(segments[ordinal:], headers[ordinal:], strict=True):
        if header is not headers[ordinal]:
            proof = max(proof, header.settled)
            offset = r.HEADER_BYTES
        data = segment.data
        while (offset := data.find(header.mark, offset)) >= 0:
            record = r.decode_record(header, data, offset, len(data))
            if record is None:
                offset += 1
            else:
                proof = max(proof, record.settled)
                offset += record.size
    return proof
