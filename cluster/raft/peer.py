"""What this node knows of another member.

Knows: the connection to it and, while this node leads, how far its log agrees. Must not know: how to send.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf

from cluster.ports import Hello
from cluster.raft.engine import Member


@dataclass(slots=True)
class Outgoing:
    """A snapshot as it is sent: ``index``, ``term``, its bytes and their checksum. Shared by all followers that need it."""

    index: int
    term: int
    crc: int
    data: bytes


@dataclass(slots=True)
class Transfer:
    """One follower's way through a snapshot.

    Attributes:
        sent: bytes given to the connection.
        had: bytes that the follower says it has. Nothing is sent before it was asked.
    """

    snapshot: Outgoing
    sent: int = 0
    had: int = 0


class Peer:
    """Another member.

    Attributes:
        hello: what it said at the handshake of the present connection, or of the last one; None: never seen.
        connected_at: when the present connection began, on this node's clock.

        While this node leads:
        next: index of the first entry that was not sent.
        match: up to here its log is known to be ours, durably.
        had: up to here it was so over an earlier connection: where sending begins.
        voter: whether it counts: a node that has not caught up yet does not.
        open: it takes appends: it is connected and needs no snapshot.
        in_flight: last indexes of appends with entries that it has not answered.
        sent_at: when the last append or piece was sent.
        answered: the latest sending time among the messages that it has answered.
        restarted: sending time of the append that last began anew after a refusal; refusals of earlier ones are old news.
        transfer: it needs a snapshot.
        admission: index that it must reach to become a member; 0: none was set on this connection in this term.
    """

    __slots__ = (
        "admission",
        "answered",
        "connected",
        "connected_at",
        "had",
        "hello",
        "id",
        "in_flight",
        "match",
        "next",
        "node",
        "open",
        "restarted",
        "sent_at",
        "transfer",
        "voter",
    )

    def __init__(self, peer_id: str) -> None:
        self.id = peer_id
        self.node = Member(peer_id)
        self.connected = False
        self.connected_at = -inf
        self.hello: Hello | None = None
        self.in_flight: deque[int] = deque()
        self.sent_at = -inf
        self.begin(1)

    def begin(self, last_index: int) -> None:
        """A reign begins, or the peer came back as another incarnation: nothing that it acknowledged before counts."""
        self.match = self.had = 0
        self.voter = False
        self.answered = -inf
        self.next = last_index + 1
        self.reconnect()

    def reconnect(self) -> None:
        """What was under way to it is lost or will not be answered."""
        self.had = self.match or self.had
        if self.had:
            self.next = self.had + 1
        self.open = self.connected
        self.in_flight.clear()
        self.restarted = -inf
        self.transfer: Transfer | None = None
        self.admission = 0
