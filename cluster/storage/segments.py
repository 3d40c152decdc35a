"""The journal's segment files: appending, syncing in groups, dropping.

Knows: which segment is open, what is buffered, what is written, what is settled. Must not know: entries as a list, the
engine, why something is dropped.

Two ways to be durable. With ``synced`` (durability "fsync") the loop only buffers; ``sync`` hands the buffer to the
disk thread, which writes it and calls fdatasync, once for all who came meanwhile. Without it (durability "process")
``flush`` writes on the loop's thread with one call, and what the kernel has is settled.

A failed write or sync is final: what the disk holds is unknown from then on (a second fdatasync would report success
for pages that were dropped), so nothing is ever settled again. It is reported once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from cluster.ports import Disk, Env, File
from cluster.storage import record as r
from cluster.storage.record import Header
from cluster.storage.replay import Log, Segment
from cluster.storage.work import DiskWork

SEGMENT_BYTES: Final = 8 << 20
"""Size of a segment file. Preallocated when the segment is begun, which takes one sync per this many bytes."""

PREFIX: Final = "journal-"
NEW: Final = ".new"

logger = logging.getLogger(__name__)


class _Open:
    """One segment that is in use."""

    __slots__ = ("file", "header", "name", "removed", "used")

    def __init__(self, header: Header, used: int, file: File | None) -> None:
        self.header = header
        self.name = segment_name(header.number)
        self.used = used
        self.file = file
        self.removed = False

    @property
    def end(self) -> int:
        return r.position_of(self.header, self.used)

    def shut(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class _Write:
    """A run of records for one segment: one pwrite."""

    __slots__ = ("offset", "parts", "segment")

    def __init__(self, segment: _Open, offset: int) -> None:
        self.segment = segment
        self.offset = offset
        self.parts: list[bytes] = []


def segment_name(number: int) -> str:
    return f"{PREFIX}{number:016x}"


class SegmentLog:
    """The stream of records on disk. All methods are called on the loop's thread.

    Attributes:
        end: position after the last record appended.
        settled: position up to which everything is durable in this log's sense; never goes back.
        next_index: what a segment begun now says of its first entry; the journal keeps it.
        on_error: called once, on the loop, with what failed.
    """

    def __init__(self, disk: Disk, env: Env, work: DiskWork, *, synced: bool, segment_bytes: int) -> None:
        self._disk = disk
        self._env = env
        self._work = work
        self._synced = synced
        self._segment_bytes = segment_bytes
        self._segments: list[_Open] = []
        self._doomed: list[_Open] = []
        self._removing = False
        self._keep_from = 0
        self._writes: list[_Write] = []
        self._group: list[_Write] | None = None
        self._group_end = 0
        self._group_callbacks: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], None]] = []
        self._last_content_end = 0
        self._proven = 0
        self.end = 0
        self.settled = 0
        self.next_index = 0
        self.failed: BaseException | None = None
        self.on_error: Callable[[BaseException], None] = lambda error: None

    # Opening.

    def create(self) -> None:
        """Begin an empty journal. Raises OSError."""
        segment = self._begin(self._segment_bytes)
        self._make(segment)

    def adopt(self, log: Log, segments: Sequence[Segment]) -> None:
        """Go on with what ``replay`` found: cut a torn tail, settle the rest. Raises OSError; may be repeated after a crash."""
        keep = log.cut.ordinal + 1 if log.cut else len(segments)
        for segment in reversed(segments[keep:]):
            # From the end, each gone for good before the next: what is left after a crash here is cut again, at the same place.
            self._disk.remove(segment.name)
            self._disk.sync_directory()
        ends = [header.base for header in log.headers[1:keep]] + [log.end]
        for header, end in zip(log.headers[:keep], ends, strict=True):
            self._segments.append(_Open(header, r.offset_of(header, end), self._disk.open(segment_name(header.number))))
        for ours, segment in zip(self._segments, segments[:keep], strict=True):
            self._settle_again(ours, segment.data, log)
        self.end = self.settled = self._last_content_end = log.end
        self.next_index = log.next_index

    def _settle_again(self, segment: _Open, data: bytes, log: Log) -> None:
        """What was read may be in the kernel only: who wrote it may have been killed before it synced, or its sync may have failed, after
        which the kernel takes the pages for clean. So what is not proven is written again, with the same bytes, and synced."""
        assert segment.file is not None
        start = max(r.HEADER_BYTES, r.offset_of(segment.header, log.proven))
        if start < segment.used:
            segment.file.pwrite(data[start : segment.used], start)
        if log.cut and segment is self._segments[-1]:
            # Zeros, not a shorter file: old records beyond the cut must never be met again, and a file's size never changes.
            segment.file.pwrite(bytes(segment.header.capacity - segment.used), segment.used)
        segment.file.datasync()

    # Appending.

    def append(self, kind: int, index: int, term: int, data: bytes) -> int:
        """Buffer one record and return its position. Touches no file; after an error it counts positions and buffers nothing."""
        segment = self._segments[-1]
        size = r.RECORD_BYTES + len(data)
        if segment.used + size > segment.header.capacity:
            segment = self._begin(max(self._segment_bytes, r.HEADER_BYTES + size))
        position, settled = self.end, self.settled
        if self.failed is None:
            if not self._writes or self._writes[-1].segment is not segment:
                self._writes.append(_Write(segment, segment.used))
            self._writes[-1].parts.append(r.encode_record(segment.header, position, kind, index, term, settled, data))
        segment.used += size
        self.end = position + size
        self._proven = settled
        if kind != r.SEAL:
            self._last_content_end = self.end
        return position

    def flush(self) -> None:
        """Give what is buffered to the kernel, if that is what settles it; with ``synced`` there is nothing to do before ``sync``.

        Raises:
            OSError: it could not be written; also reported by ``on_error``. Nothing of it counts as settled.
        """
        if self._synced:
            return
        if self.failed is not None:
            raise self.failed
        if not self._writes:
            return
        try:
            self._write(self._writes)
        except OSError as error:
            self._fail(error)
            raise
        self._writes = []
        self.settled = self.end
        self._drop(self._keep_from)

    def sync(self, done: Callable[[], None]) -> None:
        """Call ``done`` when all appended so far is settled: at once if it is, else from the loop; never after an error or a close."""
        if self.failed is not None:
            return
        if not self._synced:
            try:
                self.flush()
            except OSError:
                return  # It was reported.
            done()
        elif self.settled == self.end:
            done()
        elif self._group is not None and self._group_end == self.end:
            self._group_callbacks.append(done)
        else:
            self._callbacks.append(done)
            if self._group is None:
                self._start_group()

    def seal(self) -> None:
        """Append the proof that all before it is settled, if that is so and nothing proves it yet."""
        if self._proven < self._last_content_end <= self.settled:
            self.append(r.SEAL, 0, 0, b"")

    def drop_before(self, position: int) -> None:
        """Remove the segments that end at or before ``position``, once everything appended so far is settled."""
        self._keep_from = position

    def close(self) -> None:
        """Write, settle and prove what is left, and close the files. Call it after the disk work was stopped."""
        if self.failed is None:
            try:
                self._settle_now()
                self.seal()
                self._settle_now()
            except OSError as error:
                logger.warning("journal_close_failed error=%s", error)
        self.abandon()

    def abandon(self) -> None:
        """Close the files and nothing else."""
        for segment in self._segments + self._doomed:
            segment.shut()

    def settle_now(self) -> None:
        """``sync``, on this thread: while the storage is being opened. Raises OSError."""
        self._settle_now()
        self._drop(self._keep_from)

    # Writing. ``_write``, ``_make`` and ``_remove`` run on the disk thread with ``synced``, else on the loop's.

    def _write(self, writes: Sequence[_Write]) -> None:
        for write in writes:
            segment = write.segment
            if segment.file is None:
                self._make(segment)
            assert segment.file is not None
            segment.file.pwrite(b"".join(write.parts), write.offset)

    def _write_and_sync(self, writes: Sequence[_Write]) -> None:
        self._write(writes)
        for segment in {write.segment.header.number: write.segment for write in writes}.values():
            assert segment.file is not None
            segment.file.datasync()

    def _make(self, segment: _Open) -> None:
        """Create the file whole under another name; a file with a segment's name has a sound header and its full size."""
        name = segment.name + NEW
        segment.file = file = self._disk.open(name, create=True)
        try:
            file.truncate(0)
            file.preallocate(segment.header.capacity)
            file.pwrite(segment.header.encode(), 0)
            if self._synced:
                file.datasync()
            self._disk.rename(name, segment.name)
            if self._synced:
                self._disk.sync_directory()
        except OSError:
            segment.shut()
            raise

    def _begin(self, capacity: int) -> _Open:
        number = self._segments[-1].header.number + 1 if self._segments else 1
        # No byte of the mark is zero, so that it is never found in space that was not written.
        mark = bytes(byte or 0xFF for byte in self._env.entropy(4))
        seed = int.from_bytes(self._env.entropy(4), "little")
        header = Header(number, self.end, self.next_index, self.settled, capacity, mark, seed)
        segment = _Open(header, r.HEADER_BYTES, None)
        self._segments.append(segment)
        return segment

    # Settling.

    def _start_group(self) -> None:
        group, keep_from = self._writes, self._keep_from
        self._group, self._group_end, self._writes = group, self.end, []
        self._group_callbacks, self._callbacks = self._callbacks, []

        def done(error: BaseException | None) -> None:
            callbacks, self._group_callbacks, self._group = self._group_callbacks, [], None
            if error is not None:
                self._fail(error)
                return
            self.settled = self._group_end
            if self._callbacks:
                self._start_group()
            self._drop(keep_from)
            for callback in callbacks:
                callback()

        self._work.submit(lambda: self._write_and_sync(group), done)

    def _settle_now(self) -> None:
        writes = (self._group or []) + self._writes
        if self._synced:
            self._write_and_sync(writes)
        else:
            self._write(writes)
        self._group, self._writes = None, []
        self.settled = self.end

    def _drop(self, keep_from: int) -> None:
        """Remove whole segments; everything that made them superfluous is settled."""
        count = 0
        while count + 1 < len(self._segments) and self._segments[count].end <= keep_from:
            count += 1
        self._doomed += self._segments[:count]
        del self._segments[:count]
        if self._doomed and not self._removing:
            self._removing = True
            doomed = tuple(self._doomed)
            self._work.submit(lambda: self._remove(doomed), self._removed)

    def _remove(self, doomed: Sequence[_Open]) -> None:
        for segment in doomed:
            segment.shut()
            with suppress(FileNotFoundError):  # Removed the last time, when the sync after it failed.
                self._disk.remove(segment.name)
            # Each for good before the next: a removal that is lost must never leave a gap.
            self._disk.sync_directory()
            segment.removed = True

    def _removed(self, error: BaseException | None) -> None:
        self._removing = False
        # What could not be removed goes first the next time, since segments may only go from the front.
        self._doomed = [segment for segment in self._doomed if not segment.removed]
        if error is not None:
            logger.warning("journal_segment_not_removed file=%s error=%s", self._doomed[0].name, error)

    def _fail(self, error: BaseException) -> None:
        if self.failed is None:
            self.failed = error
            self._writes = []
            logger.error("journal_failed error=%s", error)
            # Not from inside an engine's call, where this may be.
            self._env.call_soon(self.on_error, error)
