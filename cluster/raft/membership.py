"""Who can be relied on: forming a group, joining it, coming back without one's memory, and which nodes are let in as peers.

Knows: what nodes say of themselves when they connect, what was saved of it. Must not know: sockets, how the members are changed.

A node has *joined* once it has formed a group with all others, or caught up with one. Until then it neither votes nor stands, and what it
acknowledges is not counted: it may be a node that was wiped, whose earlier incarnation made promises that it does not remember. Whether a
node that has joined counts is for the list of members to say (``members``).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from cluster import wall
from cluster.ports import Hello
from cluster.raft import messages as m
from cluster.raft.core import Parts
from cluster.raft.following import Following
from cluster.raft.leading import Leading
from cluster.raft.listing import Members, members_entry
from cluster.raft.members import GUEST
from cluster.raft.peer import Peer
from cluster.raft.restored import is_untouched, refuse_other_members

logger = logging.getLogger(__name__)

GUEST_S: Final = 5.0
"""A node that says that it is a member, and of which this one has not heard, is kept among the peers so long without a connection."""


class Membership(Leading, Following):
    """Forming, joining, and who is let in."""

    def __init__(self, parts: Parts) -> None:
        self._member = parts.storage.meta.joined
        refuse_other_members(parts.storage.meta, parts.config)
        self._admission: tuple[int, int] | None = None
        self._mismatched: set[str] = set()
        super().__init__(parts)

    def hello_info(self) -> dict[str, Any]:
        """What this node says of itself to its peers: see ``ports.Hello.info``.

        Blank: it knows no term and no entry, so it has promised nothing. A node that has formed a group says so until its first election.
        ``peers`` are the members as it knows them, or was told as long as it has not joined; ``member_since``: index and
        term of the entry by which it became one the last time, as its log has it; ``[-1, 0]``: none. A term of 0 stands for what it has
        applied: then it was a member at that index for certain. A term of -1: it joined at that index, and has no such entry since.
        """
        return {
            "blank": self._is_blank(),
            "joined": self._member,
            "formed": self._meta.formed,
            "peers": list(self._members if self._member else self._config.members),
            "member_since": list(self._member_since()),
            "wall_ms": int(self._env.wall() * 1000),
            "silence_ms": int(self._config.election_min_s * 1000),
            "weight": self._config.weight,
        }

    def _member_since(self) -> tuple[int, int]:
        me, lists, begin = self._config.node_id, self._lists_since_joined(), -1
        for at, each in enumerate(lists):
            if me in each.names and (at == 0 or me not in lists[at - 1].names):
                begin = at
        if begin < 0 or lists[begin].index < self._meta.member_since:
            # No list of this log names this incarnation: it may have missed one since it joined.
            return (self._meta.member_since, -1) if self._meta.member_since else (-1, 0)
        index = lists[begin].index
        applied = not begin or index <= self._meta.member_since
        return index, 0 if applied else self._log[index - self._first][2]

    def _lists_since_joined(self) -> list[Members]:
        """From the mark on with which this incarnation joined, if it was a member by then; else all. How an earlier one came and went says
        nothing of this one."""
        me, since = self._config.node_id, self._meta.member_since
        for at, each in enumerate(self._lists):
            if each.index == since and not each.change and me in each.names:
                return self._lists[at:]
        return self._lists

    def peers_wall_ms(self) -> int:
        """The largest wall clock among this node and its connected peers: what they said when they connected, and what has passed since.

        A peer's that no group can begin with is passed over. This node's own is not: see ``wall.objection``.
        """
        walls = [int(self._env.wall() * 1000)]
        for peer in self._others:
            if peer.connected and peer.hello is not None:
                said = peer.hello.info.get("wall_ms")
                if isinstance(said, int):
                    says = said + int((self._clock() - peer.connected_at) * 1000)
                    if wall.can_be(says):
                        walls.append(says)
                    else:
                        logger.warning("raft.wall_clock node=%s peer=%s wall_ms=%d is passed over", self._config.node_id, peer.id, says)
        return max(walls)

    def _is_blank(self) -> bool:
        return (self.term == 0 and self._log[-1][2] == 0) or is_untouched(self._meta, self._log)

    def _is_member(self) -> bool:
        return self._member

    def _may_stand(self) -> bool:
        return self._member and self._is_listed()

    def _may_vote(self, term: int, forced: bool) -> bool:
        return self._member and term > self._meta.no_vote_through

    # Forming.

    def _try_form(self) -> None:
        """Form the group if every configured node is there and none of them can remember a promise to, or of, an earlier incarnation."""
        if self._member:
            return
        told = [self._peers[name] for name in self._config.peers if name in self._peers]
        if len(told) < len(self._config.peers) or not all(self._agrees_to_form(peer) for peer in told):
            return
        if why := wall.objection(self._env.wall()):
            self._stop(why)
            return
        formed = {peer.id: peer.hello.incarnation for peer in told if peer.hello is not None}
        formed[self._config.node_id] = self._meta.incarnation
        self._meta.save(formed=formed, joined=True)
        self._member = True
        logger.info("raft.formed node=%s members=%s", self._config.node_id, ",".join(self._config.members))
        self._use_members()
        self._SyncObj__raftElectionDeadline = self._clock() if self._config.single else self._patience()
        self._settle()

    def _agrees_to_form(self, peer: Peer) -> bool:
        hello = peer.hello
        if not peer.connected or hello is None:
            return False
        peers, formed = hello.info.get("peers"), hello.info.get("formed")
        theirs = _names(peers)
        if theirs != list(self._config.members):
            self._warn_of_mismatch(peer.id, theirs)
            return False
        if isinstance(formed, dict) and formed.get(self._config.node_id) == self._meta.incarnation:
            return True
        # Blank nodes agree on nothing, or on the state that all begin with, of which the cluster id is made.
        same = hello.cluster_id == self._meta.cluster_id
        if hello.info.get("blank") and not same:
            self._warn_of_beginning(peer.id)
        return bool(hello.info.get("blank")) and same and self._is_blank()

    def _warn_of_beginning(self, peer: str) -> None:
        if peer not in self._mismatched:
            self._mismatched.add(peer)
            logger.warning(
                "raft.beginnings_differ node=%s peer=%s one was restored from a backup and the other was not: no group is formed",
                self._config.node_id, peer,
            )  # fmt: skip

    def _warn_of_mismatch(self, peer: str, theirs: list[str]) -> None:
        if peer not in self._mismatched:
            self._mismatched.add(peer)
            logger.warning(
                "raft.members_differ node=%s peer=%s mine=%s theirs=%s no group is formed until all name the same members",
                self._config.node_id, peer, ",".join(self._config.members), ",".join(theirs),
            )  # fmt: skip

    # Joining: the newcomer.

    def _on_admit(self, peer: Peer, message: list[Any]) -> None:
        _, term, index = message
        if term == self.term and self._SyncObj__raftLeader is peer.node and not self._member:
            self._admission = (term, index)
            self._progressed()

    def _progressed(self) -> None:
        """Become a member if all up to the admission's entry is here, committed and durable.

        That entry was appended after this incarnation had connected, and was committed by a majority without it. So whatever an earlier
        incarnation has helped to commit is in the log up to there; and whoever got its vote in a greater term cannot win any more: every
        majority without this node has one that took the entry, and it votes only for who has it.
        """
        if self._member or self._admission is None:
            return
        term, index = self._admission
        if term != self.term:
            self._admission = None
        elif self._SyncObj__raftCommitIndex >= index and self._settled_through() >= index:
            # The mark names the members; what this node was told of them is over.
            lists = [each for each in self._lists if each.index]
            # An earlier incarnation may have voted in this very term.
            # The members are kept without incarnations: these say who formed the group together, and this node was not among them.
            formed = dict.fromkeys(lists[0].names, b"")
            self._meta.save(joined=True, no_vote_through=term, formed=formed, member_since=index)
            self._member, self._admission, self._lists = True, None, lists
            logger.info("raft.joined node=%s term=%d index=%d", self._config.node_id, term, index)
            self._use_members()
            self._tell()
            self._settle()

    # Joining: the leader.

    def _consider(self, peer: Peer) -> None:
        """Set the newcomer its mark as soon as it takes entries. The mark says who the members are: the newcomer cannot know otherwise."""
        if not peer.admission and peer.match and peer in self._others:
            peer.admission = self._append_entry(members_entry(self._members))
            logger.info("raft.admit node=%s peer=%s index=%d", self._config.node_id, peer.id, peer.admission)
            self._net.send(peer.id, m.encode(m.ADMIT, self.term, peer.admission))

    # Connections.

    def _greeted(self, peer: Peer, hello: Hello) -> None:
        """A connection to a peer is open."""
        same = peer.hello is not None and peer.hello.incarnation == hello.incarnation
        peer.connected, peer.connected_at, peer.hello = True, self._clock(), hello
        if same:
            peer.reconnect()
        else:
            peer.begin(self._log[-1][1])
        silence_ms = hello.info.get("silence_ms")
        if isinstance(silence_ms, int) and silence_ms / 1000.0 < self._silence_s:
            logger.warning(
                "raft.timeouts_differ node=%s peer=%s theirs_ms=%d", self._config.node_id, peer.id, silence_ms
            )
            self._silence_s = max(0.0, silence_ms / 1000.0)
        self._stock(Leading._SyncObj__onNodeConnected, peer.node)
        self._try_form()
        if self.is_leader and peer in self._others:
            if peer.next > self._log[-1][1]:
                self._send_append(peer, ())
            self._replicate(peer)

    def _parted(self, peer: Peer) -> None:
        """The connection to a peer is gone."""
        peer.connected = False
        peer.reconnect()
        self._stock(Leading._SyncObj__onNodeDisconnected, peer.node)
        if self._beside.get(peer.id) == GUEST:
            self._env.call_soon(self._guard, self._see_off, peer.id)

    # Who is let in.

    def objection(self, other: Hello) -> tuple[str, str] | None:
        """Why a peer that has proven itself is not let in: code and text. None: it is let in, and may become a peer by this."""
        me = self._config.node_id
        joined = other.info.get("joined") is True
        theirs = _names(other.info.get("peers"))
        if not self._member and not joined:
            if theirs == list(self._config.members):
                return None
            mine = ", ".join(self._config.members)
            return "member", f"node {other.node_id} names the members {', '.join(theirs):.300}, and {me} names {mine:.300}"
        if other.node_id in self._peers:
            return None
        if me in theirs and self._was_removed(other):
            text = f"node {other.node_id} was removed from its raft group, whose members are {', '.join(self._members):.500}"
            return "removed", text
        acquainted = joined and other.node_id in theirs and bool({me, *self._config.peers} & set(theirs))
        same = other.cluster_id == self._meta.cluster_id or not self._meta.cluster_id
        if acquainted and same and (me in theirs or not self._member):
            # A member that this node has not heard of yet, since its log lags behind: whom the log elects may be the new one.
            self._set_beside(other.node_id, GUEST)
            self._env.call_later(GUEST_S, self._guard, self._see_off, other.node_id)
            return None
        how = f"'members add {other.node_id}' lets it in"
        return "member", f"node {other.node_id} is not a member of the raft group of {me}; {how}"

    def _was_removed(self, other: Hello, doubted: bool = False) -> bool:
        """Whether that node was a member and is none any more, as far as is applied here, and has not heard of it.

        ``doubted``: what is to be said where this log does not go back to the entry that made it a member.
        """
        since = other.info.get("member_since")
        if not self._member or other.info.get("joined") is not True or not _is_pair(since):
            return False
        if self._installing:
            # The state is that of a snapshot whose members are not taken up yet.
            return False
        index, term = since
        if not 0 <= index <= self._SyncObj__raftLastApplied or other.node_id in self._lists[0].names:
            return False
        if term == 0:
            return True
        later = [each for each in self._lists_in_log(index) if each.index <= self._SyncObj__raftLastApplied]
        if any(other.node_id in each.names for each in later):
            return True
        if index >= self._first:
            # It may be an entry that was never committed; and its log may lack one that was.
            return self._log[index - self._first][2] == term
        if term < 0:
            # If an entry ever named it, it lacks that one. If its removal is not after the first entry of this log, it is sent a snapshot
            # from after it, and never meets it. Where a change is the first that comes after, nothing tells whether it was that.
            return doubted and bool(later) and later[0].index > self._first and later[0].change != b""
        return doubted

    def _see_off(self, name: str) -> None:
        peer = self._peers.get(name)
        if self._beside.get(name) == GUEST and (peer is None or not peer.connected):
            self._set_beside(name, None)

    def told_of_removal(self, by: str, text: str) -> None:
        """A peer that was called says that this node is no member any more."""
        # The removal may be in this log already, and nobody is left who would say that it is committed. But with an addition after it
        # that peer may speak of the past.
        names = [self._config.node_id in each.names for each in self._lists_since_joined()]
        once = sum(now and not before for before, now in itertools.pairwise([False, *names])) == 1
        if self._member and once and any(by in each.names for each in self._lists):
            self._removed(f"{by} says: {text}")


def _is_pair(value: object) -> TypeGuard[Sequence[int]]:
    return isinstance(value, list | tuple) and len(value) == 2 and all(type(each) is int for each in value)


def _names(value: object) -> list[str]:
    return sorted(str(name) for name in value) if isinstance(value, list | tuple) else []
