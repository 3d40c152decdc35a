"""Schedules in which the released library loses or falsely acknowledges entries: s02, s03, s10, s11.

Every message is delivered by hand, in the order of a TCP connection. Each schedule is played with the whole adapter, and with the
pieces left out that stand against it: then the damage must show.
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.raft import config, leading
from cluster.raft.adapter import Adapter
from cluster.raft.backtrack import Backtrack
from cluster.raft.following import Trim
from cluster.raft.leading import Forward
from cluster.raft.messages import ACK, APPEND
from cluster.raft.receiving import AckTerm, OneConn
from tests.raft.lab import World
from tests.raft.variants import CutsAfterPrev, NextGoesBack, StepByStep, variant

pytestmark = pytest.mark.fast


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two entries in an append at most."""
    assert config.APPEND_MAX_ENTRIES > 2
    monkeypatch.setattr(leading, "APPEND_MAX_ENTRIES", 2)


def lost(w: World, leader: str, *followers: str) -> list[tuple[str, str]]:
    """Let the new leader commit past everything; what was wrong by then, also with what it holds."""
    w.propose(leader, "zz")
    w.beat(leader, followers)
    assert b"zz" in w.ledger.acked or w.ledger.violations, "the new leader commits nothing"
    w.ledger.check_kept(leader, w[leader].machine.commands)
    return [(rule, what) for rule, what in w.ledger.violations]


def rules(violations: list[tuple[str, str]]) -> set[str]:
    return {rule for rule, _ in violations}


def s02_pipelined_answers(adapter: Any) -> list[tuple[str, str]]:
    """The first of several answers sets the next entry back. What is sent again in batches cuts the follower's log, and later answers
    commit it."""
    w = World("ABC", adapter)
    w.form("A")
    for i in range(4):
        w.propose("A", f"x{i}")
    w.flow("A", "B")  # Four appends, four answers under way.
    first = w["A"].last - 3
    answers = w.pending("B", "A")
    assert [answer[3] for answer in answers if answer[0] == ACK] == [first, first + 1, first + 2, first + 3]
    w.deliver("B", "A")
    w.flow("B", "A")
    resent = [message for message in w.pending("A", "B") if message[0] == APPEND and message[6]]
    if resent:
        w.deliver("A", "B")  # The first batch only: its log ends there.
    assert b"x3" in w.ledger.acked
    w.kill("A")
    w.elect("B", "C")
    return lost(w, "B", "C")


@pytest.mark.usefixtures("small_batches")
def test_s02_entries_under_way_are_not_cut__I9() -> None:
    assert s02_pipelined_answers(Adapter) == []
    assert s02_pipelined_answers(variant({Trim: CutsAfterPrev})) == []
    assert s02_pipelined_answers(variant({Forward: NextGoesBack})) == []
    damage = rules(s02_pipelined_answers(variant({Trim: CutsAfterPrev, Forward: NextGoesBack})))
    assert "AckedLost" in damage


def s03_answer_of_an_earlier_reign(adapter: Any) -> list[tuple[str, str]]:
    """Answers of term 1 arrive when their receiver leads again in term 3."""
    w = World("ABCDE", adapter)
    w.form("A")
    for i in range(4):
        w.propose("A", f"x{i}")
    w.flow("A", "B")  # B holds them; its answers are under way.
    for name in "CDE":
        w.lose("A", name)
    w.elect("C", "DE")
    for name in "BDE":
        w.lose("C", name)
    w.flow("C", "A")
    w.flow("A", "C")
    w.elect("A", "CD")
    for i in range(2):
        w.propose("A", f"y{i}")
    w.flow("A", "D")
    w.flow("D", "A")
    while w.pending("B", "A"):
        w.deliver("B", "A")
    w.kill("A")
    w.kill("D")
    w.elect("C", "BE")
    return lost(w, "C", "B", "E")


def test_s03_an_answer_counts_in_its_own_term__I9() -> None:
    assert s03_answer_of_an_earlier_reign(Adapter) == []
    assert rules(s03_answer_of_an_earlier_reign(variant({AckTerm: None}))) >= {"AckedLost"}


def s10_two_connections(adapter: Any) -> list[tuple[str, str]]:
    """What was under way on a connection that its sender gave up is read after newer messages."""
    w = World("ABC", adapter)
    w.form("C")
    w.isolate("B")
    w.propose("C", "x0")
    stale = list(w["C"].net.links["A"].queues["C"])
    w.link("C", "A")
    for i in range(1, 4):
        w.propose("C", f"x{i}")
    w.beat("C", "A")
    assert set(w.ledger.acked) == {b"x0", b"x1", b"x2", b"x3"}
    for payload in stale:
        w.hand_over("C", "A", payload)
    w.kill("C")
    w.link("A", "B")
    try:
        w.elect("A", "B")
        leader, follower = "A", "B"
    except AssertionError:
        w.elect("B", "A")
        leader, follower = "B", "A"
    return lost(w, leader, follower)


def test_s10_an_old_connection_changes_nothing__I9() -> None:
    assert s10_two_connections(Adapter) == []
    assert s10_two_connections(variant({OneConn: None})) == []
    assert s10_two_connections(variant({Trim: CutsAfterPrev})) == []
    assert rules(s10_two_connections(variant({OneConn: None, Trim: CutsAfterPrev}))) & {
        "AckedLost",
        "StateMachineSafety",
    }


def s11_conflict_and_many_batches(adapter: Any) -> int:
    """A conflicting tail, and several appends under way. Returns how many appends it took to agree; at most ``STORM``."""
    w = World("ABC", adapter)
    w.form("A")
    w.isolate("A")
    for i in range(8):
        w.propose("A", f"x{i}")
    w.elect("B", "C")
    for i in range(12):
        w.propose("B", f"y{i}")
    w.beat("B", "C")
    w.elect("C", "B")
    for i in range(4):
        w.propose("C", f"w{i}")
    w.beat("C", "B")
    w.link("A", "C")
    appends = 0
    while w["A"].last < w["C"].last and appends < STORM:
        queue = w["C"].net.links["A"].queues["C"]
        while queue and appends < STORM:
            w.deliver("C", "A")
            appends += 1
        w.flow("A", "C")
    assert not w.ledger.violations
    return appends


STORM = 500


@pytest.mark.usefixtures("small_batches")
def test_s11_a_conflicting_tail_is_resolved_at_once() -> None:
    assert s11_conflict_and_many_batches(Adapter) < 40
    assert s11_conflict_and_many_batches(variant({Backtrack: StepByStep})) == STORM


def test_a_refusal_of_an_earlier_reign_counts_for_nothing_in_the_same_term() -> None:
    """B is in term 2 when it refuses an append of term 1; its sender is elected in term 2 before it hears of that."""
    w = World("ABCDE")
    w.form("A")
    w.propose("A", "x0")
    w.beat("A", "BCDE")
    w.tick("A")
    w.now += 0.7
    w["B"].adapter._campaign(forced=True)
    for name in "ACDE":
        w.lose("B", name)
    w.flow("A", "B")  # Term 1 is over for B: it says so.
    refusals = [message for message in w.pending("B", "A") if message[0] == ACK]
    assert refusals
    assert all(message[1] == 2 and not message[4] for message in refusals)
    w["A"].adapter._become_follower(1, "the test")
    w["A"].adapter._campaign(forced=True)
    for name in "CDE":
        w.flow("A", name)
        w.flow(name, "A")
    assert w["A"].raft.is_leader
    under_way = w.pending("A", "B")
    w.flow("B", "A")
    assert w.pending("A", "B") == under_way, "nothing is sent again for it"
    w.beat("A", "BCDE")
    assert not w["A"].fatal
    assert not w.ledger.violations


def figure_8(adapter: Any) -> list[tuple[str, str]]:
    """An entry of an old term is on a majority before an entry of the leader's own term is: it can still be replaced."""
    w = World("ABCDE", adapter)
    w.form("A")
    w.propose("A", "x0")  # Index 3, on A and B.
    w.flow("A", "B")
    for name in "CDE":
        w.lose("A", name)
    w.kill("A")
    w.elect("E", "CD", and_no_more=True)  # Term 2: its own first entry at index 3, on E alone.
    w.propose("E", "y0")
    w.kill("E")
    w.restart("A", "BCD")
    w.now += 1.0
    w.elect("A", "BC", and_no_more=True)
    for name in "BC":  # Index 3 on A, B and C; the first entry of term 3 on nobody else.
        w.link("A", name)
        while w["A"].adapter._peers[name].match < 3:
            w.deliver("A", name)
            w.flow(name, "A")
        assert w[name].last == 3
    assert w["A"].raft.term > 2
    w.kill("A")
    w.restart("E", "BCD")
    w.now += 1.0
    w.elect("E", "BCD")
    return lost(w, "E", "B", "C", "D")


class CommitsOldTerms(Adapter):
    """Commits whatever a majority holds."""

    def _advance_commit(self) -> None:
        held = sorted([peer.match for peer in self._others if peer.voter] + [self._log.durable_index], reverse=True)
        index = held[self._majority - 1] if len(held) >= self._majority else 0
        if self.is_leader and index > self._SyncObj__raftCommitIndex:
            self._SyncObj__raftCommitIndex = index
            self._apply_committed()


def test_an_entry_of_an_old_term_is_not_committed_by_counting__I9(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "APPEND_MAX_ENTRIES", 1)
    monkeypatch.setattr(leading, "APPENDS_IN_FLIGHT_MAX", 1)
    assert figure_8(Adapter) == []
    assert rules(figure_8(CommitsOldTerms)) & {"StateMachineSafety", "AckedLost", "LeaderCompleteness"}
