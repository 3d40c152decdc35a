"""What no node does by itself: messages that come again, machines that fail once.

Knows: what each may change, and what it must not. Must not know: other faults, when they come.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Final

from cluster.raft.messages import ANSWERS, decode
from tests.raft.lab import Link
from tests.raft.returns import Returns

INSIDE: Final = frozenset({"ChangedTooEarly", "CommittedRemoved", "OldConnection", "PiecesMixed", "StoodUnread"})
"""Damage in one node that another piece of its adapter, or another node, would mend before anybody is hurt."""


class Mishaps(Returns):
    """``unread``: of a node that just woke up, whose messages lie in its sockets while its timers fire."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.unread: dict[str, Collection[str]] = {}
        super().__init__(*args, **kwargs)

    def echo(self, receiver: str, sender: str, link: Link, payload: bytes) -> None:
        """What was sent once, on this connection or one before it, comes again."""
        node = self[receiver]
        if sender not in node.net.links:
            return
        kind, term = decode(payload)[:2]
        if node.net.links[sender] is link or kind not in ANSWERS or term != node.raft.term:
            node.net.on_frame(sender, payload)
            return
        before = self.believed(receiver, sender)
        node.net.on_frame(sender, payload)
        if (after := self.believed(receiver, sender)) != before:
            text = f"{receiver} believed {before} of {sender}, and {after} after an answer that an older connection had brought"
            self.damage("OldConnection", text)

    def believed(self, name: str, other: str) -> tuple[object, ...]:
        peer = self[name].adapter._peers[other]
        return peer.match, peer.next, peer.answered, tuple(peer.in_flight)

    def damage(self, rule: str, what: str) -> None:
        assert rule in INSIDE
        if self.profile.inside:
            self.ledger.fail(rule, what)

    def some_failure(self) -> None:
        """The machine fails at its next command or snapshot, in the midst of it."""
        node = self[self.some()]
        if node.alive:
            node.machine.fails = True

    def failed(self, name: str) -> None:
        """A node stopped because its machine had failed; whoever runs it starts it again."""
        self[name].fatal.clear()
        self.died(name)

    @abstractmethod
    def died(self, name: str) -> None: ...
