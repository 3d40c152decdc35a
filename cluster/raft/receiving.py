"""Which messages are heard at all.

Knows: the kinds, and what makes a message one of the past. Must not know: what they do.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from cluster.raft import messages as m
from cluster.raft.core import Core, Parts
from cluster.raft.following import Following
from cluster.raft.peer import Peer
from cluster.raft.quorum import Quorum

Handler = Callable[[Peer, list[Any]], None]


class Receiving(Core):
    """Hands each message to the piece that handles its kind; one whose piece is not there is not heard."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        names = {
            m.APPEND: "_on_append",
            m.ACK: "_on_ack",
            m.PIECE: "_on_piece",
            m.PIECE_ACK: "_on_piece_ack",
            m.REQUEST_VOTE: "_on_request_vote",
            m.VOTE: "_on_vote",
            m.TIMEOUT_NOW: "_on_timeout_now",
            m.PRE_VOTE: "_on_pre_vote",
            m.PRE_GRANT: "_on_pre_grant",
            m.ADMIT: "_on_admit",
        }
        self._handlers: dict[int, Handler] = {
            kind: getattr(self, name) for kind, name in names.items() if hasattr(self, name)
        }

    def _receive(self, peer: Peer, message: list[Any]) -> None:
        handler = self._handlers.get(message[0])
        if handler is not None:
            handler(peer, message)


class AckTerm(Receiving, Quorum):
    """An answer counts in the term it was given in, for the reign that it answers.

    Hazard s03: answers of the released library carry no term; one that this leader's own earlier reign was waiting for raises what a
    follower is believed to hold. A refusal may even come in this reign's term, from a follower that was there first.
    """

    def _receive(self, peer: Peer, message: list[Any]) -> None:
        of_now = message[0] not in m.ANSWERS or (
            message[1] == self._SyncObj__raftCurrentTerm and message[m.SENT] >= self._reign_began
        )
        if of_now:
            super()._receive(peer, message)


class StepDown(Receiving, Following):
    """Whoever meets a greater term follows it, a leader too when it is told in an answer; and an old leader is told.

    In the released library a leader ignores terms in answers, and a follower in a greater term does not answer.
    """

    def _receive(self, peer: Peer, message: list[Any]) -> None:
        if message[0] in m.ANSWERS and message[1] > self._SyncObj__raftCurrentTerm:
            self._become_follower(message[1], f"{peer.id} is in a greater term")
            return
        super()._receive(peer, message)

    def _on_old_leader(self, peer: Peer, sent: float) -> None:
        self._answer(peer, sent, self._SyncObj__raftCommitIndex, False)


class OneConn(Receiving):
    """A peer is heard over one connection, in order: the net keeps one per peer, and here what it may still let through is dropped.

    Hazard s10: the released library reads a peer's replaced connection beside the new one. Answers to what was sent before this connection
    began are of an older one; so is an append that was sent before one of the same leader that has arrived.
    """

    def __init__(self, parts: Parts) -> None:
        self._newest: tuple[int, float] = (0, -inf)
        super().__init__(parts)

    def _receive(self, peer: Peer, message: list[Any]) -> None:
        if not peer.connected:
            return
        kind = message[0]
        if kind in m.FROM_LEADER:
            # One term has one leader, and its clock only goes up.
            stamp = (message[1], message[m.SENT])
            if stamp < self._newest and message[1] == self._newest[0]:
                return
            if stamp > self._newest:
                self._newest = stamp
        elif kind in m.ANSWERS and message[m.SENT] < peer.connected_at:
            return
        super()._receive(peer, message)
