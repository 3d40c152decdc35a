"""Schedules around snapshots and starts: s01, s04, s05, s06, s07, s12.

As in ``test_schedule_log``: played with the whole adapter, and without the piece that stands against the damage.
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.raft import snapinstall, snapsend
from cluster.raft.adapter import Adapter
from cluster.raft.commit import SnapCommit
from cluster.raft.messages import PIECE, PIECE_ACK, decode
from cluster.raft.receiving import OneConn
from cluster.raft.snapinstall import FailStop, SnapKeep, SnapSeq
from cluster.raft.startup import Startup
from cluster.storage import StorageDamaged
from cluster.storage.journal import Journal
from tests.raft.lab import World
from tests.raft.test_schedule_log import lost, rules
from tests.raft.variants import (
    ClearsLog,
    CommitsToItsEnd,
    StartsEmpty,
    SwallowsBadSnapshots,
    TakesEveryPiece,
    commands,
    variant,
)
from tests.storage.simdisk import Crash

pytestmark = pytest.mark.fast


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapsend, "PIECE_BYTES", 40)


def follow_up(w: World, one: str, other: str) -> list[tuple[str, str]]:
    """Two are left: whoever can is elected and commits past everything."""
    try:
        w.elect(one, other)
    except AssertionError:
        one, other = other, one
        w.elect(one, other)
    return lost(w, one, other)


def s01_tail_under_a_snapshot(adapter: Any) -> World:
    """A returning leader has a tail that nobody else has, and is sent a snapshot."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    w.isolate("A")
    for i in range(3):
        w.propose("A", f"x{i}")
    w.elect("B", "C")
    for i in range(4):
        w.propose("B", f"y{i}")
    w.beat("B", "C")
    w.compact("B")
    w.link("A", "B")
    for _ in range(6):
        w.tick("B")
        w.flow("B", "A")
        w.flow("A", "B")
        w.work("A")
    return w


def test_s01_a_snapshot_commits_nothing_but_itself__I9() -> None:
    whole = s01_tail_under_a_snapshot(Adapter)
    assert not whole.ledger.violations
    assert commands(whole["A"].machine) == ["y0", "y1", "y2", "y3"]
    damaged = s01_tail_under_a_snapshot(variant({SnapCommit: CommitsToItsEnd}))
    assert "StateMachineSafety" in rules(damaged.ledger.violations)
    assert b"x1" in damaged.ledger.acked, "its client was told success"


def s04_snapshot_twice(adapter: Any) -> list[tuple[str, str]]:
    """The same snapshot comes a second time, after what was acknowledged behind it."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    w.isolate("B")
    for i in range(4):
        w.propose("A", f"x{i}")
    w.beat("A", "C")
    w.compact("A")
    w.link("A", "B")
    stale: list[bytes] = []
    for _ in range(6):
        queue = w["A"].net.links["B"].queues["A"]
        stale += [payload for payload in queue if decode(payload)[0] == PIECE]
        w.flow("A", "B")
        w.work("B")
        w.flow("B", "A")
        w.tick("A")
    w.isolate("C")
    w.propose("A", "y0")
    w.beat("A", "B")
    assert b"y0" in w.ledger.acked
    for payload in stale:
        w.hand_over("A", "B", payload)
        w.work("B")
    w.kill("A")
    w.link("B", "C")
    return follow_up(w, "B", "C")


def test_s04_a_snapshot_keeps_what_follows_it__I9() -> None:
    assert s04_snapshot_twice(Adapter) == []
    assert s04_snapshot_twice(variant({SnapKeep: ClearsLog})) == []
    assert s04_snapshot_twice(variant({OneConn: None})) == []
    assert rules(s04_snapshot_twice(variant({OneConn: None, SnapKeep: ClearsLog}))) & {
        "AckedLost",
        "StateMachineSafety",
    }


def s05_transfer_is_broken_off(adapter: Any) -> World:
    """A snapshot is half there when its sender dies; the next leader sends another one."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    w.isolate("C")
    for i in range(12):
        w.propose("A", f"x{i}")
    w.beat("A", "B")
    w.compact("A")
    w.link("A", "C")
    while not w["C"].adapter._arrived:
        w.deliver("A", "C") if w.pending("A", "C") else w.tick("A")
        w.flow("C", "A")
    w.isolate("C")
    w.lose("A", "B")
    w.elect("B", "A")
    for i in range(5):
        w.propose("B", f"y{i}")
    w.beat("B", "A")
    w.compact("B")
    w.link("B", "C")
    for _ in range(12):
        w.tick("B")
        w.flow("B", "C")
        w.work("C")
        w.flow("C", "B")
    return w


@pytest.mark.usefixtures("small_pieces")
def test_s05_pieces_of_two_snapshots_never_mix__I9(caplog: pytest.LogCaptureFixture) -> None:
    whole = s05_transfer_is_broken_off(Adapter)
    assert not whole["C"].fatal
    assert not whole.ledger.violations
    assert commands(whole["C"].machine) == commands(whole["B"].machine)
    assert "raft.snapshot_damaged" not in caplog.text
    mixed = s05_transfer_is_broken_off(variant({SnapSeq: TakesEveryPiece}))
    assert "raft.snapshot_damaged" in caplog.text, "only the checksum still stands in the way"
    assert commands(mixed["C"].machine) == commands(mixed["B"].machine)
    loaded = s05_transfer_is_broken_off(variant({SnapSeq: TakesEveryPiece, FailStop: SwallowsBadSnapshots}))
    status = loaded["B"].raft.status()
    acknowledged = next(member for member in status["members"] if member["node_id"] == "C")
    assert acknowledged["match_index"] > 0, "the leader believes that C has everything"
    assert commands(loaded["C"].machine) != commands(loaded["B"].machine)


@pytest.mark.usefixtures("small_pieces")
def test_a_transfer_goes_on_where_it_was_after_a_broken_connection() -> None:
    w = World("ABC", tail_bytes=0)
    w.form("A")
    w.isolate("C")
    for i in range(40):
        w.propose("A", f"x{i}")
    w.beat("A", "B")
    w.compact("A")
    w.link("A", "C")
    while not w["C"].adapter._arrived:
        w.deliver("A", "C") if w.pending("A", "C") else w.tick("A")
        w.flow("C", "A")
    had = len(w["C"].adapter._arrived)
    w.link("A", "C")
    w.flow("A", "C")
    w.flow("C", "A")
    offsets = [message[8] for message in w.pending("A", "C") if message[0] == PIECE and message[9]]
    assert offsets[0] >= had
    for _ in range(20):
        w.flow("A", "C")
        w.work("C")
        w.flow("C", "A")
    assert commands(w["C"].machine) == commands(w["A"].machine)


def test_a_snapshot_that_the_machine_refuses_stops_the_node_unacknowledged() -> None:
    w = World("ABC", tail_bytes=0)
    w.form("A")
    w.isolate("C")
    w.propose("A", "x0")
    w.beat("A", "B")
    w["A"].machine.freeze = lambda: lambda: b"\xc1"  # type: ignore[method-assign]
    w.compact("A")
    w.link("A", "C")
    for _ in range(4):
        w.flow("A", "C")
        w.work("C")
        w.tick("A")
        if not w["C"].fatal:
            w.flow("C", "A")
    assert len(w["C"].fatal) == 1
    assert "cannot be loaded" in w["C"].fatal[0]
    assert not [message for message in w.pending("C", "A") if message[0] not in (PIECE_ACK,)]


def s06_killed_between_snapshot_and_log(adapter: Any) -> list[tuple[str, str]]:
    """The snapshot has its name; the log is still whole, and longer than the snapshot."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    w.isolate("C")
    for i in range(3):
        w.propose("A", f"x{i}")
    w.beat("A", "B")
    node = w["B"]
    node.adapter._compact()
    for i in range(3):
        w.propose("A", f"y{i}")
    w.flow("A", "B")
    w.flow("B", "A")
    assert b"y2" in w.ledger.acked
    while not any(name.startswith("snapshot-") and not name.endswith(".new") for name in node.drive.files()):
        node.env.do_disk_job()
    w.kill("B")
    w.kill("A")
    w.restart("B", "C")
    return follow_up(w, "B", "C")


def test_s06_the_log_is_kept_where_it_goes_on_from_the_snapshot__I9() -> None:
    assert s06_killed_between_snapshot_and_log(Adapter) == []
    assert "AckedLost" in rules(s06_killed_between_snapshot_and_log(variant({Startup: StartsEmpty})))


def s07_killed_inside_compaction() -> set[str]:
    """The log's head is deleted, and the node is killed at each disk call of that in turn."""
    damage: set[str] = set()
    call, finished = 1, False
    while not finished:
        w = World("ABC", tail_bytes=0)
        w.form("A")
        w.isolate("C")
        for i in range(3):
            w.propose("A", f"x{i}")
        w.beat("A", "B")
        node = w["B"]
        node.adapter._compact()
        for i in range(3):
            w.propose("A", f"y{i}")
        w.flow("A", "B")
        w.flow("B", "A")
        node.drive.crash_at = node.drive.calls + call
        try:
            w.work("B")
            node.storage.journal.flush()
            finished = True
        except Crash:
            call += 1
        node.drive.crash_at = 0
        w.kill("B")
        w.kill("A")
        w.restart("B", "C")
        damage |= rules(follow_up(w, "B", "C"))
    assert call > 5
    return damage


def test_s07_a_log_is_shortened_all_at_once__I9(monkeypatch: pytest.MonkeyPatch) -> None:
    assert s07_killed_inside_compaction() == set()

    def one_by_one(journal: Journal, pos: int) -> None:
        """The released library's: empty the file, then add what is kept."""
        kept = journal[pos:]
        journal.clear()
        for entry in kept:
            journal.flush()
            journal.add(*entry)

    monkeypatch.setattr(Journal, "deleteEntriesTo", one_by_one)
    assert "AckedLost" in s07_killed_inside_compaction()


def s12_unreadable_snapshot(adapter: Any) -> World:
    """The snapshot on disk is whole, and not one that this machine can read."""
    w = World("ABC", adapter, tail_bytes=0)
    w.form("A")
    for i in range(3):
        w.propose("A", f"x{i}")
    w.beat("A", "BC")
    w["B"].machine.freeze = lambda: lambda: b"\xc1"  # type: ignore[method-assign]
    w.compact("B")
    w.kill("B")
    w.restart("B", "AC")
    return w


def test_s12_a_node_does_not_start_from_a_snapshot_that_it_cannot_read__I9() -> None:
    with pytest.raises(StorageDamaged, match="snapshot of index"):
        s12_unreadable_snapshot(Adapter)
    w = s12_unreadable_snapshot(variant({Startup: StartsEmpty}))
    w.beat("A", "BC")
    w.elect("B", "AC")
    assert commands(w["B"].machine) == [], "it leads, and its state is empty"


def test_a_truncated_snapshot_file_is_named__E8() -> None:
    w = World("ABC", tail_bytes=0)
    w.form("A")
    w.propose("A", "x0")
    w.beat("A", "BC")
    w.compact("B")
    w.kill("B")
    drive = w["B"].drive
    name = next(name for name in drive.files() if name.startswith("snapshot-"))
    drive.set_file(name, drive.files()[name][:-3])
    with pytest.raises(StorageDamaged, match=name):
        w.restart("B")


def test_a_snapshot_larger_than_the_limit_is_not_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapinstall, "SNAPSHOT_MAX_BYTES", 10)
    w = World("ABC", tail_bytes=0)
    w.form("A")
    w.isolate("C")
    for i in range(3):
        w.propose("A", f"x{i}")
    w.beat("A", "B")
    w.compact("A")
    w.link("A", "C")
    w.beat("A", "C", 5)
    assert not w["C"].adapter._arrived
    assert commands(w["C"].machine) == []


def behind_a_snapshot(w: World) -> None:
    """C is connected, and lacks what A's log does not hold any more."""
    w.form("A")
    w.isolate("C")
    w.propose("A", "x0")
    w.beat("A", "B")
    w.compact("A")
    w.link("A", "C")
    w.flow("A", "C")
    w.flow("C", "A")


def test_while_a_snapshot_is_read_its_receiver_hears_the_leader_and_the_loop_is_not_busy() -> None:
    w = World("ABC", tail_bytes=0)
    behind_a_snapshot(w)
    jobs = list(w["A"].env.disk_jobs)
    assert jobs, "it is read on a thread"
    w["A"].env.disk_jobs.clear()
    config = w["A"].adapter._config
    for _ in range(5):
        w.now += config.heartbeat_s
        w["A"].env.fire_due()
        assert w["A"].adapter._next_beat > w.now
        w.flow("A", "C")
        assert w["C"].adapter._heard_at == w.now
        w.flow("C", "A")
    w["A"].env.disk_jobs.extend(jobs)
    w.work("A")
    w.beat("A", "BC", 4)
    assert commands(w["C"].machine) == ["x0"]


def test_a_snapshot_that_is_gone_when_it_is_read_is_tried_again() -> None:
    w = World("ABC", tail_bytes=0)
    behind_a_snapshot(w)
    drive = w["A"].drive
    drive.faults = {drive.calls + 1: FileNotFoundError(2, "No such file or directory")}
    w.work("A")
    assert not w["A"].fatal
    w.beat("A", "BC", 4)
    assert commands(w["C"].machine) == ["x0"]


def test_a_snapshot_that_is_damaged_when_it_is_to_be_sent_stops_the_leader() -> None:
    w = World("ABC", tail_bytes=0)
    behind_a_snapshot(w)
    drive = w["A"].drive
    name = next(name for name in drive.files() if name.startswith("snapshot-"))
    drive.set_file(name, drive.files()[name][:-1] + b"?")
    w.work("A")
    assert len(w["A"].fatal) == 1
    assert name in w["A"].fatal[0]
