"""The follower's side of the log: compare, append, make durable, acknowledge.

Knows: the leader of the present term, what an append says. Must not know: elections, followers of its own.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

from cluster.raft import messages as m
from cluster.raft.commit import Commit
from cluster.raft.core import Parts
from cluster.raft.engine import FOLLOWER, LEADER
from cluster.raft.listing import names_members
from cluster.raft.peer import Peer

logger = logging.getLogger(__name__)


class Following(Commit):
    """Takes entries from the leader. Acknowledged means: up to this index the log is the leader's, durably."""

    def __init__(self, parts: Parts) -> None:
        self._heard_at = parts.env.clock()
        self._timeout_s = parts.config.election_max_s
        super().__init__(parts)

    def _on_append(self, peer: Peer, message: list[Any]) -> None:
        _, term, sent, prev, prev_term, commit, entries = message
        if not self._heed(peer, term, sent):
            return
        log = self._log
        _, last, last_term = log[-1]
        if prev == last and prev_term == last_term:
            for entry_term, command in entries:
                last += 1
                log.add(command, last, entry_term)
                if names_members(command):
                    self._took_up(last, command)
            agreed: int | None = last
        else:
            agreed = self._reconcile(prev, prev_term, entries)
        if agreed is None:
            self._answer(peer, sent, self._resume_after(term, prev), False)
            self._learn_commit(commit, self._SyncObj__raftCommitIndex)
            return
        if entries:
            self._acknowledge(peer, term, sent, agreed)
        else:
            # A sign of life is answered at once, whatever the disk does; of the log it acknowledges what is durable.
            self._answer(peer, sent, min(agreed, self._settled_through()), True)
        self._learn_commit(commit, agreed)
        self._progressed()

    def _heed(self, peer: Peer, term: int, sent: float) -> bool:
        """Whether this is the leader. Hearing it postpones the next election."""
        if term != self._SyncObj__raftCurrentTerm or self._SyncObj__raftLeader is not peer.node:
            if term < self._SyncObj__raftCurrentTerm:
                self._on_old_leader(peer, sent)
                return False
            self._follow(peer, term)
            if self._stopped:
                return False
        now = self._clock()
        self._heard_at = now
        self._SyncObj__raftElectionDeadline = now + self._timeout_s
        return True

    def _follow(self, peer: Peer, term: int) -> None:
        if term > self._SyncObj__raftCurrentTerm:
            self._SyncObj__setCurrentTerm(term, None)
        elif self._SyncObj__raftState == LEADER:
            self._stop(f"{peer.id} leads in term {term} too: two leaders of one term")
            return
        logger.info("raft.follow node=%s leader=%s term=%d", self._config.node_id, peer.id, term)
        self._SyncObj__transferInProgress = False
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = peer.node
        self._campaign_over()
        self._settle()

    def _acknowledge(self, peer: Peer, term: int, sent: float, index: int) -> None:
        """Answer when everything up to ``index`` is durable."""
        log = self._log
        try:
            log.flush()
        except OSError as error:
            self._stop(f"the journal of this node cannot be written: {error}")
            return
        if log.durable_index >= index:
            self._answer(peer, sent, index, True)
        else:
            log.sync(partial(self._guard, self._settled, peer, peer.connected_at, term, sent, index))

    def _settled(self, peer: Peer, connected_at: float, term: int, sent: float, index: int) -> None:
        # In one term the leader's log only grows, so what was taken from it still stands if both are the same.
        if (
            term == self._SyncObj__raftCurrentTerm
            and self._SyncObj__raftLeader is peer.node
            and connected_at == peer.connected_at
            and not self._stopped
        ):
            self._answer(peer, sent, index, True)
            self._progressed()

    def _answer(self, peer: Peer, sent: float, index: int, agreed: bool) -> None:
        self._net.send_encoded(
            peer.id, m.ack_frame(self._SyncObj__raftCurrentTerm, sent, index, agreed, self._is_member())
        )

    def _settled_through(self) -> int:
        """Up to here the log is durable, as entries or within a snapshot."""
        durable: int = self._log.durable_index
        return max(durable, self._storage.snapshots.index)

    def _on_old_leader(self, peer: Peer, sent: float) -> None:
        """An append of an earlier term came; the released library says nothing. See ``StepDown``."""

    def _campaign_over(self) -> None:
        """There is a leader: an election that this node prepared is void. See ``PreVote``."""

    # Decisions and duties of pieces.

    @abstractmethod
    def _reconcile(self, prev: int, prev_term: int, entries: Sequence[Any]) -> int | None:
        """Fit entries in that do not simply go on from the log's end.

        Returns the index up to which the logs agree afterwards, or None if they do not agree at ``prev``. (Trim)
        """

    @abstractmethod
    def _resume_after(self, term: int, prev: int) -> int:
        """After which index the leader of ``term`` shall begin anew, when the logs do not agree at ``prev``. (Backtrack)"""

    @abstractmethod
    def _progressed(self) -> None:
        """Something was appended, committed or settled. (membership)"""


class Trim(Following):
    """Only entries that conflict are cut off (Raft, section 5.3, receiver's step 3); acknowledged is ``prev + len(entries)``.

    Hazards s02, s10: the released library cuts everything after ``prev``, entries that agree and were acknowledged too; a late append makes
    committed entries vanish from the only follower that has them.
    """

    def _reconcile(self, prev: int, prev_term: int, entries: Sequence[Any]) -> int | None:
        log, first = self._log, self._first
        through = prev + len(entries)
        if prev < first:
            # The first entry and all before it are committed: they agree with every leader's.
            if through <= first:
                return through
            entries = entries[first - prev :]
            prev, prev_term = first, log[0][2]
        last = log[-1][1]
        if prev > last or log[prev - first][2] != prev_term:
            return None
        index = prev
        for at, (term, _) in enumerate(entries):
            index += 1
            if index <= last and log[index - first][2] == term:
                continue
            if index <= last:
                self._cut(index)
            for offset, (new_term, command) in enumerate(entries[at:]):
                log.add(command, index + offset, new_term)
                if names_members(command):
                    self._took_up(index + offset, command)
            break
        return through

    def _cut(self, index: int) -> None:
        """Take back the entry at ``index`` and all after it: another leader's was chosen."""
        if index <= self._SyncObj__raftCommitIndex:
            self._stop(f"the leader's log contradicts the committed entry at index {index}")
            raise AssertionError(f"committed entry {index} contradicted")
        logger.info("raft.cut node=%s from=%d last=%d", self._config.node_id, index, self._log[-1][1])
        self._log.deleteEntriesFrom(index - self._first)
        self._undo_members(index)
