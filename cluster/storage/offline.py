"""Data directories of nodes that do not run: begin one with a state, read one without changing it.

Knows: which files make a directory whole, and in which order they are written. Must not know: what a state means, groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cluster.errors import UsageError
from cluster.ports import Disk, Env
from cluster.storage import meta as meta_file
from cluster.storage import snapshots as snapshot_files
from cluster.storage.journal import Journal
from cluster.storage.meta import Meta, State
from cluster.storage.record import Entry
from cluster.storage.segments import SEGMENT_BYTES, SegmentLog
from cluster.storage.snapshots import Snapshot
from cluster.storage.storage import check_files, entries_kept, guarded, open_disk, read_files
from cluster.storage.work import DiskWork


class Remains(NamedTuple):
    """What a node that does not run has left behind. ``entries``: what a start would keep of the log."""

    state: State
    entries: Sequence[Entry]
    snapshot: Snapshot | None


def read_directory(env: Env, directory: str) -> Remains:
    """Read and verify everything in a data directory, under its lock; nothing is changed.

    Raises:
        UsageError: a node runs on it, it cannot be used, or no node has ever used it.
        StorageDamaged: what is in it is not what was written.
        CoordinationError: the disk failed.
    """
    disk = open_disk(env, directory)
    try:
        with guarded(directory):
            found = read_files(disk)
            check_files(found)
        if found.state is None or not found.state.joined:
            text = f"data directory {directory!r} is of no node that has belonged to a raft group"
            raise UsageError(text, "Name the directory of a node that has")
        return Remains(found.state, entries_kept(found), found.snapshot)
    finally:
        disk.close()


def begin_directory(env: Env, directory: str, state: State, snapshot: Snapshot) -> None:
    """Fill an empty data directory: after a crash it is whole, or a node refuses to start with it.

    Raises:
        UsageError: it is not empty, a node runs on it, or it cannot be used. Nothing was changed.
        CoordinationError: the disk failed or is full; what was written is to be removed.
    """
    disk = open_disk(env, directory)
    try:
        with guarded(directory):
            if disk.listdir():
                text = f"data directory {directory!r} is not empty"
                raise UsageError(text, "Name a directory that is empty or does not exist; what is in this one may still be needed")
            _fill(env, disk, state, snapshot)
    finally:
        disk.close()


def _fill(env: Env, disk: Disk, state: State, snapshot: Snapshot) -> None:
    index, term, _ = snapshot
    for _ in snapshot_files.slices(disk, snapshot):
        pass
    files = SegmentLog(disk, env, DiskWork(env), synced=True, segment_bytes=SEGMENT_BYTES)
    files.create()
    try:
        # The log goes on from this entry, of which only index and term are ever looked at.
        Journal(files, Meta(None, state)).reset([(b"", index, term)])
        files.settle_now()
        files.seal()
        files.settle_now()
    finally:
        files.abandon()
    # Last: without it the rest is damage, and no node takes the directory for an empty one.
    meta_file.write(disk, meta_file.encode(state))
