"""Opening a data directory: begun, locked, found as it was left, or refused with a text that says what to do."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.env import RealDisk, RealEnv
from cluster.errors import CoordinationError, UsageError
from cluster.storage import Durability, Entry, Storage, StorageDamaged, open_storage

from .simdisk import SimDisk
from .simenv import SimEnv

pytestmark = pytest.mark.fast

SEGMENT_BYTES = 1024


@pytest.fixture
def env() -> Iterator[RealEnv]:
    loop = asyncio.new_event_loop()
    env = RealEnv(loop)
    yield env
    env.close()
    loop.close()


def opened(drive: SimDisk, durability: Durability = "fsync") -> tuple[SimEnv, Storage]:
    env = SimEnv(drive, random.Random(drive.calls))
    return env, open_storage(env.port, "/srv/n1", durability, segment_bytes=SEGMENT_BYTES)


def left(entries: list[Entry], snapshot: tuple[int, int] | None, *, drop: int = 0, term: int = 9) -> SimDisk:
    """A directory with these entries and this snapshot; the first ``drop`` entries compacted away."""
    drive = SimDisk(random.Random(1))
    env, storage = opened(drive)
    storage.meta.save(term=term)
    storage.journal.reset(entries)
    if snapshot:
        storage.snapshots.save(*snapshot, b"state", lambda error: None)
        env.run()
    storage.journal.deleteEntriesTo(drop)
    storage.journal.sync(lambda: None)
    env.run()
    storage.close()
    return drive


def entries(first: int, last: int, term: int = 1) -> list[Entry]:
    return [(b"%d" % index, index, term) for index in range(first, last + 1)]


# What fits together.


def test_a_new_directory_is_empty_and_keeps_its_incarnation() -> None:
    drive = SimDisk()
    _, storage = opened(drive)
    assert storage.empty
    assert len(storage.meta.incarnation) == 16
    incarnation = storage.meta.incarnation
    storage.close()
    _, storage = opened(drive)
    assert storage.meta.incarnation == incarnation
    assert storage.empty


def test_it_is_empty_until_it_took_part_in_something() -> None:
    _, storage = opened(SimDisk())
    storage.journal.add(b"the engine's own first entry", 1, 0)
    assert storage.empty
    storage.journal.add(b"a leader's", 2, 1)
    assert not storage.empty
    for change in ("term", "snapshot"):
        env, storage = opened(SimDisk())
        if change == "term":
            storage.meta.save(term=1)
        else:
            storage.snapshots.save(3, 0, b"", lambda error: None)
            env.run()
        assert not storage.empty


def test_without_a_directory_each_start_is_a_new_incarnation() -> None:
    env = SimEnv(SimDisk(), random.Random(1))
    first, second = open_storage(env.port, None, "memory"), open_storage(env.port, "ignored", "memory")
    assert first.empty
    assert len(first.meta.incarnation) == len(second.meta.incarnation) == 16
    assert first.meta.incarnation != second.meta.incarnation
    first.meta.save(term=4, voted_for="a")
    assert (first.meta.term, first.meta.voted_for) == (4, "a")
    first.close()
    assert env.drive.calls == 0


def test_a_snapshot_newer_than_the_journals_head_keeps_the_rest_of_the_journal__s06() -> None:
    """The node was killed between the end of a snapshot and the compaction that follows it."""
    drive = left(entries(1, 20), (12, 1))
    _, storage = opened(drive)
    assert storage.journal[:] == entries(1, 20)
    assert storage.snapshots.latest() == (12, 1, b"state")


def test_a_compacted_journal_goes_on_from_its_snapshot__s07() -> None:
    drive = left(entries(1, 20), (12, 1), drop=11)
    _, storage = opened(drive)
    assert storage.journal[:] == entries(12, 20)


@pytest.mark.parametrize(
    ("log", "why"),
    [(entries(1, 11), "it ends before"), (entries(1, 20, term=2), "another term there"), ([], "it is empty")],
)
def test_a_journal_that_does_not_reach_the_snapshot_begins_there(log: list[Entry], why: str) -> None:
    drive = left(log, (12, 1))
    for _ in range(2):
        _, storage = opened(drive)
        assert storage.journal[:] == [(b"", 12, 1)], why
        assert storage.journal.durable_index == 12
        drive.crash_power()
    _, storage = opened(drive)
    storage.journal.add(b"next", 13, 1)
    storage.close()
    _, storage = opened(drive)
    assert storage.journal[:] == [(b"", 12, 1), (b"next", 13, 1)]


def test_a_journal_that_begins_right_after_the_snapshot_is_kept() -> None:
    drive = left(entries(13, 20), (12, 1))
    _, storage = opened(drive)
    assert storage.journal[:] == entries(13, 20)


@pytest.mark.parametrize(("first", "snapshot"), [(14, (12, 1)), (2, None), (14, None)])
def test_a_journal_that_begins_behind_a_gap_is_damage__s13(first: int, snapshot: tuple[int, int] | None) -> None:
    drive = left(entries(first, 20), snapshot)
    before = drive.files()
    with pytest.raises(StorageDamaged, match=f"begins at index {first}") as caught:
        opened(drive)
    assert caught.value.file.startswith("/srv/n1/journal-")
    assert drive.files() == before


def test_a_lost_snapshot_is_damage__s13() -> None:
    drive = left(entries(1, 20), (12, 1), drop=11)
    for name in drive.files():
        if name.startswith("snapshot-"):
            drive.set_file(name, None)
    with pytest.raises(StorageDamaged, match="there is no snapshot"):
        opened(drive)


def test_a_lost_meta_file_is_damage_unless_nothing_was_ever_kept__s14() -> None:
    for drive in (left(entries(1, 3), None), left([], (5, 1))):
        drive.set_file("meta", None)
        with pytest.raises(StorageDamaged, match="term and vote") as caught:
            opened(drive)
        assert caught.value.file == "/srv/n1/meta"
    drive = SimDisk()
    opened(drive)
    drive.crash_process()
    drive.set_file("meta", None)
    _, storage = opened(drive)
    assert storage.empty


@pytest.mark.parametrize("data", [b"", b"\0" * 64, b"TENUREM\n"])
def test_a_meta_file_that_says_nothing_is_never_term_0__s14(data: bytes) -> None:
    drive = left(entries(1, 3), None)
    drive.set_file("meta", data)
    with pytest.raises(StorageDamaged) as caught:
        opened(drive)
    assert caught.value.file == "/srv/n1/meta"


def test_a_lost_journal_is_damage() -> None:
    drive = left(entries(1, 3), None)
    for name in drive.files():
        if name.startswith("journal-"):
            drive.set_file(name, None)
    with pytest.raises(StorageDamaged, match="the journal is missing"):
        opened(drive)


def test_an_old_copy_of_the_meta_file_is_damage__s14() -> None:
    drive = left(entries(1, 3, term=1), None, term=1)
    old = drive.files()["meta"]
    _, storage = opened(drive)
    storage.meta.save(term=2)
    storage.journal.add(b"", 4, 2)
    storage.close()
    drive.set_file("meta", old)
    with pytest.raises(StorageDamaged, match="an old copy"):
        opened(drive)


def test_leftovers_are_removed_and_strangers_are_not() -> None:
    drive = left(entries(1, 20), (12, 1))
    older = drive.files()["snapshot-000000000000000c"]
    keep = set(drive.files())
    for name in (
        "meta.new",
        "journal-0000000000000009.new",
        "snapshot-0000000000000020.new",
        "snapshot-0000000000000003",
    ):
        drive.set_file(name, older)
    for name in ("notes.txt", "notes.new", "lost+found"):
        drive.set_file(name, b"not ours")
        keep.add(name)
    _, storage = opened(drive)
    assert set(drive.files()) == keep
    assert storage.snapshots.index == 12


# What cannot be used.


def test_a_directory_has_one_node(tmp_path: Path, env: RealEnv) -> None:
    path = str(tmp_path / "deep" / "n1")
    storage = open_storage(env, path, "fsync")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert {stat.S_IMODE(os.stat(os.path.join(path, name)).st_mode) for name in os.listdir(path)} == {0o600}
    with pytest.raises(UsageError, match="in use by another node") as caught:
        open_storage(env, path, "fsync")
    assert caught.value.hint
    storage.close()
    open_storage(env, path, "fsync").close()


def test_a_file_is_no_directory(tmp_path: Path, env: RealEnv) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "below"):
        with pytest.raises(UsageError, match="is not a directory"):
            open_storage(env, str(path), "fsync")


def test_an_unknown_durability_is_refused_and_not_taken_for_a_weaker_one() -> None:
    drive = SimDisk()
    with pytest.raises(UsageError, match="'fsycn' is unknown"):
        opened(drive, "fsycn")  # type: ignore[arg-type]
    assert drive.calls == 0


@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_what_a_power_cut_takes_is_said_at_the_start(durability: Durability, caplog: pytest.LogCaptureFixture) -> None:
    _, storage = opened(SimDisk(), durability)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said == (["storage_durability durability=process survives a killed process, not a power cut"] if durability == "process" else [])
    storage.close()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_refused_call_at_the_start_is_a_usage_error(number: int) -> None:
    whole = SimDisk()
    opened(whole)
    for call in range(1, whole.calls + 1):
        drive = SimDisk(faults={call: OSError(number, os.strerror(number))})
        with pytest.raises(UsageError, match="'/srv/n1' cannot be used") as caught:
            opened(drive)
        assert os.strerror(number) in str(caught.value)
        assert "0700" in caught.value.hint
        # It let go of the directory: once it is mended, the next try begins.
        drive.faults = {}
        opened(drive)


def test_a_failing_disk_at_the_start_is_told_with_the_reason() -> None:
    drive = left(entries(1, 5), None)
    drive.faults = {drive.calls + 3: OSError(errno.EIO, "Input/output error")}
    with pytest.raises(CoordinationError, match="Input/output error") as caught:
        opened(drive)
    assert not isinstance(caught.value, (UsageError, StorageDamaged))
    drive.faults = {}
    _, storage = opened(drive)
    assert storage.journal[:] == entries(1, 5)


# On this machine's disk.


def test_it_is_all_there_after_a_restart(tmp_path: Path, env: RealEnv) -> None:
    path = str(tmp_path / "n1")
    for durability in ("fsync", "process"):
        storage = open_storage(env, path, durability)
        first = len(storage.journal) + 1
        storage.meta.save(term=first, voted_for="a:1", formed={"a:1": b"1" * 16})
        for index in range(first, first + 100):
            storage.journal.add(os.urandom(200), index, first)
        expected = storage.journal[:]
        storage.close()
        storage = open_storage(env, path, "fsync")
        assert storage.journal[:] == expected
        assert (storage.meta.term, storage.meta.voted_for, storage.meta.formed) == (first, "a:1", {"a:1": b"1" * 16})
        storage.close()


def test_a_new_directory_and_all_above_it_are_synced_where_they_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr("cluster.env.sync_directory", synced.append)
    for _ in range(2):
        RealDisk(str(tmp_path / "a" / "b" / "c")).close()
        assert sorted(synced) == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL])
def test_space_is_made_where_the_file_system_cannot_reserve_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(fd: int, offset: int, size: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    disk = RealDisk(str(tmp_path / "n1"))
    file = disk.open("file", create=True)
    file.pwrite(b"x", 0)
    file.preallocate(10_000)
    assert file.size() == 10_000
    file.preallocate(5_000)
    assert file.size() == 10_000
    assert file.pread(3, 0) == b"x\0\0"
    file.close()
    disk.close()


def test_a_full_disk_is_told_when_space_is_reserved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: RealEnv
) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(CoordinationError, match="No space left"):
        open_storage(env, str(tmp_path / "n1"), "fsync")


WRITER = """
import asyncio, sys
from cluster.env import RealDisk, RealEnv
from cluster.storage import open_storage
storage = open_storage(RealEnv(asyncio.new_event_loop()), sys.argv[1], "process", segment_bytes=4096)
for index in range(1, 100000):
    storage.journal.add(b"%d" % index, index, 0)
    storage.journal.flush()
    print(index, flush=True)
"""


def test_process_durability_survives_a_kill__I9(tmp_path: Path, env: RealEnv) -> None:
    path = str(tmp_path / "n1")
    process = subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            if int(line) == 300:
                process.send_signal(signal.SIGKILL)
                break
        acknowledged = [300, *(int(line) for line in process.stdout if line.endswith("\n"))][-1]
    assert process.wait() == -signal.SIGKILL
    storage = open_storage(env, path, "process", segment_bytes=4096)
    assert len(storage.journal) >= acknowledged
    assert storage.journal[:] == [(b"%d" % index, index, 0) for index in range(1, len(storage.journal) + 1)]
    storage.close()
