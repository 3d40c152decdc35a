"""What is committed, and handing it to the machine.

Knows: matches of followers, the commit rule, the order of applying. Must not know: how entries travel, what commands mean.
"""

from __future__ import annotations

import logging
from abc import abstractmethod

from cluster.errors import CoordinationError
from cluster.raft.config import APPLY_SLICE_BYTES
from cluster.raft.core import Parts
from cluster.raft.engine import LEADER
from cluster.raft.listing import RESERVED
from cluster.raft.quorum import Quorum

logger = logging.getLogger(__name__)


class Commit(Quorum):
    """Commit index and applying. Both go up only; what is applied is committed, in order, once.

    ``_installing``: index of the snapshot that is being made durable, or 0.
    """

    def __init__(self, parts: Parts) -> None:
        self._applying = False
        self._installing = 0
        self._apply_later = False
        super().__init__(parts)

    def _advance_commit(self) -> None:
        """The leader's rule: an entry of its own term that a majority holds durably is committed, and with it all before it."""
        if self._SyncObj__raftState != LEADER or self._stopped:
            return
        log = self._log
        held = [peer.match for peer in self._counted if peer.voter]
        # The own log counts as far as it is durable, like everybody's.
        held.append(log.durable_index)
        majority = self._majority
        if len(held) < majority:
            return
        held.sort(reverse=True)
        index = held[majority - 1]
        if index > self._SyncObj__raftCommitIndex and log[index - self._first][2] == self._SyncObj__raftCurrentTerm:
            self._SyncObj__raftCommitIndex = index
            self._apply_committed()

    def _learn_commit(self, leader_commit: int, verified: int) -> None:
        """A follower's rule. ``verified``: up to here this very message has shown that the logs agree."""
        index = self._committed_here(leader_commit, verified)
        if index > self._SyncObj__raftCommitIndex:
            self._SyncObj__raftCommitIndex = index
            self._apply_committed()

    def _apply_committed(self) -> None:
        """Apply what is committed, a slice at a time, so that a leader with a long log to apply is still heard.

        The machine may propose meanwhile; what that commits is applied by the call that is under way.
        """
        if self._applying:
            return
        self._applying = True
        size = 0
        try:
            while self._SyncObj__raftLastApplied < self._SyncObj__raftCommitIndex and not self._stopped:
                if size >= APPLY_SLICE_BYTES:
                    if not self._apply_later:
                        self._apply_later = True
                        self._env.call_soon(self._guard, self._apply_rest)
                    break
                index = self._SyncObj__raftLastApplied + 1
                command, _, term = self._log[index - self._first]
                # The engine's own entries are one byte, or none where a snapshot took an entry's place.
                if len(command) > 1:
                    if command[0] != RESERVED:
                        self._hand_over(index, term, command)
                        size += len(command)
                    else:
                        self._members_applied(index)
                self._SyncObj__raftLastApplied = index
        finally:
            self._applying = False
        self._after_applying()

    def _apply_rest(self) -> None:
        self._apply_later = False
        self._apply_committed()

    @abstractmethod
    def _committed_here(self, leader_commit: int, verified: int) -> int:
        """How far this log may be taken as committed. (SnapCommit)"""

    @abstractmethod
    def _hand_over(self, index: int, term: int, command: bytes) -> None:
        """Give one command to the machine. (Poison)"""

    @abstractmethod
    def _after_applying(self) -> None:
        """Something was applied. (compaction)"""


class SnapCommit(Commit):
    """The commit index is raised only over what was compared with the leader's log.

    Hazard s01: the released library raises it to its own last index when a piece of a snapshot comes, over a tail that nobody else has; an
    old leader then applies its own uncommitted commands and reports success.
    """

    def _committed_here(self, leader_commit: int, verified: int) -> int:
        return leader_commit if leader_commit < verified else verified


class Poison(Commit):
    """A command that makes the machine fail, or that it does not know, stops the node, before anything else is applied.

    Hazard s16, s17: the released library applies it again at every tick, on every node, for ever, or skips it without counting.
    """

    def _hand_over(self, index: int, term: int, command: bytes) -> None:
        try:
            self._machine.apply(index, term, command)
        except CoordinationError as error:
            self._stop(str(error))
        except Exception as error:
            logger.exception("raft.apply_failed node=%s index=%d term=%d", self._config.node_id, index, term)
            self._stop(f"the command at index {index} cannot be applied: {type(error).__name__}: {error}")
