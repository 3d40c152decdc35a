"""Keeping the log short: a snapshot of the state, then the head of the log goes.

Knows: how long the log is, what is saved. Must not know: what the state means, who needs a snapshot.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from cluster.raft import snapshot
from cluster.raft.commit import Commit
from cluster.raft.core import Parts

logger = logging.getLogger(__name__)

STAGGER: Final = 0.5
SNAPSHOTS_OF_LOG: Final = 2
"""The log grows by at least this many times the last snapshot before the next is taken: snapshots stay a small part of the work."""


class Compaction(Commit):
    """By bytes: when the log has grown enough a snapshot is saved, and all but a tail of what it covers is deleted once it is durable.

    The tail spares followers that are a little late a whole snapshot.
    """

    def __init__(self, parts: Parts) -> None:
        self._saving = False
        config = parts.config
        # All logs grow alike, and taking a snapshot holds a node up: a majority must not be held up in the same moment.
        rank = config.members.index(config.node_id) / len(config.members)
        self._compact_at = int(config.compact_bytes * (1.0 + rank * STAGGER))
        self._snapshot_bytes = 0
        super().__init__(parts)

    def _after_applying(self) -> None:
        if self._log.size_bytes < self._compact_at or self._saving or self._installing or self._stopped:
            return
        # A node that has not joined yet does not know the members: it could not say them in a snapshot.
        if self._is_member():
            self._compact()

    def _compact(self) -> None:
        index = self._SyncObj__raftLastApplied
        if index <= self._storage.snapshots.index:
            return
        term = self._log[index - self._first][2]
        self._saving = True
        frozen, members = self._machine.freeze(), self._lists[0].names
        made: list[bytes] = []

        def encode() -> None:
            made.append(snapshot.encode(index, term, members, frozen()))

        self._env.on_work_thread(encode, partial(self._guard, self._encoded, index, term, made))

    def _encoded(self, index: int, term: int, made: list[bytes], error: BaseException | None) -> None:
        if error is not None:
            self._saved(index, error)
            return
        self._snapshot_bytes = len(made[0])
        self._storage.snapshots.save(index, term, made[0], partial(self._guard, self._saved, index))

    def _saved(self, index: int, error: BaseException | None) -> None:
        self._saving = False
        if error is not None:
            # The log stays whole; it is tried again when it has grown by as much once more.
            logger.error("raft.snapshot_failed node=%s index=%d error=%s", self._config.node_id, index, error)
        elif not self._installing and index >= self._first:
            self._drop_head(index)
        growth = max(self._config.compact_bytes - self._config.tail_bytes, SNAPSHOTS_OF_LOG * self._snapshot_bytes)
        self._compact_at = self._log.size_bytes + growth

    def _held_back(self) -> int:
        """Entries after this index are still wanted by someone. See ``SnapSend``."""
        return self._SyncObj__raftLastApplied

    def _drop_head(self, index: int) -> None:
        """Delete what the snapshot at ``index`` covers, but for the tail. The entry before what is kept stays, for comparing."""
        entries = self._log[:]
        kept = 0
        pos = len(entries) - 1
        while pos > 0 and kept < self._config.tail_bytes:
            kept += len(entries[pos][0])
            pos -= 1
        pos = min(pos, index - self._first, self._held_back() - self._first)
        if pos > 0:
            self._log.deleteEntriesTo(pos)
            self._first = self._log[0][1]
            logger.info("raft.compacted node=%s snapshot=%d first=%d", self._config.node_id, index, self._first)
