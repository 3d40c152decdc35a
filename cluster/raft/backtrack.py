"""Finding the place where two logs agree.

Knows: what agrees for certain, which refusals are old news. Must not know: how entries travel.
"""

from __future__ import annotations

from cluster.raft.following import Following
from cluster.raft.leading import Leading
from cluster.raft.peer import Peer


class Backtrack(Leading, Following):
    """On a gap or conflict the follower names a place where the logs agree for certain, and the leader goes there once.

    Hazard s11: the released library steps back by one entry for a conflict and forward to its end for a gap, and heeds every refusal; with
    two appends under way it does so for ever.
    """

    def _resume_after(self, term: int, prev: int) -> int:
        _, last, last_term = self._log[-1]
        # What this leader wrote in this term agrees with it; so does everything committed.
        if last < prev and last_term == term:
            return int(last)
        return self._SyncObj__raftCommitIndex

    def _is_old_refusal(self, peer: Peer, sent: float) -> bool:
        # Several appends were under way when the first was refused; each of the others is refused as well.
        return sent < peer.restarted
