"""Nodes that were removed, or nearly added, while they were away, and come back with what they had."""

from __future__ import annotations

from typing import Any

import pytest

from tests.raft.lab import World
from tests.raft.operating import change, exchange, grown, members, ready


def test_a_node_that_was_removed_while_it_was_away_learns_it_when_it_calls() -> None:
    w = grown("ABCD")
    w.kill("D")
    assert change(w, "A", "remove", "D").kind == "open"
    exchange(w, "A", "BC")
    w.restart("D")
    assert not w.let_in("D", "B")
    assert "removed" in w["D"].fatal[0]
    term = w["A"].raft.term
    w.now += 5.0
    w["D"].env.fire_due()
    assert w["A"].raft.term == term


def test_a_node_that_has_its_removal_in_the_log_and_not_its_commit_learns_it_too() -> None:
    w = grown()
    change(w, "A", "remove", "C")
    w.flow("A", "C")
    w.isolate("C")
    exchange(w, "A", "B")
    assert members(w, "C") == "AB"
    assert not w["C"].fatal
    assert not w.let_in("C", "B")
    assert "B says: node C was removed from its raft group" in w["C"].fatal[0]


def test_a_member_that_was_removed_once_and_added_again_is_not_stopped_by_who_knows_the_first_only__E11() -> None:
    w = World("ABCD", tail_bytes=0)
    w.form("A")
    w.propose("A", "x0")
    w.beat("A", "BCD")
    w.compact("A")
    assert change(w, "A", "remove", "D").kind == "open"
    exchange(w, "A", "BCD")
    w.compact("B")
    w.kill("D")
    w.wipe("D")
    w.restart("D")
    w["D"].fatal.clear()
    asked = ready(w, "A", "D", "ABC", "BC")
    exchange(w, "A", "BCD")
    assert asked.kind == "done"
    for name in "ABCD":
        w.kill(name)
    for name in "BCD":
        w.restart(name)
    assert members(w, "D") == "ABCD"
    assert w.let_in("D", "B"), "it has a snapshot from in between"
    assert not w["D"].fatal
    w["D"].raft.told_of_removal("B", "from the past")
    assert not w["D"].fatal, "so does whoever is of an earlier opinion"
    for name in "BC":
        w.link("D", name)
    w.link("B", "C")
    w.elect("D", "BC")


def test_who_was_added_is_let_in_by_a_node_that_has_a_snapshots_state_and_not_yet_its_members() -> None:
    w = grown(tail_bytes=0)
    w.isolate("B")
    asked = ready(w, "A", "D", "ABC", "C")
    exchange(w, "A", "CD")
    assert asked.kind == "done"
    w.propose("A", "y0")
    exchange(w, "A", "CD")
    w.compact("A")
    assert w["A"].adapter._first > w["B"].last
    w.link("A", "B")
    for _ in range(20):
        w.tick("A")
        w.flow("A", "B")
        if w["B"].adapter._installing:
            break
        w.flow("B", "A")
    assert w["B"].adapter._installing, "its state is the snapshot's"
    assert members(w, "B") == "ABC"
    assert w.let_in("D", "B")
    assert not w["D"].fatal
    w.work("B")
    exchange(w, "A", "BCD")
    assert members(w, "B") == "ABCD"


def added_then_removed_while_away(**config: Any) -> World:
    """D has the entry with its addition, and has not applied it when it goes."""
    w = World("ABC", **config)
    w.form("A")
    asked = ready(w, "A", "D", "ABC", "BC")
    w.flow("A", "D")
    w.kill("D")
    exchange(w, "A", "BC")
    assert asked.kind == "done"
    removed = change(w, "A", "remove", "D")
    exchange(w, "A", "BC")
    assert removed.kind == "done"
    w.restart("D")
    assert members(w, "D") == "ABCD"
    return w


def test_a_node_that_was_removed_before_it_had_applied_its_addition_learns_it_too() -> None:
    w = added_then_removed_while_away()
    assert not w.let_in("D", "B")
    assert "B says: node D was removed from its raft group" in w["D"].fatal[0]


def not_added_as_it_is(w: World) -> None:
    asked = change(w, "A", "add", "D")
    assert w.let_in("A", "D")
    w.link("D", "A")
    exchange(w, "A", "BCD")
    assert asked.kind == "refused"
    assert "D has the data of the member that was removed" in asked[0].text
    assert not w["D"].fatal, "as a member, that is: it would have stopped while it counts"


def test_a_node_that_was_removed_before_it_had_applied_its_addition_is_not_added_again_as_it_is() -> None:
    w = added_then_removed_while_away()
    not_added_as_it_is(w)


def test_nor_where_the_log_does_not_say_any_more_which_addition_it_was() -> None:
    w = added_then_removed_while_away(tail_bytes=0)
    w.compact("A")
    w.compact("B")
    assert w["A"].adapter._first > w["D"].last
    assert w.let_in("D", "B"), "it is not told for certain"
    asked = change(w, "A", "add", "D")
    assert w.let_in("D", "A")
    w.link("D", "A")
    exchange(w, "A", "BCD")
    assert asked.kind == "refused"


def test_nor_if_it_never_had_the_entry_with_its_addition() -> None:
    w = World("ABC")
    w.form("A")
    asked = ready(w, "A", "D", "ABC", "BC")
    w.kill("D")
    exchange(w, "A", "BC")
    assert asked.kind == "done"
    change(w, "A", "remove", "D")
    exchange(w, "A", "BC")
    w.restart("D")
    assert members(w, "D") == "ABC"
    not_added_as_it_is(w)


def test_a_node_that_had_applied_its_addition_is_told_whatever_is_left_of_the_log() -> None:
    w = World("ABC", tail_bytes=0)
    w.form("A")
    ready(w, "A", "D", "ABC", "BC")
    exchange(w, "A", "BCD")
    assert w["D"].storage.meta.member_since
    w.kill("D")
    change(w, "A", "remove", "D")
    exchange(w, "A", "BC")
    w.compact("A")
    w.compact("B")
    w.restart("D")
    assert w["A"].adapter._first > w["D"].last
    assert not w.let_in("D", "B")
    assert "B says: node D was removed from its raft group" in w["D"].fatal[0]


def test_a_node_whose_addition_came_to_nothing_is_not_told_that_it_was_removed() -> None:
    w = grown()
    asked = ready(w, "A", "D", "ABC", "BC")
    for name in "BC":
        w.isolate(name, ["A"])
    w.flow("A", "D")
    assert members(w, "D") == "ABCD"
    w.kill("A")
    w.elect("B", "C")
    w.propose("B", "y0")
    exchange(w, "B", "C")
    assert asked.kind != "done"
    assert w.let_in("D", "B")
    w.link("D", "B")
    assert ready(w, "B", "D", "BC", "C").kind == "open"
    exchange(w, "B", "CD")
    assert members(w, "D") == "ABCD"
    assert not w["D"].fatal


def test_how_an_earlier_incarnation_left_stops_nobody_whose_addition_came_to_nothing() -> None:
    """D was added and removed, comes back empty, and its addition is lost. It starts again, and so applies its log from the begin."""
    w = grown()
    ready(w, "A", "D", "ABC", "BC")
    exchange(w, "A", "BCD")
    change(w, "A", "remove", "D")
    exchange(w, "A", "BCD")
    w.kill("D")
    w.wipe("D")
    w["D"].fatal.clear()
    w.restart("D")
    asked = change(w, "A", "add", "D", b"again")
    assert w.let_in("A", "D")
    w.link("A", "D")
    for _ in range(30):
        w.tick("A")
        for name in "BCD":
            if members(w, "A") != "ABCD":
                w.flow("A", name)
                w.work(name)
                w.flow(name, "A")
    for name in "BC":
        w.isolate(name, ["A"])
    w.flow("A", "D")
    w.work("D")
    assert members(w, "D") == "ABCD"
    assert asked.kind != "done"
    w.kill("A")
    w.kill("D")
    w.elect("B", "C")
    exchange(w, "B", "C")
    w.restart("D")
    assert members(w, "D") == "ABCD", "it has the entry that came to nothing"
    asked = change(w, "B", "add", "D", b"another")
    assert w.let_in("D", "B")
    w.link("D", "B")
    exchange(w, "B", "CD", 12)
    assert not w["D"].fatal
    assert asked.kind == "done"


def joined_and_not_added() -> World:
    """D has joined, the entry of its addition is nowhere, A, who led, is dead, and the others have compacted its mark away."""
    w = grown(tail_bytes=0)
    ready(w, "A", "D", "ABC", "BC")
    w.kill("A")
    assert (members(w, "D"), w["D"].storage.meta.joined) == ("ABC", True)
    w.elect("B", "C")
    w.propose("B", "y0")
    exchange(w, "B", "C")
    w.compact("B")
    assert w["B"].adapter._first > w["D"].storage.meta.member_since
    return w


def test_who_joined_and_was_never_added_is_added_although_the_logs_go_back_no_further() -> None:
    w = joined_and_not_added()
    asked = change(w, "B", "add", "D", b"again")
    assert w.let_in("B", "D")
    w.link("D", "B")
    exchange(w, "B", "CD", 12)
    assert asked.kind == "done"
    assert members(w, "B") == "ABCD"
    assert not w["D"].fatal


def test_who_may_have_been_removed_just_before_the_log_begins_is_not_added_until_that_is_over() -> None:
    w = joined_and_not_added()
    # The first list that B's log knows is one of a change: of which, the log does not say.
    change(w, "B", "remove", "A")
    exchange(w, "B", "C")
    asked = change(w, "B", "add", "D", b"again")
    assert w.let_in("B", "D")
    w.link("D", "B")
    exchange(w, "B", "CD", 12)
    assert asked.kind == "refused"
    w.compact("B")
    asked = change(w, "B", "add", "D", b"once more")
    if "D" not in w["B"].net.links:
        assert w.let_in("B", "D")
        w.link("D", "B")
    exchange(w, "B", "CD", 12)
    assert asked.kind == "done"
    assert not w["D"].fatal


@pytest.mark.parametrize("compacted", [False, True])
def test_who_lost_its_disk_and_joined_again_is_told_whatever_its_log_says_of_an_earlier_incarnation(compacted: bool) -> None:
    w = grown(tail_bytes=0)
    asked = ready(w, "A", "D", "ABC", "BC")
    exchange(w, "A", "BCD")
    assert asked.kind == "done"
    w.kill("D")
    w.wipe("D")
    w.restart("D", "A")
    exchange(w, "A", "BCD", 12)
    assert w["D"].storage.meta.joined
    w.kill("D")
    assert change(w, "A", "remove", "D").kind == "open"
    exchange(w, "A", "BC")
    if compacted:
        w.compact("B")
    w.restart("D")
    assert len({"D" in each.names for each in w["D"].adapter._lists}) == 2, "its log goes back to before it was added first"
    assert not w["D"].fatal
    assert not w.let_in("D", "B")
    assert "removed" in w["D"].fatal[0]


def test_a_removed_node_with_its_old_directory_stays_out() -> None:
    w = grown()
    change(w, "A", "remove", "C")
    exchange(w, "A", "BC")
    w.kill("C")
    w.restart("C")
    w["C"].adapter._campaign()
    assert w["C"].raft.status()["role"] == "follower"
    assert not w["C"].raft.status()["member"]
