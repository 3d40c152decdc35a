"""What a node makes of its disk when it starts.

Knows: how snapshot and log fit together. Must not know: files.
"""

from __future__ import annotations

import logging

from cluster.raft import snapshot
from cluster.raft.listing import Members
from cluster.raft.members import Configuration
from cluster.storage import StorageDamaged

logger = logging.getLogger(__name__)


class Startup(Configuration):
    """The state is the snapshot's; the log is kept as far as it goes on from there.

    Hazard s06: the released library clears the whole log when the snapshot is newer than the log's head: acknowledged entries are gone if
    the process died between writing the one and shortening the other. Hazard s12: it ignores a snapshot that it cannot read.
    """

    def _begin_from_disk(self) -> int:
        """Raises StorageDamaged: the node must not start."""
        newest = self._storage.snapshots.latest()
        if newest is None:
            if len(self._log) and self._log[0][1] != 1:
                raise StorageDamaged(
                    "journal", 0, f"it begins at index {self._log[0][1]}, and there is no snapshot of what was before"
                )
            return 1
        index, term, data = newest
        try:
            content = snapshot.decode(data)
            if (content.index, content.term) != (index, term):
                raise ValueError(f"it says it is of index {content.index}")
            self._machine.restore(content.state)
        except ValueError as error:
            raise StorageDamaged(f"snapshot of index {index}", 0, str(error)) from None
        self._snapshot_says = Members(index, tuple(content.members))
        self._join_log(index, term)
        return index

    def _join_log(self, index: int, term: int) -> None:
        log = self._log
        first, last = (log[0][1], log[-1][1]) if len(log) else (0, 0)
        if first <= index <= last and log[index - first][2] == term:
            return
        if first == index + 1:
            log.reset([(b"", index, term), *log[:]])
            return
        if first > index:
            raise StorageDamaged("journal", 0, f"it begins at index {first}, and the snapshot ends at {index}")
        logger.warning(
            "raft.log_replaced first=%d last=%d snapshot=%d the log does not reach the snapshot", first, last, index
        )
        log.reset([(b"", index, term)])
