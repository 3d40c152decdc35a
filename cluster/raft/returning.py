"""A member that comes back, with less than it had acknowledged.

Knows: that a new connection may lead to what a machine has kept of itself. Must not know: what a disk can lose.
"""

from __future__ import annotations

from cluster.ports import Hello
from cluster.raft.membership import Membership
from cluster.raft.peer import Peer


class AsksAnew(Membership):
    """What a peer acknowledged over earlier connections counts again when it says so over this one.

    Hazard R15: one machine may lose the end of its log and be the same member all the same: by a power cut with ``durability="process"``,
    or by damage to the last group, which nobody can tell from a torn one. A leader that goes on believing in it commits by an entry that is
    not there, and never sends it again: it does not go back behind what was acknowledged.
    """

    def _greeted(self, peer: Peer, hello: Hello) -> None:
        super()._greeted(peer, hello)
        peer.match = 0
