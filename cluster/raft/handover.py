"""Giving leadership to another member on request.

Knows: who can take over, what must be still meanwhile. Must not know: why it is asked for.
"""

from __future__ import annotations

import logging

from cluster.raft.core import Parts
from cluster.raft.elections import Elections
from cluster.raft.engine import SyncObj
from cluster.raft.peer import Peer

logger = logging.getLogger(__name__)


class Handover(Elections):
    """Proposals wait, the target catches up, then it is asked to stand at once. Bounded by one election timeout."""

    def __init__(self, parts: Parts) -> None:
        self._target: Peer | None = None
        self._asked = False
        super().__init__(parts)

    def transfer(self, to: str | None) -> bool:
        """Begin to hand leadership to ``to``, or to the member that is furthest if None.

        For at most the longest election timeout nothing is proposed. If it fails this node goes on leading, but ``has_fresh_majority`` is
        false for the rest of this reign once the target was asked.

        Returns False, changing nothing, if this node does not lead, a handover is under way, or the target is not a connected member.
        """
        if not self.is_leader or self._target is not None:
            return False
        able = [peer for peer in self._counted if peer.connected and peer.voter and to in (None, peer.id)]
        if not able:
            return False
        self._target, self._asked = max(able, key=lambda peer: peer.match), False
        logger.info("raft.handover node=%s to=%s term=%d", self._config.node_id, self._target.id, self.term)
        self._env.call_later(self._config.election_max_s, self._guard, self._give_up_handover, self.term)
        self._after_ack(self._target)
        return True

    def _proposals_blocked(self) -> bool:
        return self._target is not None

    def _after_ack(self, peer: Peer) -> None:
        if peer is self._target and not self._asked and peer.match == self._log[-1][1]:
            self._asked = True
            # From here on votes for the target are given at any time, stickiness notwithstanding.
            self._lease_void = True
            self._SyncObj__raftMatchIndex[peer.node] = peer.match
            self._stock(SyncObj.transferLeadership, peer.node, None)

    def _give_up_handover(self, term: int) -> None:
        if self._target is not None and self.term == term:
            if self.is_leader:
                logger.warning("raft.handover_failed node=%s to=%s", self._config.node_id, self._target.id)
            self._target = None

    def _begin_reign(self) -> None:
        self._target = None
        super()._begin_reign()
