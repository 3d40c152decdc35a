"""Changing the members: the schedules s08 and s19, and the one that was found after single-server changes were published.

A newcomer is added, and comes to count, in the middle of each schedule, message by message.
"""

from __future__ import annotations

import pytest

from cluster.raft.adapter import Adapter
from cluster.raft.changing import OneAtATime, OwnTermFirst
from cluster.raft.elections import Unlisted
from cluster.raft.members import KeepsMembers
from tests.raft.lab import World
from tests.raft.operating import change, exchange, grown, members, ready
from tests.raft.variants import TakesTheListItIsTold, commands, variant

pytestmark = pytest.mark.fast


# The schedules.


def two_at_once(adapter: type[Adapter]) -> World:
    """s08: A, cut off with D, removes B and C in one go and has two of three; B, C and E are three of five."""
    w = grown("ABCDE", adapter)
    for name in "BCE":
        w.isolate(name, list("AD"))
    change(w, "A", "remove", "B")
    # Whoever asked for the first is forgotten; what was appended is not.
    w["A"].adapter._change = None
    change(w, "A", "remove", "C")
    w.propose("A", "p0")
    exchange(w, "A", "D")
    w.elect("B", "CE")
    w.propose("B", "q0")
    w.beat("B", "CE")
    return w


def test_s08_two_membership_changes_at_once__I9() -> None:
    w = two_at_once(variant({OneAtATime: None}))
    assert b"p0" in w.ledger.acked
    assert {rule for rule, _ in w.ledger.violations} & {"LeaderCompleteness", "StateMachineSafety"}
    w = two_at_once(Adapter)
    assert not w.ledger.violations
    assert b"q0" in w.ledger.acked
    assert b"p0" not in w.ledger.acked


def forgotten(adapter: type[Adapter]) -> World:
    """s19: D and E are added one after the other while C is away. B restarts with the list it was once told: with C it has two of three."""
    w = grown(adapter=adapter)
    w.isolate("C")
    for name, voters in (("D", "B"), ("E", "BD")):
        asked = ready(w, "A", name, "ABC", voters)
        exchange(w, "A", voters + name)
        assert asked.kind == "done"
    assert members(w, "B") == "ABCDE"
    w.kill("B")
    w["B"].told = ("A", "C")
    w.restart("B", "C")
    w.propose("A", "p0")
    exchange(w, "A", "DE")
    assert b"p0" in w.ledger.acked
    try:
        w.elect("B", "C")
    except AssertionError:
        return w
    w.propose("B", "q0")
    w.beat("B", "C")
    return w


def test_s19_a_restart_keeps_the_members_of_its_log__I9() -> None:
    w = forgotten(variant({KeepsMembers: TakesTheListItIsTold}))
    assert {rule for rule, _ in w.ledger.violations} & {"LeaderCompleteness", "StateMachineSafety"}
    w = forgotten(Adapter)
    assert not w.ledger.violations
    assert members(w, "B") == "ABCDE"
    assert b"q0" not in w.ledger.acked


def first_change_of_a_reign(adapter: type[Adapter]) -> World:
    """A begins to add E and reaches only E. B, elected by B, C and D, removes A with C alone. Then A asks D and E for their votes."""
    w = grown("ABCD", adapter)
    ready(w, "A", "E", "ABCD", "BCD")
    for name in "BCD":
        w.isolate(name, ["A"])
    exchange(w, "A", "E", 2)
    assert members(w, "E") == "ABCDE"
    w.elect("B", "CD", and_no_more=True)
    w.isolate("D", "BC")
    exchange(w, "B", "C", 4)
    change(w, "B", "remove", "A")
    w.propose("B", "q0")
    exchange(w, "B", "C", 4)
    w.isolate("B")
    w.link("A", "D")
    try:
        w.elect("A", "DE")
    except AssertionError:
        return w
    w.propose("A", "p0")
    exchange(w, "A", "DE")
    return w


def test_two_leaders_that_begin_with_a_change_each__I9() -> None:
    w = first_change_of_a_reign(variant({OwnTermFirst: None}))
    assert b"q0" in w.ledger.acked
    assert {rule for rule, _ in w.ledger.violations} & {"LeaderCompleteness", "StateMachineSafety"}
    w = first_change_of_a_reign(Adapter)
    assert not w.ledger.violations
    assert b"q0" not in w.ledger.acked


class Fsync(World):
    """Entries travel while they are on their way to the disk."""

    durability = "fsync"


def removal_that_is_lost(adapter: type[Adapter], before: str = "") -> World:
    """One of two removes the other, which has the entry (and one before it) before it is on the first one's disk; there the power fails.
    They meet again."""
    w = Fsync("AB", adapter)
    w.form("A")
    w.propose("A", "x0")
    exchange(w, "A", "B")
    if before:
        w.propose("A", before)
    change(w, "A", "remove", "B")
    w.flow("A", "B")
    w.work("B")
    w.kill("A", power=True)
    assert members(w, "B") == "A"
    w.restart("A", "B")
    w.work("A")
    assert members(w, "A") == "AB"
    return w


@pytest.mark.parametrize("before", ["", "p0"])
def test_a_leader_whose_removal_of_another_was_lost_is_elected_by_that_other__I9(before: str) -> None:
    w = removal_that_is_lost(variant({Unlisted: None}), before)
    with pytest.raises(AssertionError, match="A was not elected"):
        w.elect("A", "B")
    w = removal_that_is_lost(Adapter, before)
    w.elect("A", "B")
    exchange(w, "A", "B")
    assert members(w, "B") == "AB", "the removal is undone"
    w.propose("A", "x1")
    exchange(w, "A", "B")
    assert commands(w["A"].machine) == commands(w["B"].machine) == ["x0", "x1"]
    assert not w.ledger.violations


def removal_that_is_committed(adapter: type[Adapter]) -> World:
    """Of four, A removes D with B; C has not heard of it. C asks D, and with it B: neither may make it the leader."""
    w = grown("ABCD", adapter)
    w.isolate("C")
    change(w, "A", "remove", "D")
    w.propose("A", "p0")
    w.flow("A", "D")
    exchange(w, "A", "B")
    w.isolate("A")
    for name in "BD":
        w.link("C", name)
    try:
        w.elect("C", "BD")
    except AssertionError:
        return w
    w.propose("C", "q0")
    exchange(w, "C", "BD")
    return w


def test_a_removal_that_is_committed_keeps_out_who_has_not_heard_of_it__I9() -> None:
    w = removal_that_is_committed(Adapter)
    assert b"p0" in w.ledger.acked
    assert members(w, "D") == "ABC"
    assert b"q0" not in w.ledger.acked
    assert not w.ledger.violations
    w.isolate("C")
    w.link("B", "C")
    w.elect("B", "C")
    exchange(w, "B", "C")
    assert commands(w["C"].machine) == ["x0", "p0"]


# Restarts, truncation, snapshots.


def test_a_change_that_is_not_committed_survives_a_restart_and_is_undone_when_it_is_cut_off__I9() -> None:
    w = grown()
    ready(w, "A", "D", "ABC", "BC")
    assert members(w, "A") == "ABCD"
    w.isolate("A")
    w.kill("A")
    w.restart("A")
    assert members(w, "A") == "ABCD"
    w.elect("B", "C")
    w.propose("B", "q0")
    w.beat("B", "C")
    w.link("A", "B")
    w.beat("B", "AC", 4)
    assert members(w, "A") == "ABC"
    assert sorted(w["A"].net.known) == ["B", "C"]
    assert not w.ledger.violations


def test_snapshots_carry_the_members_of_their_index() -> None:
    w = grown(tail_bytes=0)
    asked = ready(w, "A", "D", "ABC", "BC")
    exchange(w, "A", "BCD")
    assert asked.kind == "done"
    w.isolate("C")
    w.propose("A", "x1")
    exchange(w, "A", "BD")
    assert change(w, "A", "remove", "B").kind == "open"
    exchange(w, "A", "BD")
    w.propose("A", "x2")
    exchange(w, "A", "D")
    w.compact("A")
    w.kill("A")
    w.restart("A", "D")
    assert members(w, "A") == "ACD"
    w.elect("A", "D")
    w.link("A", "C")
    exchange(w, "A", "CD", 10)
    assert members(w, "C") == "ACD"
    assert commands(w["C"].machine) == ["x0", "x1", "x2"]
    assert sorted(w["C"].net.known) == ["A", "D"]


def test_a_newcomer_makes_no_snapshot_before_it_knows_the_members() -> None:
    w = grown()
    w.newcomer("D", "A")
    w["A"].adapter._set_beside("D", "joining")
    w.link("A", "D")
    w.flow("A", "D")
    w["D"].adapter._compact_at = 0
    w["D"].adapter._after_applying()
    w.work("D")
    assert not w["D"].storage.snapshots.index
