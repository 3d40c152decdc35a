"""Term, vote, identity: what a node must never forget, in one small file.

Knows: the file's format and how it is replaced. Must not know: elections, forming a group, the journal.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from cluster.ports import Disk
from cluster.storage.damage import StorageDamaged

NAME: Final = "meta"
NEW: Final = "meta.new"
MAGIC: Final = b"TENUREM\n"
VERSION: Final = 1

_FRONT = struct.Struct("<8sHHII")
_NUMBERS = struct.Struct("<QQQBB")
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class State:
    """See ``Meta``."""

    term: int = 0
    voted_for: str | None = None
    incarnation: bytes = b""
    cluster_id: bytes = b""
    formed: dict[str, bytes] = field(default_factory=dict)
    joined: bool = False
    no_vote_through: int = 0
    member_since: int = 0


_NAMES: Final = frozenset(f.name for f in fields(State))


class Meta:
    """What is kept, and the one way to change it.

    Attributes (read only):
        term, voted_for: Raft's. The id of who got this node's vote in ``term``, or None.
        incarnation: 16 bytes, minted when the directory was first used.
        cluster_id: 16 bytes, or empty while none is known.
        formed: node id -> incarnation, as the group was formed.
        joined: whether this node had caught up with a group.
        no_vote_through: it does not vote in terms up to this one.
        member_since: index of an entry that named it a member, and that it has applied; before there is one, of the mark with which this
            incarnation joined. 0: none.
        on_error: called, besides raising, with the error of a save that failed.
    """

    def __init__(self, disk: Disk | None, state: State) -> None:
        self._disk = disk
        self._state = state
        self._failed: OSError | None = None
        self.on_error: Callable[[BaseException], None] = lambda error: None

    @property
    def term(self) -> int:
        return self._state.term

    @property
    def voted_for(self) -> str | None:
        return self._state.voted_for

    @property
    def incarnation(self) -> bytes:
        return self._state.incarnation

    @property
    def cluster_id(self) -> bytes:
        return self._state.cluster_id

    @property
    def formed(self) -> dict[str, bytes]:
        return dict(self._state.formed)

    @property
    def joined(self) -> bool:
        return self._state.joined

    @property
    def no_vote_through(self) -> int:
        return self._state.no_vote_through

    @property
    def member_since(self) -> int:
        return self._state.member_since

    def save(self, **changes: Any) -> None:
        """Change some attributes, all or none; on disk when it returns. Blocks for two syncs, or not at all if nothing changes.

        Raises:
            OSError: nothing may be done that rests on the change. What the disk holds is unknown, so every later save raises too.
            TypeError, ValueError: there is no such attribute; the term would go back. Nothing was changed.
        """
        if unknown := changes.keys() - _NAMES:
            raise TypeError(f"meta has no {sorted(unknown)}")
        if "formed" in changes:
            changes["formed"] = dict(changes["formed"])
        state = replace(self._state, **changes)
        if state.term < self._state.term:
            raise ValueError(f"term {self._state.term} cannot go back to {state.term}")
        if state == self._state:
            return
        if self._failed is not None:
            raise self._failed
        data = encode(state)
        if self._disk is not None:
            try:
                write(self._disk, data)
            except OSError as error:
                self._failed = error
                self.on_error(error)
                raise
        self._state = state


def write(disk: Disk, data: bytes) -> None:
    """Replace the file: beside, sync, rename, sync of the directory."""
    file = disk.open(NEW, create=True)
    try:
        file.truncate(0)
        file.pwrite(data, 0)
        file.datasync()
    finally:
        file.close()
    disk.rename(NEW, NAME)
    disk.sync_directory()


def encode(state: State) -> bytes:
    parts = [_NUMBERS.pack(
            state.term, state.no_vote_through, state.member_since, state.joined, state.voted_for is not None
        )]
    texts = [(state.voted_for or "").encode(), state.incarnation, state.cluster_id]
    for node_id, incarnation in sorted(state.formed.items()):
        texts += [node_id.encode(), incarnation]
    for text in texts:
        parts += [_LENGTH.pack(len(text)), text]
    body = b"".join(parts)
    front = _FRONT.pack(MAGIC, VERSION, 0, len(body), zlib.crc32(body))
    return front + _LENGTH.pack(zlib.crc32(front)) + body


def decode(data: bytes) -> State:
    """Raises StorageDamaged on anything that ``encode`` does not make; an empty file is never taken for term 0."""
    start = _FRONT.size + _LENGTH.size
    if len(data) < start:
        raise StorageDamaged(NAME, len(data), "the file is cut short" if data else "the file is empty")
    magic, version, _, size, crc = _FRONT.unpack_from(data)
    if magic != MAGIC or zlib.crc32(data[: _FRONT.size]) != _LENGTH.unpack_from(data, _FRONT.size)[0]:
        raise StorageDamaged(NAME, 0, "this is not the header that was written")
    if version != VERSION:
        raise StorageDamaged(NAME, 8, f"it has format {version}, this release reads {VERSION}")
    body = data[start:]
    if len(body) != size:
        raise StorageDamaged(NAME, min(len(data), start + size), f"it has {len(body)} bytes of {size}")
    if zlib.crc32(body) != crc:
        raise StorageDamaged(NAME, start, "its checksum is wrong")
    try:
        return _decode_body(body)
    except (struct.error, ValueError) as error:
        raise StorageDamaged(NAME, start, f"it is not what any release wrote: {error}") from None


def _decode_body(body: bytes) -> State:
    """Raises struct.error, ValueError."""
    term, no_vote_through, member_since, joined, voted = _NUMBERS.unpack_from(body)
    texts: list[bytes] = []
    offset = _NUMBERS.size
    while offset < len(body):
        (length,) = _LENGTH.unpack_from(body, offset)
        offset += _LENGTH.size
        texts.append(body[offset : offset + length])
        offset += length
    voted_for, incarnation, cluster_id, *formed = texts
    members = {node_id.decode(): value for node_id, value in zip(formed[::2], formed[1::2], strict=True)}
    vote = voted_for.decode() if voted else None
    return State(term, vote, incarnation, cluster_id, members, bool(joined), no_vote_through, member_since)
