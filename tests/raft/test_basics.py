"""The plain course of things: electing, replicating, committing, restarting."""

from __future__ import annotations

import pytest

from tests.raft.lab import World

pytestmark = pytest.mark.fast


def test_a_group_elects_replicates_and_applies() -> None:
    w = World()
    w.form("A")
    for i in range(5):
        w.propose("A", f"x{i}")
        w.flow("A", "B")
        w.flow("B", "A")
    w.flow("A", "C")
    w.beat("A", "BC")
    assert [w[n].machine.commands for n in "ABC"] == [[b"x0", b"x1", b"x2", b"x3", b"x4"]] * 3
    assert len(w.ledger.acked) == 5
    assert not w.ledger.violations


def test_a_restarted_group_has_everything() -> None:
    w = World()
    w.form("A")
    w.propose("A", "x0")
    w.beat("A", "BC")
    for n in "ABC":
        w.kill(n)
    w.restart("A")
    w.restart("B", "A")
    w.restart("C", "AB")
    w.form("B")
    w.propose("B", "x1")
    w.beat("B", "AC")
    assert [w[n].machine.commands for n in "ABC"] == [[b"x0", b"x1"]] * 3
    assert not w.ledger.violations


def test_followers_wait_for_different_times_from_the_first_message_on() -> None:
    w = World()
    w.form("A")
    w.beat("A", "BC")
    patience = [w[n].adapter._SyncObj__raftElectionDeadline - w[n].adapter._heard_at for n in "BC"]
    assert patience[0] != patience[1], "they would stand in the same moment, and split the votes"
