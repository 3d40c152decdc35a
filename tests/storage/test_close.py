"""The end of a storage: what a close settles, what it leaves alone, and what the next start makes good."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import pickle
import random
import threading
from pathlib import Path

import pytest

from cluster.env import RealEnv
from cluster.storage import StorageDamaged, open_storage, work

from .simdisk import Crash, SimDisk
from .simenv import SimEnv
from .test_sync import begun

pytestmark = pytest.mark.fast


def test_a_close_settles_what_was_appended_and_what_was_under_way() -> None:
    drive, env, storage = begun()
    done: list[bool] = []
    storage.journal.add(b"x", 1, 0)
    storage.journal.sync(lambda: done.append(True))
    storage.journal.add(b"x", 2, 0)
    storage.close()
    storage.close()
    drive.crash_power()
    env.run()
    assert done == [], "nobody is told any more"
    again = open_storage(SimEnv(drive, random.Random(2)).port, "data", "fsync", segment_bytes=4096)
    assert len(again.journal) == 2


def test_work_that_was_queued_before_a_close_touches_nothing_after_it() -> None:
    drive, env, storage = begun()
    storage.journal.add(b"x", 1, 0)
    storage.journal.sync(lambda: None)
    storage.snapshots.save(1, 0, b"state", lambda error: None)
    storage.close()
    calls = drive.calls
    env.run()
    assert drive.calls == calls


def test_a_kill_between_a_rename_and_its_directory_sync_is_made_good_at_the_next_start__I9() -> None:
    """The next life saw the new term; it must not go back when the power fails later."""
    for seed in range(20):
        drive = SimDisk(random.Random(seed))
        env = SimEnv(drive, random.Random(seed))
        storage = open_storage(env.port, "data", "fsync", segment_bytes=4096)
        drive.faults = {drive.calls + 6: OSError(errno.EIO, "planned")}
        with pytest.raises(OSError, match="planned"):
            storage.meta.save(term=5, voted_for="a")
        assert drive.log[-1].startswith("syncdir")
        drive.crash_process()
        drive.faults = {}
        storage = open_storage(SimEnv(drive, random.Random(1)).port, "data", "fsync", segment_bytes=4096)
        assert storage.meta.voted_for == "a"
        drive.crash_power()
        storage = open_storage(SimEnv(drive, random.Random(1)).port, "data", "fsync", segment_bytes=4096)
        assert storage.meta.voted_for == "a"


def two_snapshots(drive: SimDisk) -> None:
    """The second is saved over a journal that was shortened after the first."""
    env = SimEnv(drive, random.Random(0))
    storage = open_storage(env.port, "data", "fsync", segment_bytes=4096)
    for index in range(1, 10):
        storage.journal.add(b"x", index, 0)
    for index in (5, 9):
        storage.journal.sync(lambda: None)
        env.run()
        storage.snapshots.save(index, 0, b"state", lambda error: None)
        env.run()
        storage.journal.deleteEntriesTo(index - 1)


def open_again(drive: SimDisk) -> int:
    storage = open_storage(SimEnv(drive, random.Random(1)).port, "data", "fsync", segment_bytes=4096)
    return storage.snapshots.index


def test_nor_does_a_start_remove_what_a_rename_replaced_before_the_rename_is_synced__I9() -> None:
    """Else the power may take the new snapshot and the old one, and the journal begins behind both."""
    whole = SimDisk(random.Random(0))
    two_snapshots(whole)
    (renamed,) = (call for call, what in enumerate(whole.log, 1) if what.startswith("rename snapshot-0000000000000009"))
    for seed in range(30):
        for call in itertools.count(1):
            drive = SimDisk(random.Random(seed), crash_at=renamed + 1)
            with pytest.raises(Crash):
                two_snapshots(drive)
            drive.crash_process()
            drive.crash_at = drive.calls + call
            try:
                open_again(drive)
            except Crash:
                drive.crash_power()
                drive.crash_at = 0
                assert open_again(drive) in (5, 9)
            else:
                break


def test_a_close_waits_for_a_sync_that_runs_and_gives_up_on_a_disk_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.new_event_loop()
    env = RealEnv(loop)
    storage = open_storage(env, str(tmp_path / "n1"), "fsync")
    disk_work = work.DiskWork(env)
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow() -> None:
        began.set()
        go_on.wait(10)
        ended.set()

    disk_work.submit(slow, lambda error: None)
    assert began.wait(10)
    monkeypatch.setattr(work, "STOP_WAIT_S", 0.05)
    assert not disk_work.stop(), "the disk hangs"
    monkeypatch.setattr(work, "STOP_WAIT_S", 10.0)
    threading.Timer(0.05, go_on.set).start()
    assert disk_work.stop()
    assert ended.is_set()
    storage.close()

    hanging = open_storage(env, str(tmp_path / "n2"), "fsync")
    monkeypatch.setattr(work.DiskWork, "stop", lambda self: False)
    with caplog.at_level(logging.WARNING):
        hanging.close()
    assert "storage_close_gave_up" in caplog.text
    env.close()
    loop.close()


def test_a_damaged_error_survives_a_trip_between_processes() -> None:
    error = StorageDamaged("journal-1", 64, "rubbish").within("/srv/n1")
    again = pickle.loads(pickle.dumps(error))
    assert (again.file, again.offset, again.why, str(again)) == ("/srv/n1/journal-1", 64, "rubbish", str(error))
    assert not again.retryable
