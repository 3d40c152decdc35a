"""Taking a snapshot from the leader.

Knows: what has arrived, in which order state, disk and log change. Must not know: how it was made.
"""

from __future__ import annotations

import logging
import zlib
from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any

from cluster.raft import messages as m
from cluster.raft import snapshot
from cluster.raft.config import SNAPSHOT_MAX_BYTES
from cluster.raft.core import Parts
from cluster.raft.listing import Members
from cluster.raft.membership import Membership
from cluster.raft.peer import Peer

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which snapshot a piece belongs to."""

    index: int
    term: int
    size: int
    crc: int


class SnapInstall(Membership):
    """Whole and verified, a snapshot becomes the state, then durable, then the log is fitted to it, and only then it is acknowledged.

    A crash before it is durable leaves the old snapshot and the old log, which fit together. While it is being written entries are not
    taken; signs of life are answered.
    """

    def __init__(self, parts: Parts) -> None:
        self._incoming: Identity | None = None
        self._arrived = bytearray()
        super().__init__(parts)

    def _on_append(self, peer: Peer, message: list[Any]) -> None:
        if self._installing:
            _, term, sent, *_ = message
            if self._heed(peer, term, sent):
                self._answer(peer, sent, 0, True)
            return
        super()._on_append(peer, message)

    def _may_stand(self) -> bool:
        return not self._installing and super()._may_stand()

    def _on_piece(self, peer: Peer, message: list[Any]) -> None:
        _, term, sent, commit, index, index_term, size, crc, offset, data = message
        if not self._heed(peer, term, sent):
            return
        # A piece shows nothing of this log: what is committed here is what was.
        self._learn_commit(commit, self._SyncObj__raftCommitIndex)
        if self._is_superfluous(index):
            self._answer(peer, sent, min(index, self._settled_through()), True)
            return
        if self._installing or size > SNAPSHOT_MAX_BYTES:
            self._answer(peer, sent, 0, True)
            return
        identity = Identity(index, index_term, size, crc)
        self._collect(identity, offset, data)
        if len(self._arrived) < size:
            answer = m.encode(m.PIECE_ACK, term, sent, index, crc, len(self._arrived), self._is_member())
            self._net.send(peer.id, answer)
            return
        arrived, self._arrived, self._incoming = bytes(self._arrived), bytearray(), None
        self._install(peer, sent, identity, arrived)

    def _install(self, peer: Peer, sent: float, identity: Identity, data: bytes) -> None:
        index = identity.index
        if not self._load(identity, data):
            return
        self._SyncObj__raftLastApplied = self._SyncObj__raftCommitIndex = index
        self._installing = index
        logger.info(
            "raft.snapshot_installed node=%s index=%d term=%d bytes=%d",
            self._config.node_id,
            index,
            identity.term,
            identity.size,
        )
        done = partial(self._guard, self._kept, identity, peer, peer.connected_at, self.term, sent)
        self._storage.snapshots.save(index, identity.term, data, done)

    def _kept(
        self,
        identity: Identity,
        peer: Peer,
        connected_at: float,
        term: int,
        sent: float,
        error: BaseException | None,
    ) -> None:
        """The snapshot is durable: fit the log, make that durable, acknowledge."""
        self._installing = 0
        if error is not None:
            self._stop(f"the snapshot of index {identity.index} cannot be written: {error}")
            return
        self._fit_log(identity.index, identity.term)
        self._first = self._log[0][1]
        self._members_replaced()
        if connected_at == peer.connected_at and term == self.term and self._SyncObj__raftLeader is peer.node:
            self._acknowledge(peer, term, sent, identity.index)
        self._progressed()
        self._settle()

    # Decisions of pieces.

    @abstractmethod
    def _collect(self, identity: Identity, offset: int, data: bytes) -> None:
        """Add a piece to what has arrived. (SnapSeq)"""

    @abstractmethod
    def _is_superfluous(self, index: int) -> bool:
        """Whether the snapshot of this index brings nothing. (SnapKeep)"""

    @abstractmethod
    def _fit_log(self, index: int, term: int) -> None:
        """Make the log one that goes on from the snapshot. (SnapKeep)"""

    @abstractmethod
    def _load(self, identity: Identity, data: bytes) -> bool:
        """Make the snapshot the machine's state. False: it was not; nothing is acknowledged. (FailStop)"""


class SnapSeq(SnapInstall):
    """A piece is taken only where it belongs: same snapshot, next offset.

    Hazard s05: pieces of the released library have no offset, and a transfer goes on in the middle after a quick reconnect.
    """

    def _collect(self, identity: Identity, offset: int, data: bytes) -> None:
        if self._incoming != identity:
            self._incoming, self._arrived = identity, bytearray()
        if offset == len(self._arrived) and offset + len(data) <= identity.size:
            self._arrived += data


class SnapKeep(SnapInstall):
    """A snapshot never moves this node backwards, and keeps what agrees after it.

    Hazard s04: the released library clears the whole log for every snapshot, acknowledged entries after it included.
    """

    def _is_superfluous(self, index: int) -> bool:
        return index <= self._SyncObj__raftCommitIndex

    def _fit_log(self, index: int, term: int) -> None:
        log, first = self._log, self._first
        if first <= index <= log[-1][1] and log[index - first][2] == term:
            log.deleteEntriesTo(index - first)
        else:
            log.reset([(b"", index, term)])


class FailStop(SnapInstall):
    """A snapshot that cannot be loaded stops the node; it is never acknowledged, and never skipped at the start.

    Hazards s05, s12: the released library logs the error, acknowledges its own last index, or goes on with an empty state, votes and leads.
    """

    def _load(self, identity: Identity, data: bytes) -> bool:
        if zlib.crc32(data) != identity.crc:
            logger.error(
                "raft.snapshot_damaged node=%s index=%d it is fetched again", self._config.node_id, identity.index
            )
            return False
        try:
            content = snapshot.decode(data)
            self._machine.restore(content.state)
        except ValueError as error:
            self._stop(f"the leader's snapshot of index {identity.index} cannot be loaded: {error}")
            return False
        self._snapshot_says = Members(content.index, tuple(content.members))
        return True
