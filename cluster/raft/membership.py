"""Who belongs to the group: forming it, joining it, coming back without one's memory.

Knows: what nodes say of themselves when they connect, what was saved of it. Must not know: sockets, the log's contents.

A node is a *member* once it has formed a group with all others, or joined one. Until then it neither votes nor stands, and what it
acknowledges is not counted: it may be a node that was wiped, whose earlier incarnation made promises that it does not remember.
"""

from __future__ import annotations

import logging
from typing import Any

from cluster.errors import UsageError
from cluster.ports import Hello
from cluster.raft import messages as m
from cluster.raft.core import Parts
from cluster.raft.engine import NO_OP
from cluster.raft.following import Following
from cluster.raft.leading import Leading
from cluster.raft.peer import Peer
from cluster.raft.restored import is_untouched, refuse_other_members

logger = logging.getLogger(__name__)


class Membership(Leading, Following):
    """Forming, joining, and who counts."""

    def __init__(self, parts: Parts) -> None:
        """Raises UsageError if this node has belonged to a group of other members. Nothing was changed."""
        self._member = parts.storage.meta.joined
        refuse_other_members(parts.storage.meta, parts.config)
        _refuse_other_members(parts)
        self._admission: tuple[int, int] | None = None
        self._mismatched: set[str] = set()
        super().__init__(parts)

    def hello_info(self) -> dict[str, Any]:
        """What this node says of itself to its peers: see ``ports.Hello.info``.

        Blank: it knows no term and no entry, so it has promised nothing. A node that has formed a group says so until its first election.
        """
        return {
            "blank": self._is_blank(),
            "formed": self._meta.formed,
            "peers": list(self._config.members),
            "wall_ms": int(self._env.wall() * 1000),
            "silence_ms": int(self._config.election_min_s * 1000),
        }

    def peers_wall_ms(self) -> int:
        """The largest wall clock among this node and its connected peers: what they said when they connected, and what has passed since."""
        walls = [int(self._env.wall() * 1000)]
        for peer in self._others:
            if peer.connected and peer.hello is not None:
                said = peer.hello.info.get("wall_ms")
                if isinstance(said, int):
                    walls.append(said + int((self._clock() - peer.connected_at) * 1000))
        return max(walls)

    def _is_blank(self) -> bool:
        return (self.term == 0 and self._log[-1][2] == 0) or is_untouched(self._meta, self._log)

    def _is_member(self) -> bool:
        return self._member

    def _may_stand(self) -> bool:
        return self._member

    def _may_vote(self, term: int, forced: bool) -> bool:
        return self._member and term > self._meta.no_vote_through

    # Forming.

    def _try_form(self) -> None:
        """Form the group if every configured node is there and none of them can remember a promise to, or of, an earlier incarnation."""
        if self._member or not all(self._agrees_to_form(peer) for peer in self._others):
            return
        formed = {peer.id: peer.hello.incarnation for peer in self._others if peer.hello is not None}
        formed[self._config.node_id] = self._meta.incarnation
        self._meta.save(formed=formed, joined=True)
        self._member = True
        logger.info("raft.formed node=%s members=%s", self._config.node_id, ",".join(self._config.members))
        self._SyncObj__raftElectionDeadline = self._clock() if self._config.single else self._patience()
        self._settle()

    def _agrees_to_form(self, peer: Peer) -> bool:
        hello = peer.hello
        if not peer.connected or hello is None:
            return False
        peers, formed = hello.info.get("peers"), hello.info.get("formed")
        theirs = sorted(str(member) for member in peers) if isinstance(peers, list | tuple) else []
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
            # An earlier incarnation may have voted in this very term.
            # The members are kept without incarnations: these say who formed the group together, and this node was not among them.
            self._meta.save(joined=True, no_vote_through=term, formed=dict.fromkeys(self._config.members, b""))
            self._member, self._admission = True, None
            logger.info("raft.joined node=%s term=%d index=%d", self._config.node_id, term, index)
            self._settle()

    # Joining: the leader.

    def _consider(self, peer: Peer) -> None:
        """Set the newcomer its mark as soon as it takes entries."""
        if not peer.admission and peer.match:
            peer.admission = self._append_entry(NO_OP)
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
        if self.is_leader:
            if peer.next > self._log[-1][1]:
                self._send_append(peer, ())
            self._replicate(peer)

    def _parted(self, peer: Peer) -> None:
        """The connection to a peer is gone."""
        peer.connected = False
        peer.reconnect()
        self._stock(Leading._SyncObj__onNodeDisconnected, peer.node)


def _refuse_other_members(parts: Parts) -> None:
    """A majority of other members than those of the group is no majority of the group: two raft leaders could reign at once."""
    known, told = sorted(parts.storage.meta.formed), list(parts.config.members)
    if known and known != told:
        raise UsageError(
            f"node {parts.config.node_id} belongs to a raft group of {', '.join(known)}, and was told of {', '.join(told)}",
            "give it the same peers as before; other members are another group, which needs data directories of its own",
        )
