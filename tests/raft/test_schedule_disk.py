"""Schedules of what a node has forgotten when it starts again: s13, s14, s20.

Played with the storage as it is, and with one that behaves as the released library does in its usual configuration: no file of term and
vote, snapshots in memory, a dump of a forked child that is written last and counts. Two checks stand behind each other: what a file says by
itself, and what the files say of each other (``check_files``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cluster.raft import snapshot
from cluster.raft.adapter import Adapter
from cluster.raft.startup import Startup
from cluster.storage import StorageDamaged, storage
from cluster.storage import meta as meta_file
from cluster.storage.snapshots import Done, FileSnapshots, Snapshot
from tests.raft.lab import World
from tests.raft.test_schedule_log import rules
from tests.raft.test_schedule_snapshot import follow_up
from tests.raft.variants import StartsEmpty, commands, variant

pytestmark = pytest.mark.fast


def without_check_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(storage, "check_files", lambda found: None)


class InMemory(FileSnapshots):
    """A snapshot is kept as long as the process lives."""

    _kept: Snapshot | None = None

    def save(self, index: int, term: int, data: bytes, done: Done) -> None:
        self._index, self._kept = index, (index, term, data)
        self._work.submit(lambda: None, done)

    def latest(self) -> Snapshot | None:
        return self._kept


class LastWins(FileSnapshots):
    """The snapshot that is written last is the newest, and replaces the other."""

    def _next(self) -> None:
        for name in self._disk.listdir():
            if name.startswith("snapshot-") and self._index > self._queue[0][0][0]:
                self._disk.remove(name)
        self._index = 0
        super()._next()


def s13_log_without_its_snapshot(adapter: Any) -> World:
    """All compact their logs, and start again."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    for i in range(3):
        w.propose("A", f"x{i}")
    w.beat("A", "BC")
    for name in "ABC":
        w.compact(name)
    w.propose("A", "y0")
    w.beat("A", "BC")
    for name in "ABC":
        w.kill(name)
    for name in "ABC":
        w.restart(name)
    w.link("A", "B")
    return w


def test_s13_no_log_is_shortened_without_a_snapshot_on_disk__I9(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = s13_log_without_its_snapshot(Adapter)
    assert follow_up(whole, "A", "B") == []
    assert commands(whole["A"].machine)[:4] == ["x0", "x1", "x2", "y0"]
    monkeypatch.setattr(storage, "FileSnapshots", InMemory)
    with pytest.raises(StorageDamaged, match="there is no snapshot"):
        s13_log_without_its_snapshot(Adapter)
    without_check_files(monkeypatch)
    with pytest.raises(StorageDamaged, match="there is no snapshot"):
        s13_log_without_its_snapshot(Adapter)
    gone = s13_log_without_its_snapshot(variant({Startup: StartsEmpty}))
    assert commands(gone["A"].machine) == [], "and the log goes on from what nobody has any more"
    assert gone["A"].adapter._first > 1


FORGOTTEN = b"\0" * 16


def s14_term_and_vote_are_gone(before: bytes) -> World:
    """A is elected with B's vote in a term of which nobody hears more; B starts again, and C stands in that very term."""
    w = World("ABC")
    w.form("A")
    w.isolate("C")
    w.kill("A")
    w.restart("A", "B")
    w.elect("A", "B", and_no_more=True)
    w.kill("B")
    w["B"].drive.set_file("meta", before + w["B"].drive.files()["meta"])
    w.restart("B", "C")
    w.now += 1.0
    w["C"].adapter._guard(w["C"].adapter._campaign)
    for _ in range(3):
        w.flow("C", "B")
        w.flow("B", "C")
    return w


def test_s14_who_voted_does_not_vote_again_in_that_term_after_a_restart__election_safety(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = s14_term_and_vote_are_gone(b"")
    assert whole["A"].raft.is_leader
    assert whole["B"].raft.term >= whole["A"].raft.term
    assert not whole.ledger.violations
    with pytest.raises(StorageDamaged, match="meta"):
        s14_term_and_vote_are_gone(FORGOTTEN)
    decode = meta_file.decode

    def is_term_0(data: bytes) -> meta_file.State:
        """As the members are configured in the released library, all else is left as it was."""
        state = decode(data.removeprefix(FORGOTTEN))
        return replace(state, term=0, voted_for=None) if data.startswith(FORGOTTEN) else state

    monkeypatch.setattr(meta_file, "decode", is_term_0)
    with pytest.raises(StorageDamaged, match="an old copy"):
        s14_term_and_vote_are_gone(FORGOTTEN)
    without_check_files(monkeypatch)
    twice = s14_term_and_vote_are_gone(FORGOTTEN)
    assert "ElectionSafety" in rules(twice.ledger.violations)
    assert twice["A"].raft.term == twice["C"].raft.term


def s20_a_dump_that_ends_late(adapter: Any) -> list[tuple[str, str]]:
    """B's own snapshot is written after the leader's newer one was installed and more was acknowledged; then A is lost."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    w.propose("A", "x0")
    w.beat("A", "BC")
    node = w["B"]
    index, term, content = node.last, node.raft.term, node.machine.freeze()()
    w.isolate("B")
    for i in range(3):
        w.propose("A", f"y{i}")
    w.beat("A", "C")
    w.compact("A")
    w.link("A", "B")
    w.beat("A", "B", 6)
    assert node.storage.snapshots.index > index, "installed"
    w.isolate("C")
    for i in range(3):
        w.propose("A", f"z{i}")
    w.beat("A", "B", 4)
    assert b"z2" in w.ledger.acked
    node.storage.snapshots.save(index, term, snapshot.encode(index, term, "ABC", content), lambda error: None)
    w.work("B")
    w.kill("A")
    w.kill("B")
    w.restart("B", "C")
    return follow_up(w, "B", "C")


def test_s20_a_snapshot_never_replaces_a_newer_one__I9(monkeypatch: pytest.MonkeyPatch) -> None:
    assert s20_a_dump_that_ends_late(Adapter) == []
    monkeypatch.setattr(storage, "FileSnapshots", LastWins)
    with pytest.raises(StorageDamaged, match="begins at index"):
        s20_a_dump_that_ends_late(Adapter)
    without_check_files(monkeypatch)
    with pytest.raises(StorageDamaged, match="begins at index"):
        s20_a_dump_that_ends_late(Adapter)
    assert "AckedLost" in rules(s20_a_dump_that_ends_late(variant({Startup: StartsEmpty})))
