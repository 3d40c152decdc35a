"""Snapshot files: written beside and slice by slice, named when whole, checked when read.

Knows: the file's format, which snapshot is the newest. Must not know: what a snapshot holds, the journal.

A file is a header and blocks of BLOCK_BYTES (the last one shorter), each followed by its checksum, which starts from
the header's and the block's number: a block of another file, or at another place, is not accepted.
"""

from __future__ import annotations

import logging
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from cluster.ports import Disk, Env
from cluster.storage.damage import StorageDamaged
from cluster.storage.work import DiskWork

PREFIX: Final = "snapshot-"
NEW: Final = ".new"
MAGIC: Final = b"TENURES\n"
VERSION: Final = 1
BLOCK_BYTES: Final = 1 << 20
"""Written and synced at a time, so that journal syncs come in between."""

_HEADER = struct.Struct("<8sHHIQQQ")
_CRC = struct.Struct("<I")
_START: Final = _HEADER.size + _CRC.size

Done = Callable[[BaseException | None], None]
logger = logging.getLogger(__name__)


Snapshot = tuple[int, int, bytes]
"""(index, term, data): the state after the entry ``index`` of ``term`` was applied."""


class SnapshotStore(Protocol):
    """Where snapshots are kept."""

    @property
    def index(self) -> int:
        """Index of the newest one; 0: there is none."""

    def save(self, index: int, term: int, data: bytes, done: Done) -> None:
        """Keep a snapshot; ``done``, later and on the loop, gets None when it is durable and the newest, or the OSError that prevented it.

        After an error the previous snapshot is untouched and another save may be tried. Saves are done in the order they came. One that is
        not newer than what is kept is not written; ``done(None)`` then means that what is kept covers it. After a close ``done`` is never
        called.
        """

    def latest(self) -> Snapshot | None:
        """The newest complete snapshot. Reads and verifies the whole file. Raises StorageDamaged, OSError."""


class MemorySnapshots:
    """A ``SnapshotStore`` for nodes without a data directory."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._latest: Snapshot | None = None

    @property
    def index(self) -> int:
        return self._latest[0] if self._latest else 0

    def save(self, index: int, term: int, data: bytes, done: Done) -> None:
        if index > self.index:
            self._latest = (index, term, data)
        self._env.call_soon(done, None)

    def latest(self) -> Snapshot | None:
        return self._latest


class FileSnapshots:
    """A ``SnapshotStore`` in a data directory."""

    def __init__(self, disk: Disk, work: DiskWork, directory: str, index: int) -> None:
        self._disk = disk
        self._work = work
        self._directory = directory
        self._index = index
        self._queue: deque[tuple[Snapshot, Done]] = deque()

    @property
    def index(self) -> int:
        return self._index

    def save(self, index: int, term: int, data: bytes, done: Done) -> None:
        self._queue.append(((index, term, data), done))
        if len(self._queue) == 1:
            self._next()

    def latest(self) -> Snapshot | None:
        if not self._index:
            return None
        try:
            return read(self._disk, snapshot_name(self._index))
        except StorageDamaged as error:
            raise error.within(self._directory) from None

    def _next(self) -> None:
        snapshot, _ = self._queue[0]
        previous = self._index
        steps = iter(()) if snapshot[0] <= previous else slices(self._disk, snapshot)
        finished = False

        def step() -> None:
            nonlocal finished
            finished = next(steps, None) is None

        def after(error: BaseException | None) -> None:
            if error is None and not finished:
                self._work.submit(step, after)
            else:
                self._finish(error, previous)

        self._work.submit(step, after)

    def _finish(self, error: BaseException | None, previous: int) -> None:
        (index, term, data), done = self._queue.popleft()
        if error is not None:
            logger.warning("snapshot_failed index=%d bytes=%d error=%s", index, len(data), error)
        elif index > previous:
            self._index = index
            logger.info("snapshot_saved index=%d term=%d bytes=%d", index, term, len(data))
            if previous:
                self._work.submit(lambda: self._disk.remove(snapshot_name(previous)), _removed)
        if self._queue:
            self._next()
        done(error)


def snapshot_name(index: int) -> str:
    return f"{PREFIX}{index:016x}"


def read(disk: Disk, name: str) -> Snapshot:
    """Raises StorageDamaged, OSError."""
    return decode(name, disk.read(name))


def decode(name: str, raw: bytes) -> Snapshot:
    """Raises StorageDamaged on anything that was not written as a whole snapshot under this name."""
    if len(raw) < _START:
        raise StorageDamaged(name, len(raw), "the file is cut short" if raw else "the file is empty")
    magic, version, _, block_bytes, index, term, size = _HEADER.unpack_from(raw)
    (seed,) = _CRC.unpack_from(raw, _HEADER.size)
    if magic != MAGIC or seed != zlib.crc32(raw[: _HEADER.size]):
        raise StorageDamaged(name, 0, "this is not the header that was written")
    if version != VERSION:
        raise StorageDamaged(name, 8, f"it has format {version}, this release reads {VERSION}")
    if name != snapshot_name(index):
        raise StorageDamaged(name, 0, f"it holds the snapshot of index {index}")
    if not block_bytes:
        raise StorageDamaged(name, 12, "its blocks have no bytes")
    blocks = -(-size // block_bytes)
    expected = _START + size + blocks * _CRC.size
    if len(raw) != expected:
        raise StorageDamaged(name, min(len(raw), expected), f"it has {len(raw)} bytes of {expected}")
    view, parts = memoryview(raw), []
    for number in range(blocks):
        start = _START + number * (block_bytes + _CRC.size)
        end = min(start + block_bytes, expected - _CRC.size)
        block = view[start:end]
        if zlib.crc32(block, seed + number & 0xFFFF_FFFF) != _CRC.unpack_from(raw, end)[0]:
            raise StorageDamaged(name, start, f"the checksum of block {number} is wrong")
        parts.append(block)
    return index, term, b"".join(parts)


def encode_header(index: int, term: int, size: int) -> bytes:
    front = _HEADER.pack(MAGIC, VERSION, 0, BLOCK_BYTES, index, term, size)
    return front + _CRC.pack(zlib.crc32(front))


def slices(disk: Disk, snapshot: Snapshot) -> Iterator[bool]:
    """Write one snapshot, a slice with each step; the last step ends the iteration. After a step that raises nothing counts."""
    index, term, data = snapshot
    name = snapshot_name(index)
    header = encode_header(index, term, len(data))
    seed = zlib.crc32(header[: _HEADER.size])
    file = disk.open(name + NEW, create=True)
    try:
        file.truncate(0)
        file.pwrite(header, 0)
        view, offset = memoryview(data), len(header)
        for number, start in enumerate(range(0, len(view), BLOCK_BYTES)):
            block = view[start : start + BLOCK_BYTES]
            file.pwrite(b"".join((block, _CRC.pack(zlib.crc32(block, seed + number & 0xFFFF_FFFF)))), offset)
            file.datasync()
            offset += len(block) + _CRC.size
            yield True
        file.datasync()
    finally:
        file.close()
    disk.rename(name + NEW, name)
    disk.sync_directory()


def _removed(error: BaseException | None) -> None:
    if error is not None:
        logger.warning("snapshot_not_removed error=%s", error)
