"""Nodes come and go, and what whoever asked for it is told."""

from __future__ import annotations

from cluster.raft.changing import CONNECT_S
from cluster.raft.listing import members_entry
from cluster.raft.messages import PRE_GRANT, PRE_VOTE, VOTE
from tests.raft.lab import World
from tests.raft.operating import Asked, change, exchange, grown, members, ready
from tests.raft.variants import commands

# Coming and going.


def test_a_node_is_added_counts_and_is_told_of_all__E11() -> None:
    w = grown()
    w.newcomer("D", "B")
    change(w, "A", "add", "D")
    assert not w.let_in("D", "B"), "who is not added is not let in"
    assert w.let_in("A", "D"), "the leader is no peer of D, but of the one that D was told of"
    ready(w, "A", "D", "B", "BC")
    exchange(w, "A", "BCD")
    assert members(w, "D") == members(w, "B") == "ABCD"
    for name in "BC":
        assert w.let_in("D", name)
        w.link("D", name)
    w.isolate("C")
    w.propose("A", "y0")
    exchange(w, "A", "D")
    assert b"y0" not in w.ledger.acked, "two of four"
    exchange(w, "A", "BD")
    assert b"y0" in w.ledger.acked
    assert not w.ledger.violations


def test_a_group_of_one_grows_and_shrinks_again__E11() -> None:
    w = World("A", single=True)
    w.tick("A", 0.001)
    w.propose("A", "x0")
    w.config.clear()
    w["A"].told = ()
    asked = ready(w, "A", "B", "A", "")
    exchange(w, "A", "B")
    assert asked.kind == "done"
    w.propose("A", "x1")
    assert b"x1" not in w.ledger.acked, "one of two is no majority"
    exchange(w, "A", "B")
    assert b"x1" in w.ledger.acked
    w.kill("A")
    w.restart("A")
    w.tick("A", 1.0)
    assert not w["A"].raft.is_leader, "started with --single as before, and it is one of two"
    w.link("A", "B")
    w.elect("A", "B")
    exchange(w, "A", "B")
    assert change(w, "A", "remove", "B").kind == "done", "it needs nobody's consent"
    exchange(w, "A", "B")
    assert "was removed from its raft group (its members are A)" in w["B"].fatal[0]
    w.isolate("B")
    w.propose("A", "x2")
    w["A"].env.run_soon()
    assert b"x2" in w.ledger.acked
    assert commands(w["A"].machine) == ["x0", "x1", "x2"]


def test_a_removed_node_is_told_and_stops_and_others_forget_it() -> None:
    w = grown()
    asked = change(w, "A", "remove", "C")
    exchange(w, "A", "BC")
    assert asked.kind == "done"
    assert w["C"].fatal
    assert "node C was removed from its raft group (its members are A, B)" in w["C"].fatal[0]
    w.kill("C")
    w["A"].env.run_soon()
    assert sorted(w["A"].net.known) == ["B"]
    assert sorted(w["B"].net.known) == ["A"]


def test_a_node_that_has_not_heard_of_its_removal_is_not_added() -> None:
    w = grown()
    assert change(w, "A", "remove", "C").kind == "open"
    exchange(w, "A", "B", 1)
    w.flow("B", "A")
    assert members(w, "A") == "AB"
    again = change(w, "A", "add", "C")
    assert again[0].text == "C is being told that it was removed"
    assert again[0].again
    exchange(w, "A", "BC")
    assert w["C"].fatal, "as who was removed, and counts no more"
    assert members(w, "A") == "AB"


def test_votes_of_who_is_no_member_do_not_count() -> None:
    w = grown()
    ready(w, "A", "D", "ABC", "BC")
    w.isolate("D")
    w["B"].adapter._set_beside("D", "guest")
    w["B"].adapter._campaign(forced=True)
    term = w["B"].raft.term
    b = w["B"].adapter
    b._guard(b._on_vote, b._peers["D"], [VOTE, term])
    b._guard(b._on_pre_grant, b._peers["D"], [PRE_GRANT, term, b._round])
    assert not w["B"].raft.is_leader


def test_a_member_of_which_this_node_has_not_heard_is_let_in_and_can_lead_it() -> None:
    w = grown("ABC")
    w.isolate("C")
    asked = ready(w, "A", "D", "ABC", "B")
    exchange(w, "A", "BD")
    w.link("D", "B")
    assert asked.kind == "done"
    assert members(w, "C") == "ABC"
    w.kill("A")
    assert w.let_in("D", "C")
    w.link("D", "C")
    w.elect("D", "BC")
    exchange(w, "D", "BC")
    assert members(w, "C") == "ABCD"
    assert not w.ledger.violations


def test_a_stranger_is_not_let_in() -> None:
    w = grown()
    other = World("XY")
    other.form("X")
    hello = other["X"].hello()
    code, text = w["A"].raft.objection(hello) or ("", "")
    assert code == "member"
    assert "'members add X' lets it in" in text


# What an operator is told.


def test_objections_say_what_and_why() -> None:
    w = grown()
    answers = {
        ("add", "B"): "B is a member already",
        ("remove", "X"): "X is not a member",
    }
    for (verb, name), text in answers.items():
        outcome = change(w, "A", verb, name)[0]
        assert (outcome.kind, outcome.text, outcome.again) == ("refused", text, False)
    one = World("A", single=True)
    one.tick("A", 0.001)
    assert change(one, "A", "remove", "A")[0].text == "A is the last member"
    assert change(w, "B", "add", "D").kind == "unsure", "ask the leader"


def test_one_change_at_a_time_and_the_same_request_may_ask_again() -> None:
    w = grown()
    first = change(w, "A", "add", "D", b"1")
    second = change(w, "A", "remove", "C", b"2")
    assert second[0].text == "another change is under way: D is being added"
    assert second[0].again
    again = change(w, "A", "add", "D", b"1")
    assert first.kind == "unsure"
    assert again.kind == "open"
    w.tick("A", CONNECT_S)
    # The leader has lost its majority in that time, or says that D never came.
    assert again.kind in ("refused", "unsure")


def test_a_newcomer_that_is_not_there_is_named() -> None:
    w = grown()
    asked = change(w, "A", "add", "D")
    for _ in range(130):
        exchange(w, "A", "BC", 2)
    assert asked[0].text == "D was not reached within 10 s"
    assert "--peers A,B,C" in asked[0].hint
    assert sorted(w["A"].net.known) == ["B", "C"]


def test_a_newcomer_that_dies_while_it_catches_up_does_not_keep_others_waiting() -> None:
    w = grown()
    w.newcomer("D", "A")
    asked = change(w, "A", "add", "D")
    w.link("A", "D")
    for _ in range(5):
        exchange(w, "A", "BC", 60)
    assert asked.kind == "open", "connected, and slow"
    w.kill("D")
    for _ in range(int(CONNECT_S / 2)):
        exchange(w, "A", "BC", 60)
    assert asked.kind == "refused"
    assert "D was not reached" in asked[0].text
    assert change(w, "A", "remove", "C").kind == "open", "the next one may begin"


def test_a_removal_that_would_leave_no_majority_is_refused() -> None:
    w = grown()
    w.kill("C")
    for _ in range(12):
        exchange(w, "A", "B", 2)
    outcome = change(w, "A", "remove", "B")[0]
    assert outcome.kind == "refused"
    assert "too few answer: C do not" in outcome.text
    assert change(w, "A", "remove", "C").kind == "open"
    exchange(w, "A", "B")
    assert members(w, "B") == "AB"


def test_a_request_that_was_done_and_is_asked_again_is_done() -> None:
    w = grown()
    change(w, "A", "remove", "C", b"1")
    exchange(w, "A", "BC")
    assert change(w, "A", "remove", "C", b"1").kind == "done"
    assert change(w, "A", "remove", "C", b"2")[0].text == "C is not a member"


def test_the_leader_that_is_removed_hands_over_first() -> None:
    w = grown()
    asked = change(w, "A", "remove", "A", b"1")
    for _ in range(4):
        for other in "BC":
            w.flow("A", other)
            w.flow(other, "A")
        w.flow("B", "C")
        w.flow("C", "B")
    assert asked.kind == "unsure", "the next leader knows"
    leader = next(name for name in "BC" if w[name].raft.is_leader)
    other = "C" if leader == "B" else "B"
    exchange(w, leader, "A" + other)
    asked = change(w, leader, "remove", "A", b"1")
    exchange(w, leader, "A" + other)
    assert asked.kind == "done"
    assert w["A"].fatal
    assert not w.ledger.violations


def test_a_handover_is_answered() -> None:
    w = grown()
    asked = Asked()
    w["A"].raft.hand_over("X", asked.append)
    assert asked[0].text == "X is not a member"
    asked = Asked()
    w["A"].raft.hand_over("A", asked.append)
    assert asked.kind == "done", "it leads already"
    asked = Asked()
    w["A"].raft.hand_over("B", asked.append)
    exchange(w, "A", "BC", 1)
    w.flow("B", "C")
    w.flow("C", "B")
    w.flow("B", "A")
    assert asked.kind == "done"
    assert w["B"].raft.is_leader


def test_an_entry_that_names_no_members_stops_the_node() -> None:
    w = grown()
    entry = members_entry("AB")
    for bad in (b"\xff", b"\xff\x01", entry[:2] + b"\x02" + entry[3:], entry[:-1]):
        w = grown()
        w["A"].adapter._guard(w["A"].adapter._append_entry, bad)
        assert w["A"].fatal, bad


def test_pre_votes_are_asked_of_members_only() -> None:
    w = grown()
    w.newcomer("D", "ABC")
    w["B"].adapter._set_beside("D", "guest")
    w.link("B", "D")
    w["B"].adapter._campaign()
    assert any(message[0] == PRE_VOTE for message in w.pending("B", "C"))
    assert not w.pending("B", "D")


# Who may stand by a list, stands when its leader is silent.


def stands_in_silence(w: World, name: str, other: str) -> bool:
    """Connected and unheard for seconds, it asks for votes."""
    for _ in range(40):
        w.now += 0.05
        w[name].env.fire_due()
    return any(message[0] == PRE_VOTE for message in w.pending(name, other))


def test_a_node_that_is_added_stands_when_its_leader_falls_silent() -> None:
    w = grown("ABC")
    ready(w, "A", "D", "ABC", "BC")
    w.flow("A", "D")
    w.work("D")
    assert members(w, "D") == "ABCD"
    assert w.let_in("D", "B")
    w.link("D", "B")
    assert stands_in_silence(w, "D", "B")


def test_a_node_whose_removal_came_to_nothing_stands_when_its_leader_falls_silent() -> None:
    w = grown("ABC")
    w.cut("A", "B")
    change(w, "A", "remove", "C")
    w.flow("A", "C")
    assert members(w, "C") == "AB"
    assert not stands_in_silence(w, "C", "B"), "it is not a member, as far as it knows"
    w.kill("A")
    w.elect("B", "C")
    exchange(w, "B", "C")
    assert members(w, "C") == "ABC"
    assert stands_in_silence(w, "C", "B")
