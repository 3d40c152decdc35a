"""When what was appended is durable, who is told, and what an error does to that."""

from __future__ import annotations

import errno
import random

import pytest

from cluster.storage import Durability, Storage, open_storage

from .simdisk import SimDisk
from .simenv import SimEnv

pytestmark = pytest.mark.fast


def begun(durability: Durability = "fsync", segment_bytes: int = 4096) -> tuple[SimDisk, SimEnv, Storage]:
    drive = SimDisk(random.Random(1))
    env = SimEnv(drive, random.Random(1))
    return drive, env, open_storage(env.port, "data", durability, segment_bytes=segment_bytes)


def calls_of(drive: SimDisk, since: int) -> list[str]:
    return [entry.split()[0] for entry in drive.log[since:]]


def test_all_who_come_while_a_sync_runs_share_the_next_one() -> None:
    drive, env, storage = begun()
    journal = storage.journal
    done: list[int] = []
    since = drive.calls
    for number in range(1, 11):
        journal.add(b"x", number, 0)
        journal.sync(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == []
    assert calls_of(drive, since) == [], "the loop itself touches no file"
    env.work()
    assert calls_of(drive, since) == ["pwrite", "datasync"]
    assert journal.durable_index == 0, "not before the loop has heard of it"
    env.turn()
    assert done == [1]
    assert journal.durable_index == 1
    env.run()
    assert done == list(range(1, 11))
    assert calls_of(drive, since) == ["pwrite", "datasync"] * 2
    assert journal.durable_index == 10


def test_a_sync_of_what_is_under_way_waits_for_that_one_only() -> None:
    drive, env, storage = begun()
    done: list[str] = []
    since = drive.calls
    storage.journal.add(b"x", 1, 0)
    storage.journal.sync(lambda: done.append("first"))
    storage.journal.sync(lambda: done.append("second"))
    env.run()
    assert done == ["first", "second"]
    assert calls_of(drive, since) == ["pwrite", "datasync"]
    storage.journal.sync(lambda: done.append("at once"))
    assert done[-1] == "at once"


def test_an_entry_that_replaces_one_under_way_is_not_durable_with_it() -> None:
    _, env, storage = begun()
    journal = storage.journal
    for index in (1, 2, 3):
        journal.add(b"old", index, 0)
    journal.sync(lambda: None)
    env.work()
    journal.deleteEntriesFrom(1)
    journal.add(b"new", 2, 1)
    env.turn()
    assert journal.durable_index == 1
    journal.sync(lambda: None)
    env.run()
    assert journal.durable_index == 2


def test_a_new_log_is_not_durable_before_its_reset_is() -> None:
    _, env, storage = begun()
    storage.journal.add(b"old", 1, 0)
    storage.journal.sync(lambda: None)
    env.run()
    storage.journal.reset([(b"", 8, 0), (b"", 9, 0)])
    assert storage.journal.durable_index == 7
    storage.journal.sync(lambda: None)
    env.run()
    assert storage.journal.durable_index == 9


def test_process_durability_writes_once_per_flush_and_never_syncs() -> None:
    drive, env, storage = begun("process")
    since = drive.calls
    done: list[bool] = []
    for index in range(1, 6):
        storage.journal.add(b"x", index, 0)
    assert storage.journal.durable_index == 0
    storage.journal.flush()
    assert storage.journal.durable_index == 5
    assert calls_of(drive, since) == ["pwrite"]
    storage.journal.flush()
    storage.journal.add(b"x", 6, 0)
    storage.journal.sync(lambda: done.append(True))
    assert done == [True], "at once"
    assert calls_of(drive, since) == ["pwrite", "pwrite"]
    assert storage.journal.durable_index == 6
    assert not env.waiting


def test_without_a_directory_all_is_durable_at_once() -> None:
    env = SimEnv(SimDisk(), random.Random(1))
    storage = open_storage(env.port, None, "fsync")
    done: list[bool] = []
    storage.journal.add(b"x", 1, 0)
    storage.journal.flush()
    storage.journal.sync(lambda: done.append(True))
    storage.journal.onOneSecondTimer()
    assert done == [True]
    assert storage.journal.durable_index == 1
    storage.close()


def test_what_nobody_asked_for_is_settled_within_a_second() -> None:
    _, env, storage = begun()
    storage.journal.add(b"x", 1, 0)
    storage.journal.onOneSecondTimer()
    env.run()
    assert storage.journal.durable_index == 1


# Errors.


@pytest.mark.parametrize("kind", ["pwrite", "datasync"])
def test_a_failed_sync_is_told_once_and_nothing_more_is_acknowledged__I9(kind: str) -> None:
    drive, env, storage = begun()
    journal = storage.journal
    told: list[BaseException] = []
    done: list[int] = []
    journal.on_error = told.append
    journal.add(b"x", 1, 0)
    journal.sync(lambda: done.append(1))
    env.run()
    journal.add(b"x", 2, 0)
    error = OSError(errno.EIO, "Input/output error")
    drive.faults = {drive.calls + (1 if kind == "pwrite" else 2): error}
    journal.sync(lambda: done.append(2))
    journal.add(b"x", 3, 0)
    journal.sync(lambda: done.append(3))
    env.run()
    drive.faults = {}
    journal.add(b"x", 4, 0)
    journal.sync(lambda: done.append(4))
    journal.onOneSecondTimer()
    env.run()
    assert told == [error]
    assert done == [1]
    assert [entry[1] for entry in journal[:]] == [1, 2, 3, 4]
    assert journal.durable_index == 1
    storage.close()
    drive.crash_power()
    again = open_storage(SimEnv(drive, random.Random(2)).port, "data", "fsync", segment_bytes=4096)
    assert again.journal[:2][0] == (b"x", 1, 0)


def test_a_failed_flush_raises_and_is_told_once_and_later() -> None:
    drive, env, storage = begun("process")
    journal = storage.journal
    told: list[BaseException] = []
    done: list[int] = []
    journal.on_error = told.append
    journal.add(b"x", 1, 0)
    error = OSError(errno.ENOSPC, "No space left on device")
    drive.faults = {drive.calls + 1: error}
    with pytest.raises(OSError, match="No space left"):
        journal.flush()
    assert told == [], "not from inside the engine's call"
    env.run()
    assert told == [error]
    with pytest.raises(OSError, match="No space left"):
        journal.flush()
    journal.sync(lambda: done.append(1))
    env.run()
    assert (told, done) == ([error], [])
    assert journal.durable_index == 0


def test_a_failed_save_of_term_and_vote_is_told_like_the_journals_own() -> None:
    drive, env, storage = begun()
    told: list[BaseException] = []
    storage.journal.on_error = told.append
    error = OSError(errno.EIO, "Input/output error")
    drive.faults = {drive.calls + 2: error}
    with pytest.raises(OSError, match="Input/output"):
        storage.journal.setCurrentTerm(1, "a")
    assert told == []
    drive.faults = {drive.calls + 1: OSError(errno.EIO, "and the journal")}
    storage.journal.add(b"x", 1, 0)
    storage.journal.sync(lambda: None)
    env.run()
    assert told == [error]


def test_a_full_disk_stops_the_journal_and_loses_nothing_acknowledged__I9() -> None:
    drive, env, storage = begun(segment_bytes=1024)
    drive.capacity_bytes = 6000
    told: list[BaseException] = []
    acknowledged = 0
    storage.journal.on_error = told.append

    def acknowledge(index: int) -> None:
        nonlocal acknowledged
        acknowledged = index

    for index in range(1, 100):
        storage.journal.add(bytes(100), index, 0)
        storage.journal.sync(lambda index=index: acknowledge(index))  # type: ignore[misc]
        env.run()
    assert [type(error) for error in told] == [OSError]
    assert 10 < acknowledged < 99
    drive.crash_power()
    again = open_storage(SimEnv(drive, random.Random(2)).port, "data", "fsync", segment_bytes=1024)
    assert len(again.journal) >= acknowledged


# Segments.


def test_compaction_drops_whole_segments_and_rewrites_nothing() -> None:
    drive, env, storage = begun(segment_bytes=1024)
    journal = storage.journal
    for index in range(1, 61):
        journal.add(bytes(60), index, 0)
    journal.sync(lambda: None)
    env.run()
    before = {name: data for name, data in drive.files().items() if name.startswith("journal-")}
    assert len(before) > 5
    storage.snapshots.save(50, 0, b"", lambda error: None)
    env.run()
    journal.deleteEntriesTo(49)
    assert len(drive.files()) > len(before), "not before the new head is settled"
    since = drive.calls
    journal.sync(lambda: None)
    env.run()
    after = {name: data for name, data in drive.files().items() if name.startswith("journal-")}
    assert len(after) == 2
    assert calls_of(drive, since).count("pwrite") == 1
    assert all(data.startswith(before[name].rstrip(b"\0")) for name, data in after.items())
    storage.close()
    again = open_storage(env.port, "data", "fsync", segment_bytes=1024)
    assert [entry[1] for entry in again.journal[:]] == list(range(50, 61))


def test_a_segment_that_cannot_be_removed_goes_first_the_next_time(caplog: pytest.LogCaptureFixture) -> None:
    drive, env, storage = begun(segment_bytes=1024)
    journal = storage.journal
    for index in range(1, 61):
        journal.add(bytes(60), index, 0)
    storage.snapshots.save(60, 0, b"", lambda error: None)
    env.run()
    for kind in ("remove", "syncdir"):
        drive.failing = {kind: OSError(errno.EBUSY, "Device or resource busy")}
        journal.deleteEntriesTo(20)
        journal.sync(lambda: None)
        env.run()
    assert caplog.text.count("journal_segment_not_removed file=journal-0000000000000001 ") == 2
    drive.failing = {}
    since = drive.calls
    journal.deleteEntriesTo(5)
    journal.sync(lambda: None)
    env.run()
    removed = [entry.split()[1] for entry in drive.log[since:] if entry.startswith("remove")]
    assert removed == sorted(removed)
    assert removed[0].endswith("01")
    assert len(removed) > 4
    assert not any(name in drive.files() for name in removed)
    drive.crash_power()
    again = open_storage(SimEnv(drive, random.Random(2)).port, "data", "fsync", segment_bytes=1024)
    assert again.journal[0][1] == 46


def test_what_an_earlier_life_had_no_time_to_remove_is_removed_by_the_next() -> None:
    drive, env, storage = begun(segment_bytes=1024)
    for index in range(1, 61):
        storage.journal.add(bytes(60), index, 0)
    storage.snapshots.save(60, 0, b"", lambda error: None)
    env.run()
    storage.journal.deleteEntriesTo(50)
    storage.close()
    before = len(drive.files())
    storage = open_storage(env.port, "data", "fsync", segment_bytes=1024)
    storage.journal.add(b"", 61, 0)
    storage.journal.sync(lambda: None)
    env.run()
    assert len(drive.files()) < before - 4


def test_an_entry_larger_than_a_segment_gets_one_of_its_own() -> None:
    drive, env, storage = begun(segment_bytes=1024)
    for index, size in enumerate((10, 5000, 10, 1024), start=1):
        storage.journal.add(bytes(size), index, 0)
    storage.journal.sync(lambda: None)
    env.run()
    expected = storage.journal[:]
    drive.crash_power()
    again = open_storage(SimEnv(drive, random.Random(2)).port, "data", "fsync", segment_bytes=1024)
    assert again.journal[:] == expected
