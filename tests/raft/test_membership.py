"""Forming a group, joining it, and coming back without one's memory."""

from __future__ import annotations

import itertools
import logging

import pytest

from cluster.limits import MEMBERS_MAX, NODE_ID_MAX_BYTES
from cluster.net.handshake import NONCE_BYTES, challenge_fields, hello_fields
from cluster.ports import Hello
from cluster.raft.adapter import Adapter
from cluster.raft.config import RaftConfig
from cluster.raft.messages import ACK, ADMIT
from cluster.raft.peer import Peer
from tests.raft.lab import World
from tests.raft.profiles import Profile
from tests.raft.sim import Weather
from tests.raft.variants import commands

pytestmark = pytest.mark.fast

CALM = Profile(crashes=0, mid_crashes=0, pauses=0, breaks=0, partitions=0, stalls=0, handovers=0, duration_s=600.0)


def unconnected(names: str = "ABC") -> World:
    w = World(names, connect=False)
    for name in names:
        w[name].boot()
    return w


def member(w: World, name: str) -> bool:
    return bool(w[name].storage.meta.joined)


# Forming.


def test_a_group_forms_when_all_are_there_and_blank() -> None:
    w = unconnected()
    w.link("A", "B")
    assert not any(member(w, name) for name in "ABC"), "two of three may be the two that were wiped"
    w.link("B", "C")
    assert member(w, "B")
    assert not member(w, "A")
    w.link("A", "C")
    assert all(member(w, name) for name in "ABC")
    formed = {name: w[name].storage.meta.incarnation for name in "ABC"}
    assert all(w[name].storage.meta.formed == formed for name in "ABC")


def test_a_blank_node_neither_votes_nor_stands() -> None:
    w = unconnected()
    w.link("A", "B")
    w.now += 5.0
    for name in "AB":
        w[name].env.fire_due()
        w[name].adapter._campaign()
        assert w[name].raft.term == 0
    assert not w.pending("A", "B")


@pytest.mark.parametrize("order", list(itertools.permutations(["AB", "BC", "AC"])))
@pytest.mark.parametrize("restarted", ["A", "B", "C"])
def test_forming_survives_a_restart_at_any_moment(order: tuple[str, ...], restarted: str) -> None:
    for moment in range(4):
        w = unconnected()
        for step, pair in enumerate(order):
            if step == moment:
                w.kill(restarted)
                w.restart(restarted)
            w.link(*pair)
        if moment == 3:
            w.kill(restarted)
            w.restart(restarted)
        for a, b in itertools.combinations("ABC", 2):
            w.link(a, b)
        assert all(member(w, name) for name in "ABC"), (moment, order)
        w.form("A")


def test_a_node_that_was_wiped_before_the_first_election_still_forms() -> None:
    w = unconnected()
    w.link("A", "B")
    w.link("B", "C")
    w.link("A", "C")
    w.kill("B")
    w.wipe("B")
    w.restart("B", "AC")
    assert member(w, "B"), "nobody has promised anything yet"
    w.form("B")


def test_different_lists_form_no_group_and_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    w = World("ABC", connect=False)
    for name in "AB":
        w[name].boot()
    w.names = tuple("ABD")
    w.nodes["D"] = w.nodes.pop("C")
    w["D"].name = "D"
    w.names = tuple("ACD")
    w["D"].boot()
    with caplog.at_level(logging.WARNING):
        w.names = tuple("ABCD")
        w["A"].net.on_connected("C", w["D"].hello())
        w["A"].net.on_connected("C", w["D"].hello())
        w.link("A", "B")
    lines = [record.getMessage() for record in caplog.records if "raft.members_differ" in record.getMessage()]
    assert len(lines) == 1
    assert "mine=A,B,C" in lines[0]
    assert "theirs=A,C,D" in lines[0]
    assert not member(w, "A")


def test_a_group_of_one_leads_at_once_and_after_a_restart() -> None:
    w = World("A", single=True)
    w.tick("A", 0.001)
    assert w["A"].raft.is_leader
    assert w["A"].raft.has_fresh_majority()
    w.propose("A", "x0")
    assert commands(w["A"].machine) == ["x0"]
    w.kill("A")
    w.restart("A")
    w.tick("A", 0.001)
    assert w["A"].raft.is_leader
    assert commands(w["A"].machine) == ["x0"]


def test_a_group_of_one_never_applies_within_the_proposal() -> None:
    w = World("A", single=True)
    w.tick("A", 0.001)
    index = w["A"].raft.propose(b"x0")
    assert index is not None
    assert w["A"].machine.commands == []
    w["A"].env.run_soon()
    assert w["A"].machine.commands == [b"x0"]


# Joining.


def wiped_follower(w: World) -> None:
    w.form("A")
    for i in range(3):
        w.propose("A", f"x{i}")
    w.beat("A", "BC")
    w.kill("B")
    w.wipe("B")


def test_a_wiped_node_catches_up_before_it_counts__E5() -> None:
    w = World("ABC")
    wiped_follower(w)
    w.restart("B", "AC")
    assert not member(w, "B")
    w.isolate("C")
    w.propose("A", "y0")
    w.flow("A", "B")
    answers = [message for message in w.pending("B", "A") if message[0] == ACK]
    assert answers
    assert not any(message[5] for message in answers), "it says itself that it does not count"
    w.flow("B", "A")
    w.flow("A", "B")
    w.flow("B", "A")
    assert b"y0" not in w.ledger.acked, "the leader and a node without memory are no majority"
    w.link("A", "C")
    w.beat("A", "BC")
    assert b"y0" in w.ledger.acked
    assert member(w, "B")
    assert w["B"].storage.meta.no_vote_through == w["A"].raft.term
    w.isolate("C")
    w.propose("A", "y1")
    w.beat("A", "B")
    assert b"y1" in w.ledger.acked, "now it counts"


def test_a_node_that_came_back_without_memory_does_not_vote_in_the_term_it_joined_in() -> None:
    w = World("ABC")
    wiped_follower(w)
    w.restart("B", "AC")
    w.beat("A", "BC", 4)
    assert member(w, "B")
    term = w["A"].raft.term
    w.now += 1.0
    assert not w["B"].adapter._may_vote(term, True)
    assert w["B"].adapter._may_vote(term + 1, False)


def test_membership_that_was_gained_survives_a_restart() -> None:
    w = World("ABC")
    wiped_follower(w)
    w.restart("B", "AC")
    w.beat("A", "BC", 4)
    w.kill("B")
    w.restart("B", "AC")
    assert member(w, "B")
    w.isolate("C")
    w.propose("A", "y0")
    w.beat("A", "B")
    assert b"y0" in w.ledger.acked


@pytest.mark.parametrize("joined_later", [False, True])
@pytest.mark.parametrize("names", ["AB", "BC", "B", "ABD", "ABCD", "ABCDE"])
def test_a_member_that_is_told_of_other_members_keeps_those_it_has__I1(
    names: str, joined_later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    w = World("ABC")
    if joined_later:
        wiped_follower(w)
        w.restart("B", "AC")
        w.beat("A", "BC", 4)
    else:
        w.form("A")
    assert member(w, "B")
    w.kill("B")
    w.names = tuple(names)
    w["B"].config["single"] = names == "B"
    with caplog.at_level(logging.WARNING):
        w.restart("B")
    assert f"raft.members_kept node=B kept=A,B,C told={','.join(names)} " in caplog.text
    assert sorted(w["B"].net.known) == ["A", "C"]
    term = w["B"].raft.term
    w.now += 5.0
    w["B"].env.fire_due()
    assert not w["B"].raft.is_leader, "one of three is no majority, whatever it is told"
    assert w["B"].raft.term == term
    w.link("A", "B")
    w.link("B", "C")
    w.isolate("C")
    w.elect("A", "B")
    w.propose("A", "y0")
    w.beat("A", "B")
    assert b"y0" in w.ledger.acked, "it is a member as before"


def test_a_node_that_is_no_member_yet_may_be_told_of_others() -> None:
    w = unconnected()
    w.kill("A")
    w.names = tuple("AB")
    w.restart("A")
    assert not member(w, "A")


def test_a_wiped_node_is_brought_up_by_a_snapshot_too() -> None:
    w = World("ABC", tail_bytes=0)
    wiped_follower(w)
    w.compact("A")
    w.restart("B", "AC")
    w.beat("A", "BC", 6)
    assert member(w, "B")
    assert commands(w["B"].machine) == ["x0", "x1", "x2"]


class JoinsWhenLevel(Adapter):
    """Becomes a member as soon as it has what its leader has committed in its own term: too early."""

    def _progressed(self) -> None:
        commit = self._SyncObj__raftCommitIndex
        if not self._member and self._log[commit - self._first][2] == self.term > 0:
            self._meta.save(joined=True, no_vote_through=self.term)
            self._member = True

    def _consider(self, peer: Peer) -> None:
        return


def promise_that_was_forgotten(adapter: type[Adapter]) -> World:
    """B votes for C in term 2 and helps it commit; it is wiped, and the leader of term 1, which knows nothing of this, takes it in."""
    w = World("ABC", adapter)
    w.form("A")
    w.propose("A", "x0")
    w.beat("A", "BC")
    w.isolate("A")
    w.elect("C", "B")
    w.propose("C", "q0")
    w.beat("C", "B")
    assert b"q0" in w.ledger.acked
    w.kill("B")
    w.wipe("B")
    w.restart("B", "A")
    assert w["A"].raft.is_leader
    for _ in range(3):
        w.flow("A", "B")
        w.flow("B", "A")
    w.propose("A", "y0")
    w.propose("A", "y1")
    for _ in range(3):
        w.flow("A", "B")
        w.flow("B", "A")
    return w


def test_a_forgotten_promise_is_not_broken__I9() -> None:
    assert not promise_that_was_forgotten(Adapter).ledger.violations
    assert promise_that_was_forgotten(JoinsWhenLevel).ledger.violations


def test_the_mark_of_an_admission_is_set_after_the_newcomer_has_connected() -> None:
    w = World("ABC")
    wiped_follower(w)
    last = w["A"].last
    w.restart("B", "AC")
    marks: list[int] = []
    for _ in range(5):
        marks += [message[2] for message in w.pending("A", "B") if message[0] == ADMIT]
        w.flow("A", "B")
        w.flow("B", "A")
    assert marks == [w["A"].last]
    assert marks[0] > last


def test_an_ephemeral_group_outlives_restarts_one_by_one_and_forms_anew_when_all_are_gone() -> None:
    w = Weather(5, Profile(**{**CALM.__dict__, "durability": "memory"}))
    w.advance(w.now + 3.0)
    for name in "ABCABC":
        w.died(name)
        w.advance(w.now + 5.0)
        assert all(member(w, each) for each in w.names), [w.describe(name) for name in w.names]
        assert sum(w[each].raft.is_leader for each in w.names) == 1
    assert not w.ledger.violations
    terms = max(w.ledger.leaders)
    for name in "ABC":
        w.died(name)
    w.ledger.leaders.clear()
    w.ledger.applied.clear()
    w.ledger.committed_in.clear()
    w.ledger._entries.clear()
    w.advance(w.now + 10.0)
    assert sum(w[name].raft.is_leader for name in "ABC") == 1
    assert max(w.ledger.leaders) <= terms


def test_peers_wall_ms_is_the_largest_that_was_said_and_moves_on() -> None:
    w = World("ABC")
    w.now += 7.0
    w["B"].raft._adapter._env.wall = lambda: 4_000_000_000.0  # type: ignore[method-assign]
    w.link("A", "B")
    w.now += 3.0
    assert w["A"].raft.peers_wall_ms() == 4_000_000_003_000
    assert w["C"].raft.peers_wall_ms() == int((1_700_000_000.0 + w.now) * 1000)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({}, "single"),
        ({"peers": ("B",), "single": True}, "single"),
        ({"peers": ("A", "B")}, "repeat"),
        ({"peers": ("B", "B")}, "repeat"),
        ({"peers": ("B", "C"), "heartbeat_s": 0.2}, "heartbeat"),
        ({"peers": ("B", "C"), "tail_bytes": 10, "compact_bytes": 5}, "tail"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        RaftConfig("A", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"blank": True, "peers": None, "formed": None},
        {"blank": True, "peers": 5, "formed": [1]},
        {"blank": True, "peers": ["A", b"B", 7], "formed": {"A": 5}, "wall_ms": "late"},
    ],
)
def test_a_hello_that_makes_no_sense_forms_nothing_and_stops_nobody(info: dict[str, object]) -> None:
    w = unconnected()
    for peer in "BC":
        w["A"].net.on_connected(peer, Hello("peer", peer, b"i" * 16, info=info))
    assert not member(w, "A")
    assert not w["A"].fatal
    assert w["A"].raft.peers_wall_ms() > 0


def test_as_many_members_as_there_may_be_with_the_longest_names_fit_into_a_hello() -> None:
    names = [f"{'n' * (NODE_ID_MAX_BYTES - 7)}{number:02}:7101" for number in range(MEMBERS_MAX)]
    w = World(names)
    w.form(names[0])
    for name in names:
        hello = Hello("peer", name, b"i" * 16, b"c" * 16, w[name].raft.hello_info())
        assert set(hello.info["formed"]) == set(names)
        assert hello_fields(hello, bytes(NONCE_BYTES))
        assert challenge_fields(hello, bytes(NONCE_BYTES))


def test_a_group_that_forms_late_did_not_stand_still(caplog: pytest.LogCaptureFixture) -> None:
    """Its election was due long before it could stand."""
    w = unconnected()
    w.now += 5.0
    for one, other in ("AB", "AC", "BC"):
        w.link(one, other)
    assert all(member(w, name) for name in "ABC")
    for name in "ABC":
        w[name].env.fire_due()
    assert "stood_still" not in caplog.text
