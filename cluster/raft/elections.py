"""Elections: pysyncobj's own, guarded.

Knows: when a candidate is answered and when this node stands. Must not know: entries.
"""

from __future__ import annotations

import itertools
import logging
from math import inf
from typing import Any, Final

from cluster.raft import messages as m
from cluster.raft.core import Parts
from cluster.raft.engine import FOLLOWER, LEADER, SyncObj
from cluster.raft.following import Following
from cluster.raft.membership import Membership
from cluster.raft.peer import Peer

logger = logging.getLogger(__name__)

QUICK_SPREAD: Final = 0.3
"""Part of the election timeout's range over which followers spread that lost their leader's connection in the same moment."""


class Elections(Membership):
    """Standing, voting and counting are the engine's; here its messages are let in and its tick is started."""

    def _campaign(self, forced: bool = False) -> None:
        """Stand for election: one tick of the engine with its deadline passed."""
        if not self._may_stand():
            self._SyncObj__raftElectionDeadline = self._patience()
            return
        self._bridge.forced = forced
        self._SyncObj__raftElectionDeadline = -inf
        self._stock(SyncObj.doTick)
        if self._SyncObj__raftElectionDeadline == -inf:
            # Nobody is connected, so the engine did not stand.
            self._SyncObj__raftElectionDeadline = self._patience()
        self._SyncObj__transferInProgress = False
        self._settle()

    def _on_request_vote(self, peer: Peer, message: list[Any]) -> None:
        _, term, last_index, last_term, forced = message
        if not self._may_vote(term, forced):
            return
        if term > self._SyncObj__raftCurrentTerm and self._SyncObj__raftState != FOLLOWER:
            logger.info("raft.step_down node=%s term=%d why=%s asks for votes", self._config.node_id, term, peer.id)
        if (last_term, last_index) >= self._vouched(peer):
            # For the engine, which compares with all there is.
            last_term, last_index = max((last_term, last_index), self._last())
        request = {"type": "request_vote", "term": term, "last_log_index": last_index, "last_log_term": last_term}
        was_leader = self._SyncObj__raftState == LEADER
        self._stock(SyncObj._SyncObj__onMessageReceived, peer.node, request)
        if was_leader and self._SyncObj__raftState != LEADER:
            self._SyncObj__raftElectionDeadline = self._patience()
        self._settle()

    def _last(self) -> tuple[int, int]:
        """Term and index of the last entry."""
        _, index, term = self._log[-1]
        return term, index

    def _vouched(self, candidate: Peer) -> tuple[int, int]:
        """Term and index of the last entry that may be committed because this node has it: who has less is refused its vote."""
        return self._last()

    def _on_vote(self, peer: Peer, message: list[Any]) -> None:
        # Who is asked is a member, and may not be one any more.
        if peer not in self._counted:
            return
        self._stock(SyncObj._SyncObj__onMessageReceived, peer.node, {"type": "response_vote", "term": message[1]})
        self._settle()

    def _parted(self, peer: Peer) -> None:
        """A follower that loses the connection to its leader stands as early as others may vote. They say no if it is only the
        connection."""
        super()._parted(peer)
        if self._SyncObj__raftLeader is peer.node and not self._stopped:
            config = self._config
            spread = (config.election_max_s - config.election_min_s) * QUICK_SPREAD * self._env.random.random()
            soonest = max(self._heard_at + config.election_min_s, self._clock()) + spread
            self._SyncObj__raftElectionDeadline = min(self._SyncObj__raftElectionDeadline, soonest)
            self._arm()

    def _on_timeout_now(self, peer: Peer, message: list[Any]) -> None:
        self._stock(SyncObj._SyncObj__onMessageReceived, peer.node, {"type": "timeout_now", "term": message[1]})
        if self._SyncObj__transferInProgress:
            self._campaign(forced=True)


class VoteId(Elections):
    """One vote per voter and term.

    Hazard s15: the released library counts answers, not voters; one that comes twice makes the leader of a minority.
    """

    def __init__(self, parts: Parts) -> None:
        self._voters: tuple[int, set[str]] = (0, set())
        super().__init__(parts)

    def _on_vote(self, peer: Peer, message: list[Any]) -> None:
        term = message[1]
        if term != self._SyncObj__raftCurrentTerm:
            return
        if self._voters[0] != term:
            self._voters = (term, set())
        if peer.id not in self._voters[1]:
            self._voters[1].add(peer.id)
            super()._on_vote(peer, message)


class Unlisted(Elections):
    """A node votes by its log up to its own removal; the other one of two, by what is known to be committed.

    Whoever has that entry does not count this node, neither for committing it and what follows nor in an election; whoever lacks it needs
    this node's vote. A leader that goes down before the entry is on its own disk, as one of two that removes the other, would never be
    elected again: the other has the longer log, and does not stand.

    Safe: of old members n and new members n - 1, a majority of the new ones and a majority of the old ones have a member in common even
    without the one between them. So if the entry was committed, nobody who lacks it finds a majority of the old ones. Of two members
    nothing is committed without both, so what the candidate lacks is not, from their list on; of what came before nothing may be missing.
    """

    def _vouched(self, candidate: Peer) -> tuple[int, int]:
        me, removal = self._config.node_id, 0
        for older, newer in itertools.pairwise(self._lists):
            if me in older.names and me not in newer.names:
                before, removal = older, newer.index
        if not removal or self._is_listed():
            return super()._vouched(candidate)
        index = removal - 1
        if set(before.names) == {me, candidate.id}:
            index = min(index, max(before.index, self._SyncObj__raftCommitIndex, self._first))
        _, index, term = self._log[index - self._first]
        return term, index


class Stickiness(Elections, Following):
    """Nobody votes within the shortest election timeout of hearing a leader, nor of its own start; a leader that a majority follows does
    not either. Only an election that the leader itself asked for is answered at any time.

    It keeps a node that others cannot hear from deposing a healthy leader, and is what ``has_fresh_majority`` rests on.
    """

    def _may_vote(self, term: int, forced: bool) -> bool:
        return (forced or not self._has_leader()) and super()._may_vote(term, forced)

    def _has_leader(self) -> bool:
        since = self._clock() - self._config.election_min_s
        if self._SyncObj__raftState == LEADER:
            return self._majority_answered(since)
        return self._heard_at > since


class PreVote(Elections, Following):
    """Before it raises its term, a node asks whether it would be elected.

    Hazards R5, s18: a node that was paused or cannot hear would come with a greater term and depose a healthy leader.

    Of several that ask at the same time one goes first: who asks gives way to whoever has the longer log, or else the greater id, and
    to whom it gives its vote. Where messages take long, two would stand one after the other and depose each other, term by term.
    It gives way once, and asks again when its patience ends: the other may be unable to win.
    """

    def __init__(self, parts: Parts) -> None:
        # Each life begins above the rounds of those before it: what was answered to them is not an answer to this one.
        self._round = int(parts.env.clock() * 1000)
        self._asked_round = -1
        self._grants: set[str] = set()
        super().__init__(parts)

    def _campaign(self, forced: bool = False) -> None:
        if forced or self._majority == 1 or not self._may_stand():
            super()._campaign(forced)
            return
        self._round += 1
        self._asked_round = self._round
        self._grants = set()
        self._SyncObj__raftElectionDeadline = self._patience()
        self._SyncObj__raftLeader = None
        last_term, last_index = self._last()
        question = m.encode(m.PRE_VOTE, self._SyncObj__raftCurrentTerm, self._round, last_index, last_term)
        for peer in self._counted:
            if peer.connected:
                self._net.send(peer.id, question)
        self._settle()

    def _campaign_over(self) -> None:
        super()._campaign_over()
        self._round += 1

    def _on_pre_vote(self, peer: Peer, message: list[Any]) -> None:
        _, term, round_, last_index, last_term = message
        own_term = self._SyncObj__raftCurrentTerm
        if (last_term, last_index) >= self._vouched(peer) and self._may_vote(max(term, own_term) + 1, False):
            self._net.send(peer.id, m.encode(m.PRE_GRANT, own_term, round_))
            if (last_term, last_index, peer.id) > (*self._last(), self._config.node_id):
                self._give_way()

    def _on_request_vote(self, peer: Peer, message: list[Any]) -> None:
        super()._on_request_vote(peer, message)
        if (self._meta.term, self._meta.voted_for) == (message[1], peer.id):
            self._give_way()

    def _give_way(self) -> None:
        """What is still answered to this node's question counts no more."""
        if self._asked_round == self._round:
            self._round += 1
            self._SyncObj__raftElectionDeadline = self._patience()

    def _on_pre_grant(self, peer: Peer, message: list[Any]) -> None:
        _, term, round_ = message
        if round_ != self._round or self._SyncObj__raftState == LEADER or peer not in self._counted:
            return
        if term > self._SyncObj__raftCurrentTerm:
            # The vote will be asked for in a term above the voters'.
            self._become_follower(term, "a voter is in a greater term")
        self._grants.add(peer.id)
        if len(self._grants) + 1 >= self._majority:
            self._round += 1
            super()._campaign()
