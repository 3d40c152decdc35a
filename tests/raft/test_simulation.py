"""Random weather: nothing that was acknowledged is ever lost, and the simulation sees it when something is.

A failing run names the command that plays it again. What is checked is in ``ledger``; the faults are in ``sim``.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cluster.raft import preferring
from cluster.raft.adapter import Adapter
from cluster.raft.backtrack import Backtrack
from cluster.raft.changing import OneAtATime, OwnTermFirst
from cluster.raft.commit import Poison, SnapCommit
from cluster.raft.compaction import Compaction
from cluster.raft.core import Parts
from cluster.raft.elections import PreVote, Stickiness, Unlisted, VoteId
from cluster.raft.engine import LEADER
from cluster.raft.following import Trim
from cluster.raft.leading import CheckQuorum, Forward
from cluster.raft.lifecycle import Lifecycle
from cluster.raft.members import KeepsMembers
from cluster.raft.peer import Peer
from cluster.raft.preferring import Preference
from cluster.raft.receiving import AckTerm, OneConn, StepDown
from cluster.raft.returning import AsksAnew
from cluster.raft.snapinstall import FailStop, SnapKeep, SnapSeq
from cluster.raft.snapsend import SnapSend
from cluster.raft.startup import Startup
from cluster.raft.timers import LateTimers
from tests.house import read
from tests.raft.mishaps import INSIDE
from tests.raft.profiles import PROFILES
from tests.raft.sim import run_seed
from tests.raft.variants import (
    ClearsLog,
    CommitsToItsEnd,
    CutsAfterPrev,
    NeverLate,
    NextGoesBack,
    StartsEmpty,
    StepByStep,
    SwallowsBadSnapshots,
    TakesEveryPiece,
    TakesTheListItIsTold,
    TriesForEver,
    variant,
)

SEEDS = 25
SEEDS_WITH_CHANGES = 6
LONG_SEEDS = 1500


def play(profile: str, seeds: Sequence[int]) -> None:
    acked = elections = 0
    for seed in seeds:
        weather = run_seed(seed, profile)
        ledger = weather.ledger
        assert not ledger.violations, f"{ledger.violations[0]}; again: python -m tests.raft.sim {profile} {seed}"
        acked += len(ledger.acked)
        elections += ledger.elections
    assert acked > len(seeds), "hardly anything was acknowledged: these runs show nothing"
    assert elections >= len(seeds)


@pytest.mark.fast
@pytest.mark.parametrize("profile", ["base", "storm", "wipe"])
def test_a_few_runs__I9(profile: str) -> None:
    play(profile, range(3))


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.timeout(600)
def test_nothing_acknowledged_is_lost__I9(profile: str) -> None:
    play(profile, range(100, 100 + (SEEDS_WITH_CHANGES if PROFILES[profile].changes else SEEDS)))


@pytest.mark.long
@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.timeout(7200)
def test_nothing_acknowledged_is_lost_in_many_runs__I9(profile: str) -> None:
    play(profile, range(1000, 1000 + LONG_SEEDS))


class Weighed(Adapter):
    """Members that differ in weight, and have little patience with a lighter leader."""

    moves = 0

    def __init__(self, parts: Parts) -> None:
        weight = zlib.crc32(parts.config.node_id.encode()) % 7
        super().__init__(replace(parts, config=replace(parts.config, weight=weight)))

    def _prefer(self, now: float) -> None:
        before = self._attempts
        super()._prefer(now)
        Weighed.moves += self._attempts > before


@pytest.mark.parametrize("profile", ["base", "storm", "wipe5", "members"])
@pytest.mark.timeout(600)
def test_weights_cost_nothing_that_was_acknowledged__I9(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preferring, "PREFERENCE_ROUNDS", 2)
    monkeypatch.setattr(Weighed, "moves", 0)
    for seed in range(300, 300 + SEEDS_WITH_CHANGES):
        ledger = run_seed(seed, profile, Weighed).ledger
        assert not ledger.violations, f"{ledger.violations[0]}; profile {profile}, seed {seed}"
        assert ledger.acked
    assert Weighed.moves > 0, "no leader was too light: these runs show nothing"


def test_a_seed_says_everything() -> None:
    one, other = run_seed(7, "storm"), run_seed(7, "storm")
    assert one.ledger.applied == other.ledger.applied
    assert one.now == other.now
    assert {name: node.drive.log for name, node in one.nodes.items()} == {
        name: node.drive.log for name, node in other.nodes.items()
    }


# Systems that are broken on purpose.


class AcksAtOnce(Adapter):
    """A follower that acknowledges what is not on its disk yet."""

    def _acknowledge(self, peer: Peer, term: int, sent: float, index: int) -> None:
        self._answer(peer, sent, index, True)


class CountsItself(Adapter):
    """A leader that counts what is not on its disk yet."""

    def _advance_commit(self) -> None:
        if self._SyncObj__raftState != LEADER or self._stopped:
            return
        held = sorted([peer.match for peer in self._others if peer.voter] + [self._log[-1][1]], reverse=True)
        index = held[self._majority - 1] if len(held) >= self._majority else 0
        if index > self._SyncObj__raftCommitIndex and self._log[index - self._first][2] == self.term:
            self._SyncObj__raftCommitIndex = index
            self._apply_committed()


class TrustsItself(Adapter):
    """A leader that answers from memory without asking whether it still leads."""

    def has_fresh_majority(self) -> bool:
        return self.is_leader


class ForgetsItsVote(Adapter):
    """A node that does not keep its vote."""

    def _SyncObj__setCurrentTerm(self, term: int, voted_for: str | None) -> None:
        super()._SyncObj__setCurrentTerm(term, None)


class SeveralAtOnce(Adapter):
    """Without ``OneAtATime``, and without what stands before it: whoever asked for a change is forgotten as soon as it is appended."""

    def change_members(self, add: bool, node_id: str, request: bytes, settled: Any) -> None:
        if self._change is not None and self._change.index:
            self._change = None
        super().change_members(add, node_id, request, settled)

    def _change_blocked(self) -> bool:
        return OwnTermFirst._change_blocked(self)


BROKEN: list[tuple[Any, str, set[str]]] = [
    (AcksAtOnce, "slowdisk", {"MinorityCommit", "LeaderCompleteness", "AckedLost", "Stuck", "StateMachineSafety", "Stopped"}),
    (CountsItself, "slowdisk", {"LeaderCompleteness", "AckedLost", "StateMachineSafety", "Stopped"}),
    (TrustsItself, "storm", {"LeaseViolated"}),
    (ForgetsItsVote, "quiet", {"ElectionSafety", "Stopped"}),
    (variant({SnapCommit: CommitsToItsEnd}), "base", {"MinorityCommit", "StateMachineSafety"}),
    (variant({Startup: StartsEmpty}), "storm", {"LeaderCompleteness", "AckedLost", "Stuck"}),
    (variant({Stickiness: None}), "quiet", {"LeaseViolated"}),
    (variant({Stickiness: None, PreVote: None}), "quiet", {"LeaseViolated"}),
    (variant({AckTerm: None}), "returns", {"Stuck"}),
    (variant({VoteId: None}), "echo5", {"ElectionSafety"}),
    (variant({Trim: CutsAfterPrev}), "echo", {"LeaderCompleteness"}),
    (variant({Forward: NextGoesBack}), "echo", {"Stuck"}),
    (variant({Backtrack: StepByStep}), "far", {"Stuck"}),
    (variant({StepDown: None}), "echo", {"Stuck"}),
    (variant({OneConn: None, SnapKeep: ClearsLog}), "echo", {"Stuck", "LeaderCompleteness", "AckedLost"}),
    (variant({OneConn: None, SnapSeq: TakesEveryPiece}), "pieces", {"Stuck"}),
    (variant({SnapSeq: TakesEveryPiece, FailStop: SwallowsBadSnapshots}), "pieces", {"StateDivergence"}),
    (variant({OneConn: None}), "echo5", {"OldConnection"}),
    (variant({SnapSeq: TakesEveryPiece}), "pieces", {"PiecesMixed"}),
    (variant({SnapKeep: ClearsLog}), "far", {"CommittedRemoved"}),
    (variant({FailStop: SwallowsBadSnapshots}), "failing", {"StateDivergence", "StateMachineSafety"}),
    (variant({Poison: TriesForEver}), "failing", {"StateDivergence"}),
    (variant({LateTimers: NeverLate}), "base", {"StoodUnread"}),
    (variant({Unlisted: None}), "pairs", {"Stuck"}),
    (variant({OwnTermFirst: None}), "stormmembers", {"ChangedTooEarly"}),
    (SeveralAtOnce, "pairs", {"LeaseViolated", "Stuck"}),
    (
        variant({KeepsMembers: TakesTheListItIsTold}),
        "members1",
        {"WronglyRemoved", "ElectionSafety", "LeaderCompleteness", "StateMachineSafety"},
    ),
]


@pytest.mark.parametrize(
    ("broken", "profile", "expected"), BROKEN, ids=[entry[0].__name__ + "-" + entry[1] for entry in BROKEN]
)
def test_a_broken_system_is_found_out(broken: Any, profile: str, expected: set[str]) -> None:
    for seed in range(200):
        violations = run_seed(seed, profile, broken, inside=bool(expected & INSIDE)).ledger.violations
        if violations:
            assert violations[0][0] in expected, (seed, violations[0])
            return
    raise AssertionError("not found in 200 runs")


@pytest.mark.fast
def test_the_document_says_which_pieces_are_not_found_when_they_alone_are_left_out() -> None:
    abilities = {Lifecycle, Preference, SnapSend, Compaction}
    found = {broken.__name__ for broken, _, _ in BROKEN}
    rest = {each for each in Adapter.__bases__ if f"without{each.__name__}" not in found} - abilities
    assert rest == {AsksAnew, OneAtATime, PreVote, CheckQuorum}
    said = read("docs/raft.md").partition("is found when it alone is left out, but for")[2].partition("\n")[0]
    assert all(f"`{each.__name__}`" in said for each in rest)


def test_a_removed_node_that_is_added_again_on_its_old_connection_says_anew_what_it_has() -> None:
    play("members", [1351])


def test_what_was_answered_to_an_earlier_life_does_not_elect_this_one() -> None:
    play("pieces", [1194])


def test_a_removed_node_that_had_not_applied_its_addition_is_not_added_as_it_is() -> None:
    play("members", [1433])
