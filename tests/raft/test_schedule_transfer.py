"""A schedule around the transfer of a snapshot that the simulation found (`python -m tests.sim --seed 2001` at 27de3ec).

As in ``test_schedule_log``: played with the whole adapter, and with what was wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.raft.adapter import Adapter
from cluster.raft.messages import ACK, decode
from cluster.raft.peer import Peer
from tests.raft.lab import World

pytestmark = pytest.mark.fast


class KeepsItsTransfer(Adapter):
    """A refusal sends the next entry back, and leaves the transfer that is under way as it is."""

    def _go_back(self, peer: Peer, index: int) -> None:
        transfer = peer.transfer
        super()._go_back(peer, index)
        peer.transfer = peer.transfer or transfer


def refusal_during_a_transfer(adapter: Any) -> World:
    """A sign of life is sent while a snapshot is read; it is refused when its transfer has begun, and there is a newer snapshot by then."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    w.isolate("C")
    for i in range(12):
        w.propose("A", f"x{i}")
    w.beat("A", "B")
    w.compact("A")
    w.link("A", "C")
    w.now += 0.08
    w["A"].env.fire_due()
    w.work("A")
    assert w["A"].adapter._peers["C"].transfer is not None
    w.flow("A", "C")
    answers = [decode(payload) for payload in w["C"].net.links["A"].queues["C"]]
    assert [answer[4] for answer in answers if answer[0] == ACK] == [False], "one refusal is under way"
    for i in range(5):
        w.propose("A", f"y{i}")
    w.beat("A", "B")
    w.compact("A")
    for _ in range(30):
        w.flow("C", "A")
        w.tick("A")
        w.flow("A", "C")
        w.work("C")
    return w


def test_a_refusal_during_a_transfer_ends_it_and_the_follower_catches_up() -> None:
    w = refusal_during_a_transfer(Adapter)
    assert w["A"].adapter._peers["C"].match == w["A"].last
    assert w["C"].machine.commands == w["A"].machine.commands
    stuck = refusal_during_a_transfer(KeepsItsTransfer)
    assert stuck["A"].adapter._peers["C"].match < stuck["A"].last
    assert not stuck.ledger.violations
