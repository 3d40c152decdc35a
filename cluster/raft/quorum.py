"""Whether a majority still follows this leader.

Knows: when followers answered, by the time the question was sent. Must not know: what they were asked.
"""

from __future__ import annotations

from cluster.limits import CLOCK_DRIFT
from cluster.raft.core import Parts
from cluster.raft.members import Configuration


class Quorum(Configuration):
    """A majority's answers, counted from the moment of sending: what was sent at ``s`` and answered shows that at ``s`` or later its
    receiver took this node for the leader, whatever happened to the answer on its way.

    ``_silence_s``: so long each member refuses its vote after hearing a leader: the shortest election timeout that any of them was given.
    """

    def __init__(self, parts: Parts) -> None:
        self._reign_began = 0.0
        self._lease_void = False
        self._silence_s = parts.config.election_min_s
        super().__init__(parts)

    def _majority_answered(self, since: float) -> bool:
        count = 1
        for peer in self._counted:
            if peer.voter and peer.answered >= since:
                count += 1
        return count >= self._majority

    def has_fresh_majority(self) -> bool:
        """Whether a majority answered something sent within the last (shortest election timeout, less drift).

        Then nobody else can have become the leader: each of that majority refuses its vote for one shortest election timeout
        after hearing this leader, and keeps still as long after its own start. Asking a node to stand at once takes that back,
        for the whole reign: the vote requests of such an election are answered at any time, and may be late.
        """
        if not self.is_leader or self._lease_void:
            return False
        return self._majority_answered(self._clock() - self._silence_s * (1.0 - CLOCK_DRIFT))

    def _lost_majority(self, now: float) -> bool:
        since = now - self._config.election_max_s
        return self._reign_began < since and not self._majority_answered(since)
