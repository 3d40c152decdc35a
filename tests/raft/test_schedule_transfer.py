"""Schedules around the transfer of a snapshot; one that the simulation found (`python -m tests.sim --seed 2001` at 27de3ec).

As in ``test_schedule_log``: played with the whole adapter, and with what was wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.raft.adapter import Adapter
from cluster.raft.messages import ACK, decode
from cluster.raft.peer import Peer
from cluster.raft.snapinstall import FailStop
from tests.raft.lab import World
from tests.raft.variants import SwallowsBadSnapshots, variant

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


def snapshot_that_cannot_be_loaded(adapter: Any) -> World:
    """The leader's snapshot is whole, and its state is not one that the machine knows."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    w.isolate("C")
    w.propose("A", "x0")
    w.beat("A", "B")
    w["A"].machine.freeze = lambda: lambda: b"\xc1"  # type: ignore[method-assign]
    w.compact("A")
    w.link("A", "C")
    for _ in range(6):
        w.flow("A", "C")
        w.work("C")
        w.tick("A")
        if not w["C"].fatal:
            w.flow("C", "A")
    return w


def test_what_was_not_loaded_is_not_acknowledged__I9() -> None:
    whole = snapshot_that_cannot_be_loaded(Adapter)
    assert whole["C"].fatal
    swallowed = snapshot_that_cannot_be_loaded(variant({FailStop: SwallowsBadSnapshots}))
    assert not swallowed["C"].fatal
    assert swallowed["A"].adapter._peers["C"].match == swallowed["A"].last, "the leader counts on it"
    assert not swallowed["C"].machine.commands
