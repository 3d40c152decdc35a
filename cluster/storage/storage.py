"""Opening a data directory: what is there, whether it fits together, and what becomes of it.

Knows: the rules between meta, journal and snapshot. Must not know: their formats, the engine.
"""

from __future__ import annotations

import errno
import logging
import posixpath
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from cluster.errors import CoordinationError, UsageError
from cluster.ports import Disk, Env
from cluster.storage import meta as meta_file
from cluster.storage import segments as segment_files
from cluster.storage import snapshots as snapshot_files
from cluster.storage.damage import StorageDamaged
from cluster.storage.journal import Journal, MemoryLog
from cluster.storage.meta import Meta, State
from cluster.storage.record import Entry
from cluster.storage.replay import Log, Segment, replay
from cluster.storage.segments import SEGMENT_BYTES, SegmentLog
from cluster.storage.snapshots import FileSnapshots, MemorySnapshots, Snapshot, SnapshotStore
from cluster.storage.work import DiskWork

Durability = Literal["fsync", "process", "memory"]
DURABILITIES: Final[tuple[Durability, ...]] = ("fsync", "process", "memory")
INCARNATION_BYTES: Final = 16

logger = logging.getLogger(__name__)


class Storage:
    """One node's memory: ``meta``, ``journal`` and ``snapshots``. Used on the loop's thread."""

    def __init__(self, meta: Meta, journal: Journal, snapshots: SnapshotStore, shut: Callable[[], bool]) -> None:
        self.meta = meta
        self.journal = journal
        self.snapshots = snapshots
        self._shut: Callable[[], bool] | None = shut

    @property
    def empty(self) -> bool:
        """Whether this node has never taken part in anything: no term, no snapshot, no entry of a term above 0."""
        journal = self.journal
        return not self.meta.term and not self.snapshots.index and not (len(journal) and journal[-1][2])

    def close(self) -> None:
        """Settle what is buffered, close the files, unlock the directory. May be repeated.

        Blocks for that; with a disk that hangs it gives up after ``work.STOP_WAIT_S`` and leaves the directory locked. Callbacks that
        were not called yet never are.
        """
        shut, self._shut = self._shut, None
        if shut is not None and not shut():
            logger.warning("storage_close_gave_up the disk does not answer")


class Found(NamedTuple):
    """A data directory as it was found, and verified. ``half_written``: the file of a snapshot is there that was never finished."""

    state: State | None
    segments: list[Segment]
    log: Log | None
    snapshot: Snapshot | None
    half_written: bool


def open_storage(
    env: Env, directory: str | None, durability: Durability, *, segment_bytes: int = SEGMENT_BYTES
) -> Storage:
    """Open a node's memory; a directory that is missing or empty is begun.

    Blocks while it reads and verifies everything. With durability "memory" (or without a directory) nothing is kept.

    Args:
        directory: the data directory; created with mode 0700, and locked against other processes until ``close``.
        durability: "fsync" (what was settled survives power cuts), "process" (it survives kill -9 only), "memory".
        segment_bytes: size of a journal segment.

    Raises:
        UsageError: the durability is unknown; or the directory cannot be used: another node has it, it is not a directory, or this user
            may not read and write it.
        StorageDamaged: what is in it is not what was written. Nothing was changed.
        CoordinationError: the disk failed or is full.
    """
    if durability not in DURABILITIES:
        raise UsageError(f"durability {durability!r} is unknown", f"Choose one of {', '.join(DURABILITIES)}")
    if directory is None or durability == "memory":
        meta = Meta(None, State(incarnation=env.entropy(INCARNATION_BYTES)))
        return Storage(meta, Journal(MemoryLog(), meta), MemorySnapshots(env), lambda: True)
    disk = open_disk(env, directory)
    try:
        with guarded(directory):
            storage = _open_files(env, disk, directory, durability == "fsync", segment_bytes)
    except BaseException:
        disk.close()
        raise
    journal = storage.journal
    logger.info(
        "storage_opened directory=%s durability=%s term=%d entries=%d first=%d snapshot=%d",
        directory, durability, storage.meta.term, len(journal), journal.getRaftCommitIndex(), storage.snapshots.index,
    )  # fmt: skip
    if durability == "process":
        logger.warning("storage_durability durability=process survives a killed process, not a power cut")
    return storage


@contextmanager
def guarded(directory: str) -> Iterator[None]:
    """What goes wrong with the files is told with the directory's name, and as an error of ours."""
    try:
        yield
    except StorageDamaged as error:
        raise error.within(directory) from None
    except OSError as error:
        raise _explain(error, directory) from error


def open_disk(env: Env, directory: str) -> Disk:
    """Raises UsageError: another node has the directory, or it cannot be used. CoordinationError: the disk failed."""
    try:
        return env.disk(directory)
    except BlockingIOError as error:
        text = f"data directory {directory!r} is in use by another node"
        raise UsageError(text, "Stop that one, or give this node a directory of its own") from error
    except OSError as error:
        raise _explain(error, directory) from error


def _explain(error: OSError, directory: str) -> CoordinationError:
    reason = error.strerror or str(error)
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        return UsageError(
            f"data directory {directory!r} is not a directory", "Name a directory, or a path where one can be made"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = "Make it readable and writable for the user that runs this node (mode 0700), or name another directory"
        return UsageError(f"data directory {directory!r} cannot be used: {reason}", hint)
    return CoordinationError(
        f"data directory {directory!r} cannot be used: {reason}", "Check the disk, then start the node again"
    )


def _open_files(env: Env, disk: Disk, directory: str, synced: bool, segment_bytes: int) -> Storage:
    found = read_files(disk)
    check_files(found)
    if found.log and found.log.cut:
        _tell_of_cut(directory, found.segments, found.log)
    # A rename that was seen may so far be in the kernel only: the process that made it may have been killed before it synced. First it,
    # then what it replaces is removed: else the power may take the one and the other.
    disk.sync_directory()
    _remove_leftovers(disk)
    disk.sync_directory()
    work = DiskWork(env)
    files = SegmentLog(disk, env, work, synced=synced, segment_bytes=segment_bytes)
    meta = Meta(disk, found.state or State())
    try:
        journal = _open_journal(found, files, meta)
        if found.state is None:
            # Last of the three: a directory with a meta file has had a journal.
            meta.save(incarnation=env.entropy(INCARNATION_BYTES))
    except BaseException:
        files.abandon()
        raise

    def tell(error: BaseException) -> None:
        # Not at once: a save fails in the middle of an engine's call.
        env.call_soon(journal.failed, error)

    def shut() -> bool:
        if not work.stop():
            return False
        journal.close()
        disk.close()
        return True

    meta.on_error = tell
    snapshots = FileSnapshots(disk, work, directory, found.snapshot[0] if found.snapshot else 0)
    return Storage(meta, journal, snapshots, shut)


def _open_journal(found: Found, files: SegmentLog, meta: Meta) -> Journal:
    if found.log is None:
        files.create()
        return Journal(files, meta)
    files.adopt(found.log, found.segments)
    journal = Journal(files, meta, found.log.entries, found.log.starts)
    if found.snapshot and not entries_kept(found):
        index, term, _ = found.snapshot
        logger.warning("journal_reset index=%d term=%d the journal does not reach the snapshot", index, term)
        # The engine needs an entry to go on from, of which only index and term are ever looked at: it is the oldest of
        # the log, and the oldest is never sent.
        journal.reset([(b"", index, term)])
        files.settle_now()
    return journal


def _tell_of_cut(directory: str, segments: list[Segment], log: Log) -> None:
    assert log.cut is not None
    file = posixpath.join(directory, segments[log.cut.ordinal].name)
    logger.warning(
        "journal_tail_cut file=%s offset=%d last_index=%d the last group was torn or damaged; what was settled before is whole",
        file, log.cut.offset, log.next_index - 1,
    )  # fmt: skip


def _remove_leftovers(disk: Disk) -> None:
    """Files that were being written when the process ended, and snapshots with a newer one beside them."""
    snapshots = _names(disk, snapshot_files.PREFIX)
    for name in snapshots[:-1]:
        disk.remove(name)
    for name in disk.listdir():
        stem = name.removesuffix(".new")
        if stem != name and (stem == meta_file.NAME or stem.startswith((segment_files.PREFIX, snapshot_files.PREFIX))):
            disk.remove(name)


def _names(disk: Disk, prefix: str) -> list[str]:
    """Names of complete files of one kind, in order."""
    return sorted(name for name in disk.listdir() if name.startswith(prefix) and not name.endswith(".new"))


def read_files(disk: Disk) -> Found:
    """Read and verify every file. Raises StorageDamaged, OSError; changes nothing."""
    state = meta_file.decode(disk.read(meta_file.NAME)) if disk.exists(meta_file.NAME) else None
    segments = [Segment(name, disk.read(name)) for name in _names(disk, segment_files.PREFIX)]
    snapshots = _names(disk, snapshot_files.PREFIX)
    snapshot = snapshot_files.read(disk, snapshots[-1]) if snapshots else None
    half_written = any(name.startswith(snapshot_files.PREFIX) and name.endswith(".new") for name in disk.listdir())
    return Found(state, segments, replay(segments) if segments else None, snapshot, half_written)


def check_files(found: Found) -> None:
    """Refuse files of which each is sound and which do not fit together."""
    state, log, snapshot = found.state, found.log, found.snapshot
    first_segment = found.segments[0].name if found.segments else segment_files.segment_name(1)
    if state is None:
        # A node has saved its meta file before it makes a snapshot: this one was to be the beginning of a restored group.
        if snapshot or found.half_written or (log and log.records):
            text = "the file is missing, and with it this node's term and vote, or a restore into this directory was not finished"
            raise StorageDamaged(meta_file.NAME, 0, text)
        return
    if log is None:
        raise StorageDamaged(first_segment, 0, "the journal is missing")
    covered = snapshot[0] if snapshot else 0
    if log.head > covered + 1:
        have = f"the snapshot ends at {covered}" if covered else "there is no snapshot"
        raise StorageDamaged(first_segment, 0, f"the journal begins at index {log.head} and {have}")
    newest = max(snapshot[1] if snapshot else 0, log.entries[-1][2] if log.entries else 0)
    if state.term < newest:
        raise StorageDamaged(
            meta_file.NAME, 0, f"it says term {state.term}, and there are entries of term {newest}: it is an old copy"
        )


def entries_kept(found: Found) -> Sequence[Entry]:
    """The log as far as it counts: all of it if it goes on from the snapshot, whatever its head, else nothing.

    A snapshot is durable before the log that disagrees with it is removed; who died in between left both.
    """
    entries = found.log.entries if found.log else []
    if not entries or found.snapshot is None:
        return entries
    index, term, _ = found.snapshot
    pos = index - entries[0][1]
    return entries if pos < len(entries) and (pos < 0 or entries[pos][2] == term) else ()
