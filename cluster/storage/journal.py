"""The raft log as a list, in memory and on disk.

Knows: the list operations that the engine calls, and the record that each becomes. Must not know: segment files, the
engine.

Names in mixedCase are the engine's: it takes any object with these methods for its journal.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol, overload

from cluster.storage import record as r
from cluster.storage.meta import Meta
from cluster.storage.record import Entry

logger = logging.getLogger(__name__)


class RecordLog(Protocol):
    """Where the journal's records go. See ``segments.SegmentLog``."""

    end: int
    settled: int
    next_index: int
    on_error: Callable[[BaseException], None]

    def append(self, kind: int, index: int, term: int, data: bytes) -> int: ...
    def flush(self) -> None: ...
    def sync(self, done: Callable[[], None]) -> None: ...
    def seal(self) -> None: ...
    def drop_before(self, position: int) -> None: ...
    def close(self) -> None: ...


class MemoryLog:
    """A ``RecordLog`` that keeps nothing: for nodes without a data directory. Everything is settled at once."""

    def __init__(self) -> None:
        self.end = 0
        self.settled = 1
        self.next_index = 0
        self.on_error: Callable[[BaseException], None] = lambda error: None

    def append(self, kind: int, index: int, term: int, data: bytes) -> int:
        return 0

    def flush(self) -> None:
        return

    def sync(self, done: Callable[[], None]) -> None:
        done()

    def seal(self) -> None:
        return

    def drop_before(self, position: int) -> None:
        return

    def close(self) -> None:
        return


def _unheard(error: BaseException) -> None:
    logger.critical("journal_error_unheard error=%s", error)


class Journal:
    """The live entries ``(command, index, term)``, contiguous by index, and their copy on disk.

    Positions (``pos``) count from the first live entry, as the engine counts them. Nothing that was appended or deleted
    is durable before a ``sync`` that began afterwards is done. After an I/O error the list in memory goes on as if
    nothing had happened, but nothing new ever becomes durable, no ``sync`` is answered, and ``flush`` raises: the node
    must stop.

    Attributes:
        on_error: called once, on the loop, with the error that made this journal (or the meta file) unusable.
    """

    def __init__(self, log: RecordLog, meta: Meta, entries: Sequence[Entry] = (), starts: Sequence[int] = ()) -> None:
        self._log = log
        self._meta = meta
        self._entries = list(entries)
        self._starts = list(starts)
        self._size = sum(map(_size, self._entries))
        self._reported = False
        self.on_error: Callable[[BaseException], None] = _unheard
        log.on_error = self.failed
        if self._starts:
            # What an earlier life had no time to remove.
            log.drop_before(self._starts[0])

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, pos: int) -> Entry: ...
    @overload
    def __getitem__(self, pos: slice) -> list[Entry]: ...
    def __getitem__(self, pos: int | slice) -> Entry | list[Entry]:
        return self._entries[pos]

    @property
    def size_bytes(self) -> int:
        """What the live entries take on disk."""
        return self._size

    @property
    def durable_index(self) -> int:
        """Up to this index every live entry is durable. Below the first live entry: none is. 0: the log is empty."""
        if not self._entries:
            return 0
        return self._entries[0][1] - 1 + bisect_left(self._starts, self._log.settled)

    def add(self, command: bytes, index: int, term: int) -> None:
        """Append one entry. Raises ValueError, changing nothing, if ``index`` does not follow what is or was before it."""
        if self._log.next_index not in (0, index):
            raise ValueError(f"entry {index} cannot follow entry {self._log.next_index - 1}")
        self._starts.append(self._log.append(r.ENTRY, index, term, command))
        self._entries.append((command, index, term))
        self._log.next_index = index + 1
        self._size += r.RECORD_BYTES + len(command)

    def deleteEntriesFrom(self, pos: int) -> None:
        """Delete the entry at ``pos`` and all after it: a conflict with the leader's log."""
        gone = self._entries[pos:]
        if not gone:
            return
        self._log.append(r.CUT, gone[0][1], 0, b"")
        self._log.next_index = gone[0][1]
        self._forget(slice(pos, None), gone)

    def deleteEntriesTo(self, pos: int) -> None:
        """Delete the first ``pos`` entries. Rewrites nothing: whole segments go once the new head is settled.

        Only call it for entries that a finished ``snapshots.save`` covers: a head beyond the snapshot is damage at the
        next start.
        """
        gone = self._entries[:pos]
        if not gone:
            return
        record = self._log.append(r.HEAD, gone[-1][1] + 1, 0, b"")
        self._forget(slice(pos), gone)
        self._log.drop_before(self._starts[0] if self._starts else record)

    def reset(self, entries: Sequence[Entry]) -> None:
        """Replace the whole log by ``entries``, contiguous by index. After a crash there is the old one or the new one."""
        entries = [(bytes(command), index, term) for command, index, term in entries]
        for before, after in pairwise(entries):
            if after[1] != before[1] + 1:
                raise ValueError(f"entry {after[1]} cannot follow entry {before[1]}")
        first = entries[0][1] if entries else 0
        record = self._log.append(r.RESET, first, len(entries), r.encode_entries(entries))
        self._entries[:] = entries
        self._starts[:] = [record] * len(entries)
        self._size = sum(map(_size, entries))
        self._log.next_index = entries[-1][1] + 1 if entries else 0
        self._log.drop_before(record)

    def clear(self) -> None:
        """Empty the log; any index may come next. ``reset`` is better: a crash before the next ``add`` leaves an empty log."""
        self.reset(())

    def _forget(self, where: slice, gone: Sequence[Entry]) -> None:
        del self._entries[where], self._starts[where]
        self._size -= sum(map(_size, gone))

    # Durability.

    def flush(self) -> None:
        """With durability "process": everything appended is with the kernel when this returns (it survives kill -9 from
        then on), by one write. With "fsync" nothing may be acknowledged before ``sync`` is done, and this does nothing.

        Raises:
            OSError: it could not be written; ``on_error`` hears of it too. Nothing may be acknowledged.
        """
        self._log.flush()

    def sync(self, done: Callable[[], None]) -> None:
        """Call ``done``, on the loop, when everything appended before this call is durable.

        At once, inside this call, where nothing has to be waited for ("process", "memory", or all is durable already).
        Callers that come while a sync runs share the next one. After an error or a close ``done`` is never called.
        """
        self._log.sync(done)

    def onOneSecondTimer(self) -> None:
        """Settle what nobody asked to be settled, and prove it, so that only the last moments can ever be taken for torn."""
        self._log.seal()
        self._log.sync(_nothing)

    def _destroy(self) -> None:
        """The engine's farewell: what is buffered is settled when the storage is closed."""

    def close(self) -> None:
        self._log.close()

    def failed(self, error: BaseException) -> None:
        """Report, once, that something of this storage became unusable."""
        if not self._reported:
            self._reported = True
            self.on_error(error)

    # Term, vote and commit index.

    def setCurrentTerm(self, term: int, voted_for: str | None) -> None:
        """Durable when it returns. Raises OSError; then neither may be acted upon."""
        self._meta.save(term=term, voted_for=voted_for)

    def getCurrentTerm(self) -> int:
        return self._meta.term

    def getVotedForNodeId(self) -> str | None:
        return self._meta.voted_for

    def setRaftCommitIndex(self, index: int) -> None:
        """Not kept: a commit index that is ahead of a log which lost its tail would commit what no majority has."""

    def getRaftCommitIndex(self) -> int:
        """The first live index, which a snapshot or the log's own beginning covers; the leader tells the rest."""
        return self._entries[0][1] if self._entries else 1


def _size(entry: Entry) -> int:
    return r.RECORD_BYTES + len(entry[0])


def _nothing() -> None:
    return
