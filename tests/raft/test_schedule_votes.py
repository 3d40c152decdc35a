"""Schedules around elections: s15, s18, pauses, isolated leaders, and what ``has_fresh_majority`` promises."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.limits import CLOCK_DRIFT
from cluster.raft.adapter import Adapter
from cluster.raft.elections import PreVote, Stickiness, VoteId
from cluster.raft.leading import CheckQuorum
from cluster.raft.messages import APPEND, PRE_VOTE, REQUEST_VOTE, VOTE, encode
from cluster.raft.receiving import StepDown
from cluster.raft.timers import LateTimers
from tests.raft.lab import World
from tests.raft.profiles import Profile
from tests.raft.sim import Weather
from tests.raft.variants import NeverLate, variant

pytestmark = pytest.mark.fast

# What these schedules look at is what comes of it for the others.
CALM = Profile(
    inside=False, proposals=10.0, crashes=0, mid_crashes=0, pauses=0, breaks=0, partitions=0, stalls=0, handovers=0, duration_s=600.0
)


def running(adapter: Any = Adapter, seed: int = 1, nodes: int = 3) -> tuple[Weather, str, list[str]]:
    """A group that runs by itself, its leader and its followers."""
    w = Weather(seed, Profile(**{**CALM.__dict__, "nodes": nodes}) if nodes != 3 else CALM, adapter)
    w.advance(w.now + 3.0)
    (leader,) = (name for name in w.names if w[name].raft.is_leader)
    return w, leader, [name for name in w.names if name != leader]


def s15_vote_twice(adapter: Any) -> list[tuple[str, str]]:
    """Five nodes, two candidates of one term; one vote arrives twice."""
    w = World("ABCDE", adapter)
    w.now += 0.7
    for name in "AE":
        node = w[name]
        node.adapter._campaign(forced=True)
        node.env.run_soon()
    w.flow("A", "B")
    votes = [message for message in w.pending("B", "A") if message[0] == VOTE]
    assert votes == [[VOTE, 1]]
    for _ in range(2):
        w.hand_over("B", "A", encode(*votes[0]))
    for voter in "CD":
        w.flow("E", voter)
        w.flow(voter, "E")
    assert w["E"].raft.is_leader
    return w.ledger.violations


def test_s15_a_vote_counts_once__election_safety() -> None:
    assert s15_vote_twice(Adapter) == []
    assert [rule for rule, _ in s15_vote_twice(variant({VoteId: None}))] == ["ElectionSafety"]


def test_a_late_vote_of_an_earlier_term_does_not_make_a_vote_count_twice__election_safety() -> None:
    w = World("ABCDE")
    w.now += 0.7
    a = w["A"]
    for voter in "CB":
        a.adapter._campaign(forced=True)
        a.env.run_soon()
        w.flow("A", voter)
    (early,), (*_, late) = ([vote for vote in w.pending(name, "A") if vote[0] == VOTE] for name in "CB")
    assert (early, late) == ([VOTE, 1], [VOTE, 2])
    for sender, vote in (("B", late), ("C", early), ("B", late)):
        w.hand_over(sender, "A", encode(*vote))
        assert not a.raft.is_leader, "two of five"


def s18_deaf_follower(adapter: Any) -> int:
    """One follower is not reached for 2.5 s of every 3, for a minute; what it sends arrives. Returns the number of elections meanwhile."""
    w, leader, (deaf, other) = running(adapter)
    before = w.ledger.elections
    for _ in range(20):
        for sender in (leader, other):
            w.stalled[sender, deaf] = w.now + 2.5
        w.advance(w.now + 3.0)
    assert not w.ledger.violations
    return w.ledger.elections - before


def test_s18_a_deaf_node_deposes_nobody() -> None:
    assert s18_deaf_follower(Adapter) == 0
    assert s18_deaf_follower(variant({PreVote: None, Stickiness: None})) > 5
    assert s18_deaf_follower(variant({PreVote: None})) > 5, "it raises its term meanwhile, and is heard when it answers"


def r5_paused_follower(adapter: Any) -> int:
    """A follower stands still for half a second, twenty times; its timers come first when it wakes. Returns by how much the term rose."""
    w, leader, (follower, _) = running(adapter)
    before = w[leader].raft.term
    for _ in range(20):
        w.asleep[follower] = []
        w.advance(w.now + 0.5)
        w.wake(follower)
        w.advance(w.now + 1.0)
    assert not w.ledger.violations
    return max(w[name].raft.term for name in w.names) - before


def test_r5_twenty_pauses_of_a_follower_change_no_term() -> None:
    assert r5_paused_follower(Adapter) == 0
    assert r5_paused_follower(variant({LateTimers: NeverLate})) == 0, "pre-vote is enough"
    without_votes = r5_paused_follower(variant({PreVote: None, Stickiness: None}))
    without_all = r5_paused_follower(variant({PreVote: None, Stickiness: None, LateTimers: NeverLate}))
    assert without_votes <= 8 < 15 <= without_all, (
        "reading the sockets first helps, but for what fell due just before the end"
    )


def r6_isolated_leader(adapter: Any) -> bool:
    """A leader is cut off. Returns whether it still believes in itself two seconds later."""
    w, leader, followers = running(adapter)
    for follower in followers:
        w.apart.add(frozenset((leader, follower)))
        w.cut(leader, follower)
    config = w[leader].adapter._config
    w.advance(w.now + config.election_min_s)
    assert not w[leader].raft.has_fresh_majority(), "it trusts itself no longer, whatever its role is"
    w.advance(w.now + config.election_max_s + 2 * config.heartbeat_s - config.election_min_s)
    soon = w[leader].raft.is_leader
    w.advance(w.now + 2.0)
    assert any(w[name].raft.is_leader for name in followers)
    assert soon == w[leader].raft.is_leader
    assert not w.ledger.violations
    return soon


def test_r6_an_isolated_leader_steps_down_within_the_election_timeout__E2() -> None:
    assert not r6_isolated_leader(Adapter)
    assert r6_isolated_leader(variant({CheckQuorum: None}))


def old_leader_returns(adapter: Any) -> bool:
    """A leader that was replaced is heard again. Returns whether an answer alone tells it."""
    w = World("ABC", adapter)
    w.form("A")
    w.isolate("A")
    w.elect("B", "C")
    w.link("A", "C")
    w.lose("C", "A")
    w.tick("A")
    w.flow("A", "C")
    w.flow("C", "A")
    return not w["A"].raft.is_leader


def test_an_old_leader_steps_down_on_an_answer_of_a_greater_term() -> None:
    assert old_leader_returns(Adapter)
    assert not old_leader_returns(variant({StepDown: None}))


def test_nobody_votes_within_the_shortest_election_timeout_of_hearing_a_leader() -> None:
    w = World("ABC")
    w.form("A")
    config = w["B"].adapter._config
    w.tick("A")
    w.flow("A", "B")
    heard = w.now
    for at, answered in ((heard + config.election_min_s - 0.001, 0), (heard + config.election_min_s, 1)):
        w.now = at
        w.hand_over("C", "B", encode(PRE_VOTE, 1, 7, 100, 1))
        assert len(w.pending("B", "C")) == answered
        w.lose("B", "C")
    w.now = heard + config.election_min_s - 0.001
    w.hand_over("C", "B", encode(REQUEST_VOTE, 2, 100, 1, False))
    assert w["B"].raft.term == 1, "it does not even take the greater term"
    w.hand_over("C", "B", encode(REQUEST_VOTE, 2, 100, 1, True))
    assert w.pending("B", "C") == [[VOTE, 2]], "unless the leader itself asked for the election"


def test_nobody_votes_for_the_shortest_election_timeout_after_its_start() -> None:
    w = World("ABC")
    w.form("A")
    w.kill("B")
    w.now += 5.0
    w.restart("B", "AC")
    w.hand_over("C", "B", encode(REQUEST_VOTE, 2, 100, 1, False))
    assert not w.pending("B", "C")
    w.now += w["B"].adapter._config.election_min_s
    w.hand_over("C", "B", encode(REQUEST_VOTE, 2, 100, 1, False))
    assert w.pending("B", "C") == [[VOTE, 2]]


def test_freshness_counts_from_the_sending_of_what_was_answered() -> None:
    w = World("ABC")
    w.form("A")
    window = w["A"].adapter._config.election_min_s * (1 - CLOCK_DRIFT)
    w.now += 10.0
    assert not w["A"].raft.has_fresh_majority()
    w.propose("A", "x0")
    sent = w.now
    w.flow("A", "B")
    w.now += window - 0.01
    w.flow("B", "A")  # The answer comes late, and is fresh for what is left of the window only.
    assert w["A"].raft.has_fresh_majority()
    w.now = sent + window + 0.001
    assert not w["A"].raft.has_fresh_majority()


def test_a_copy_of_a_vote_request_cannot_make_a_second_vote_in_a_term__election_safety() -> None:
    w = World("ABC")
    w.now += 0.7
    for name in "AC":
        w[name].adapter._campaign(forced=True)
    w.flow("A", "B")
    w.kill("B")
    w.restart("B", "AC")
    w.now += 0.7
    w.hand_over("C", "B", encode(REQUEST_VOTE, 1, 1, 0, True))
    assert not w.pending("B", "C"), "the vote of this term was kept on disk"


def test_appends_carry_the_commit_index_at_once() -> None:
    w = World("ABC")
    w.form("A")
    w.propose("A", "x0")
    w.flow("A", "B")
    w.flow("B", "A")
    assert w["A"].machine.commands == [b"x0"], "committed and applied when the answer came, without a tick"
    w.propose("A", "x1")
    assert w.pending("A", "B")[-1][0] == APPEND
    w.flow("A", "B")
    assert w["B"].machine.commands == [b"x0"]


def leaderless() -> World:
    """Three nodes, whose leader has died; the others have waited long enough."""
    w = World("ABC")
    w.form("A")
    w.kill("A")
    w.now += 0.7
    return w


def asks(w: World, name: str) -> None:
    w[name].adapter._guard(w[name].adapter._campaign)
    w[name].env.run_soon()


def test_of_two_that_ask_at_the_same_time_one_stands() -> None:
    w = leaderless()
    asks(w, "B")
    asks(w, "C")
    for _ in range(3):
        w.flow("B", "C")
        w.flow("C", "B")
    assert [w[name].raft.is_leader for name in "BC"] == [False, True]
    assert [w[name].raft.term for name in "BC"] == [2, 2]


def test_who_gave_its_vote_does_not_stand_on_the_answers_to_an_earlier_question() -> None:
    w = leaderless()
    asks(w, "B")
    w.flow("B", "C")
    w.flow("C", "B")
    asked = [message for message in w.pending("B", "C") if message[0] == REQUEST_VOTE]
    assert asked, "B stands"
    asks(w, "C")
    w.flow("C", "B")
    for _ in range(3):
        w.flow("B", "C")
        w.flow("C", "B")
    assert [w[name].raft.is_leader for name in "BC"] == [True, False]
    assert [w[name].raft.term for name in "BC"] == [2, 2]
