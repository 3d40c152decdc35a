"""Which member is to lead where several could: the heaviest.

Knows: the members' weights, who has caught up, how often leadership may move for this reason. Must not know: how it is handed over, who
votes for whom: no vote is given or refused by weight, and a lighter member leads for as long as no heavier one can.
"""

from __future__ import annotations

import logging
from typing import Final

from cluster.limits import NODE_WEIGHT_MAX
from cluster.raft.changing import Changing
from cluster.raft.core import Parts
from cluster.raft.peer import Peer

logger = logging.getLogger(__name__)

PREFERENCE_ROUNDS: Final = 20
"""So many of the longest election timeouts a member leads, and a heavier one is connected, before leadership moves to that one: by default
12 s. A member that comes and goes does not drag leadership with it more often than that."""

PREFERENCE_LAG_MAX: Final = 64
"""Entries. While leadership is handed over nothing is proposed, so the rest must be quick to catch up with."""

DOUBLINGS_MAX: Final = 8
DEFAULT_WEIGHT: Final = 1


class Preference(Changing):
    """A raft leader that could be followed by a heavier member hands leadership over, now and then.

    Attempts that fail cost the rest of this reign its reads from memory (see ``Handover``), so each is tried after twice the time of the
    one before.
    """

    def __init__(self, parts: Parts) -> None:
        self._attempts = 0
        super().__init__(parts)

    def _begin_reign(self) -> None:
        self._attempts = 0
        super()._begin_reign()

    def _beat(self, now: float, late: bool) -> None:
        super()._beat(now, late)
        if not late and self.is_leader:
            self._prefer(now)

    def _prefer(self, now: float) -> None:
        patience_s = PREFERENCE_ROUNDS * self._config.election_max_s
        if now - self._reign_began < patience_s * 2 ** min(self._attempts, DOUBLINGS_MAX) or self._change is not None:
            return
        last = self._log[-1][1]
        heavier = [
            peer
            for peer in self._counted
            if peer.voter and peer.connected and now - peer.connected_at >= patience_s
            and last - peer.match <= PREFERENCE_LAG_MAX and weight_of(peer) > self._config.weight
        ]  # fmt: skip
        if not heavier:
            return
        best = max(heavier, key=lambda peer: (weight_of(peer), peer.match, peer.id))
        logger.info(
            "raft.prefers node=%s to=%s weight=%d instead_of=%d",
            self._config.node_id,
            best.id,
            weight_of(best),
            self._config.weight,
        )
        self._attempts += 1
        self.transfer(best.id)


def weight_of(peer: Peer) -> int:
    """What it said when it connected; what says nothing, or nonsense, weighs as much as a member that was given no weight."""
    said = peer.hello.info.get("weight") if peer.hello is not None else None
    return said if type(said) is int and 0 <= said <= NODE_WEIGHT_MAX else DEFAULT_WEIGHT
