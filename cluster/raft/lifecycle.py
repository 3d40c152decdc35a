"""How the outside reaches the pieces: start, frames, connections, end.

Knows: the entrances, and that an unexpected error stops the node. Must not know: what happens behind them.
"""

from __future__ import annotations

from typing import Any

from cluster.ports import Hello
from cluster.raft.receiving import Receiving
from cluster.raft.timers import Timers


class Lifecycle(Receiving, Timers):
    """Every entrance is guarded: an error that no rule foresees ends this node's part before it can do harm."""

    def start(self) -> None:
        """Take part. A group of one forms, and stands at once."""
        self._begin_timers()
        self._try_form()
        self._arm()

    def close(self) -> None:
        """Take no part any more. The machine is not told."""
        self._stopped = True
        self._end_timers()

    def receive(self, peer_id: str, message: list[Any]) -> None:
        peer = self._peers.get(peer_id)
        if peer is not None and self._started:
            self._guard(self._receive, peer, message)

    def connected(self, peer_id: str, hello: Hello) -> None:
        peer = self._peers.get(peer_id)
        if peer is not None:
            self._guard(self._greeted, peer, hello)

    def disconnected(self, peer_id: str) -> None:
        peer = self._peers.get(peer_id)
        if peer is not None:
            self._guard(self._parted, peer)
