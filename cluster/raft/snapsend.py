"""Sending a snapshot to a follower that is too far behind.

Knows: the newest snapshot, what each follower has of it. Must not know: how it is installed.
"""

from __future__ import annotations

import logging
import zlib
from functools import partial
from typing import Any, Final

from cluster.raft import messages as m
from cluster.raft.compaction import Compaction
from cluster.raft.config import PIECE_BYTES, PIECES_IN_FLIGHT_MAX
from cluster.raft.core import Parts
from cluster.raft.engine import LEADER
from cluster.raft.leading import Leading
from cluster.raft.peer import Outgoing, Peer, Transfer
from cluster.storage import StorageDamaged

logger = logging.getLogger(__name__)


HOLD_FACTOR: Final = 4


class SnapSend(Leading, Compaction):
    """First the follower is asked how much of this snapshot it has, then it gets the rest, a few pieces ahead of its answers.

    A snapshot is known by its index, term, size and checksum, so a transfer goes on after a broken connection, also under another leader.
    """

    def __init__(self, parts: Parts) -> None:
        self._outgoing: Outgoing | None = None
        self._loading = False
        super().__init__(parts)

    def _begin_transfer(self, peer: Peer) -> None:
        """Find the newest snapshot and offer it. While it is read nothing is sent to this follower; at the next beat it is tried again."""
        peer.open = False
        peer.in_flight.clear()
        outgoing = self._outgoing
        if outgoing is None or outgoing.index < self._storage.snapshots.index:
            # An older transfer ends here: ``next`` has gone back before it, so its end would not be believed any more.
            peer.transfer = None
            self._load_newest()
            return
        peer.next = outgoing.index + 1
        peer.transfer = Transfer(outgoing)
        logger.info(
            "raft.snapshot_send node=%s to=%s index=%d bytes=%d",
            self._config.node_id,
            peer.id,
            outgoing.index,
            len(outgoing.data),
        )
        self._ask(peer)

    def _load_newest(self) -> None:
        """Read and verify the newest snapshot, beside the loop: it may be large."""
        if self._loading:
            return
        self._loading = True
        read: list[Outgoing | None] = []

        def work() -> None:
            newest = self._storage.snapshots.latest()
            read.append(None if newest is None else Outgoing(newest[0], newest[1], zlib.crc32(newest[2]), newest[2]))

        self._env.on_work_thread(work, partial(self._guard, self._loaded, read))

    def _loaded(self, read: list[Outgoing | None], error: BaseException | None) -> None:
        self._loading = False
        if isinstance(error, StorageDamaged):
            self._stop(str(error))
        elif error is not None:
            # Most likely a newer one took its place while it was read.
            logger.warning("raft.snapshot_unread node=%s error=%s", self._config.node_id, error)
        elif read[0] is None:
            self._stop(f"the log begins at index {self._first} and there is no snapshot of what was before")
        elif self._SyncObj__raftState == LEADER:
            self._outgoing = read[0]
            for peer in self._others:
                if peer.connected and not peer.open and peer.transfer is None and peer.next <= self._first:
                    self._begin_transfer(peer)

    def _ask(self, peer: Peer) -> None:
        self._send_piece(peer, b"")

    def _send_piece(self, peer: Peer, data: bytes) -> None:
        transfer = peer.transfer
        assert transfer is not None
        snapshot = transfer.snapshot
        # No two messages to one follower have the same sending time, so that the answer to the last one is known as such.
        self._stamp = peer.sent_at = max(self._sending_time(), peer.sent_at + 1e-6)
        message = m.encode(
            m.PIECE,
            self._SyncObj__raftCurrentTerm,
            peer.sent_at,
            self._SyncObj__raftCommitIndex,
            snapshot.index,
            snapshot.term,
            len(snapshot.data),
            snapshot.crc,
            transfer.sent,
            data,
        )
        transfer.sent += len(data)
        self._net.send(peer.id, message)

    def _on_piece_ack(self, peer: Peer, message: list[Any]) -> None:
        _, _, sent, index, crc, have, voter = message
        if self._SyncObj__raftState != LEADER:
            return
        peer.voter = voter
        if sent > peer.answered:
            peer.answered = sent
        transfer = peer.transfer
        if transfer is None or (transfer.snapshot.index, transfer.snapshot.crc) != (index, crc):
            return
        size = len(transfer.snapshot.data)
        transfer.had = min(max(have, 0), size)
        if sent >= peer.sent_at:
            # Everything that was sent has been seen: what it does not have now was not taken.
            transfer.sent = transfer.had
        while transfer.sent < size and transfer.sent - transfer.had < PIECES_IN_FLIGHT_MAX * PIECE_BYTES:
            self._send_piece(peer, transfer.snapshot.data[transfer.sent : transfer.sent + PIECE_BYTES])

    def _held_back(self) -> int:
        """What comes after a snapshot that is under way is kept for its receiver, within limits: else it would need the next one."""
        wanted = super()._held_back()
        if self._log.size_bytes < HOLD_FACTOR * self._config.compact_bytes:
            for peer in self._others:
                if peer.transfer is not None and peer.transfer.snapshot.index < wanted:
                    wanted = peer.transfer.snapshot.index
        return wanted

    def _beat(self, now: float, late: bool) -> None:
        super()._beat(now, late)
        if self._outgoing is not None and not self._loading and all(peer.transfer is None for peer in self._others):
            self._outgoing = None
