"""Rules of the raft adapter and the storage, each broken; among them each mend of the engine left out.

Knows: where each rule stands in the code. Must not know: how a mistake is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any
from unittest.mock import patch

from cluster.raft.backtrack import Backtrack
from cluster.raft.changing import OneAtATime, OwnTermFirst
from cluster.raft.commit import Commit, Poison, SnapCommit
from cluster.raft.elections import PreVote, Stickiness, Unlisted, VoteId
from cluster.raft.engine import LEADER
from cluster.raft.following import Following, Trim
from cluster.raft.leading import CheckQuorum, Forward
from cluster.raft.members import KeepsMembers
from cluster.raft.membership import Membership
from cluster.raft.node import RaftNode
from cluster.raft.receiving import AckTerm, OneConn, StepDown
from cluster.raft.returning import AsksAnew
from cluster.raft.snapinstall import FailStop, SnapKeep, SnapSeq
from cluster.raft.startup import Startup
from cluster.raft.timers import LateTimers, Timers
from cluster.storage import meta, storage
from tests.raft import variants
from tests.sim.mutants import Mutant, replaced


def _without(piece: type, instead: type | None = None) -> Mutant:
    """The adapter with one of its pieces left out, or what the released library does in its place."""
    return _all_without({piece: instead})


def _all_without(pieces: dict[type, type | None]) -> Mutant:
    """Two that stand behind each other."""
    return lambda: patch.object(RaftNode, "adapter_class", variants.variant(pieces))


# Members and votes.


def _yes(stock: Any) -> Any:
    return lambda self, *args: True


@contextmanager
def wiped_votes() -> Iterator[None]:
    with patch.object(Membership, "_may_vote", _yes(None)), patch.object(Membership, "_may_stand", _yes(None)):
        yield


def _still_the_same(stock: Any) -> Any:
    def greeted(self: Any, peer: Any, hello: Any) -> None:
        peer.hello = hello if peer.hello is not None else None
        stock(self, peer, hello)

    return greeted


@contextmanager
def earlier_ones_counted() -> Iterator[None]:
    """Two rules stand against it: another incarnation has no acknowledgements, and none of an earlier connection counts."""
    with replaced(Membership, "_greeted", _still_the_same)(), _without(AsksAnew)():
        yield


def _forgets_its_start(stock: Any) -> Any:
    def begin_timers(self: Any) -> None:
        stock(self)
        self._heard_at = -inf

    return begin_timers


# Disks.


def _unsynced(stock: Any) -> Any:
    def open_files(env: Any, disk: Any, directory: str, synced: bool, segment_bytes: int) -> Any:
        return stock(env, disk, directory, False, segment_bytes)

    return open_files


def _answers_first(stock: Any) -> Any:
    def acknowledge(self: Any, peer: Any, term: int, sent: float, index: int) -> None:
        self._answer(peer, sent, index, True)
        self._log.sync(lambda: None)

    return acknowledge


def _counts_what_is_not_durable(stock: Any) -> Any:
    def advance(self: Any) -> None:
        if self._SyncObj__raftState != LEADER or self._stopped:
            return
        held = sorted([peer.match for peer in self._others if peer.voter] + [self._log[-1][1]], reverse=True)
        if len(held) < self._majority:
            return
        index = held[self._majority - 1]
        if (
            index > self._SyncObj__raftCommitIndex
            and self._log[index - self._first][2] == self._SyncObj__raftCurrentTerm
        ):
            self._SyncObj__raftCommitIndex = index
            self._apply_committed()

    return advance


def _meta_unsynced(stock: Any) -> Any:
    def write(disk: Any, data: bytes) -> None:
        file = disk.open(meta.NEW, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.close()
        disk.rename(meta.NEW, meta.NAME)

    return write


# Applying.


def _twice(stock: Any) -> Any:
    def hand_over(self: Any, index: int, term: int, command: bytes) -> None:
        stock(self, index, term, command)
        stock(self, index, term, command)

    return hand_over


def _last_one_again(stock: Any) -> Any:
    def begin_from_disk(self: Any) -> int:
        index: int = stock(self)
        return index - 1

    return begin_from_disk


MUTANTS: dict[str, Mutant] = {
    "wiped node counted before it has caught up": replaced(Membership, "_is_member", _yes),
    "wiped node's earlier acknowledgements counted": earlier_ones_counted,
    "wiped node votes at once": wiped_votes,
    "vote right after the start": replaced(Timers, "_begin_timers", _forgets_its_start),
    "fsync skipped": replaced(storage, "_open_files", _unsynced),
    "fsync after the answer": replaced(Following, "_acknowledge", _answers_first),
    "leader counts itself before its sync": replaced(Commit, "_advance_commit", _counts_what_is_not_durable),
    "term and vote not synced": replaced(meta, "write", _meta_unsynced),
    "apply twice": replaced(Poison, "_hand_over", _twice),
    "last command of the snapshot applied again": replaced(Startup, "_begin_from_disk", _last_one_again),
    "without trim": _without(Trim, variants.CutsAfterPrev),
    "without forward": _without(Forward, variants.NextGoesBack),
    "without trim and forward": _all_without({Trim: variants.CutsAfterPrev, Forward: variants.NextGoesBack}),
    "without snapseq and failstop": _all_without(
        {SnapSeq: variants.TakesEveryPiece, FailStop: variants.SwallowsBadSnapshots}
    ),
    "without backtrack": _without(Backtrack, variants.StepByStep),
    "without snapcommit": _without(SnapCommit, variants.CommitsToItsEnd),
    "without snapkeep": _without(SnapKeep, variants.ClearsLog),
    "without snapseq": _without(SnapSeq, variants.TakesEveryPiece),
    "without failstop": _without(FailStop, variants.SwallowsBadSnapshots),
    "without poison": _without(Poison, variants.TriesForEver),
    "without latetimers": _without(LateTimers, variants.NeverLate),
    "without startup": _without(Startup, variants.StartsEmpty),
    "without ackterm": _without(AckTerm),
    "without stepdown": _without(StepDown),
    "without voteid": _without(VoteId),
    "without prevote": _without(PreVote),
    "without stickiness": _without(Stickiness),
    "without checkquorum": _without(CheckQuorum),
    "without oneconn": _without(OneConn),
    "without oneatatime": _without(OneAtATime),
    "without owntermfirst": _without(OwnTermFirst),
    "without keepsmembers": _without(KeepsMembers, variants.TakesTheListItIsTold),
    "without unlisted": _without(Unlisted),
    "without asksanew": _without(AsksAnew),
}
