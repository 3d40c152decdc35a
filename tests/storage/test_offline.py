"""Beginning a data directory with a state, and reading one without changing it."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cluster.errors import UsageError
from cluster.storage import StorageDamaged, open_storage
from cluster.storage.meta import State
from cluster.storage.offline import begin_directory, read_directory
from cluster.storage.snapshots import slices

from .simdisk import Crash, SimDisk
from .simenv import SimEnv

pytestmark = pytest.mark.fast

STATE = State(term=4, incarnation=b"i" * 16, cluster_id=b"c" * 16, formed={"a": b"", "b": b""})
SNAPSHOT = (9, 4, b"state" * 400_000)


def begun(drive: SimDisk) -> None:
    begin_directory(SimEnv(drive, random.Random(1)).port, "/srv/n1", STATE, SNAPSHOT)


def test_a_directory_that_was_begun_opens_as_it_was_meant() -> None:
    drive = SimDisk(random.Random(1))
    begun(drive)
    drive.crash_power()
    storage = open_storage(SimEnv(drive, random.Random(2)).port, "/srv/n1", "fsync")
    assert storage.snapshots.latest() == SNAPSHOT
    assert storage.journal[:] == [(b"", 9, 4)]
    meta = storage.meta
    found = State(meta.term, meta.voted_for, meta.incarnation, meta.cluster_id, meta.formed, meta.joined)
    assert found == STATE
    assert not storage.empty
    storage.close()


@pytest.mark.parametrize("crash", [SimDisk.crash_process, SimDisk.crash_power])
def test_a_crash_at_any_call_leaves_it_whole_or_damaged_or_without_any_file(crash: Callable[[SimDisk], None]) -> None:
    """One that was half begun must not be taken for an empty one: a group of one node would grant at once."""
    whole = SimDisk(random.Random(1))
    begun(whole)
    seen = set()
    for call in range(1, whole.calls + 1):
        drive = SimDisk(random.Random(call), crash_at=call)
        with pytest.raises(Crash):
            begun(drive)
        crash(drive)
        drive.crash_at = 0
        files = drive.files()
        try:
            storage = open_storage(SimEnv(drive, random.Random(2)).port, "/srv/n1", "fsync")
        except StorageDamaged:
            seen.add("damaged")
            continue
        seen.add("empty" if storage.empty else "whole")
        assert not (storage.empty and files)
        assert storage.empty or (storage.snapshots.latest(), storage.meta.formed) == (SNAPSHOT, STATE.formed)
        storage.close()
    assert seen == {"empty", "damaged", "whole"}


def test_a_directory_with_anything_in_it_is_not_touched() -> None:
    drive = SimDisk(random.Random(1))
    begun(drive)
    before = drive.files()
    with pytest.raises(UsageError, match="not empty"):
        begun(drive)
    assert drive.files() == before


def left(joined: bool) -> SimDisk:
    drive = SimDisk(random.Random(1))
    env = SimEnv(drive, random.Random(2))
    storage = open_storage(env.port, "/srv/n1", "fsync")
    storage.meta.save(term=3, joined=joined)
    for index in (1, 2, 3):
        storage.journal.add(b"command %d" % index, index, 3)
    storage.close()
    return drive


def test_reading_changes_nothing_and_leaves_no_lock() -> None:
    drive = left(True)
    before = drive.files()
    for _ in range(2):
        remains = read_directory(SimEnv(drive, random.Random(3)).port, "/srv/n1")
        assert [entry[0] for entry in remains.entries] == [b"command 1", b"command 2", b"command 3"]
        assert (remains.state.term, remains.snapshot) == (3, None)
    assert drive.files() == before


@pytest.mark.parametrize(
    ("index", "term", "kept"),
    [(2, 3, [1, 2, 3]), (3, 3, [1, 2, 3]), (2, 4, []), (3, 4, []), (4, 3, [])],
    ids=["inside", "at its end", "of another term", "of another term at its end", "beyond it"],
)
def test_what_is_read_of_a_log_is_what_a_start_keeps(index: int, term: int, kept: list[int]) -> None:
    """A snapshot from the leader became durable, and the node died before it fitted its log to it."""
    drive = left(True)
    storage = open_storage(SimEnv(drive, random.Random(3)).port, "/srv/n1", "fsync")
    storage.meta.save(term=4)
    storage.close()
    disk = SimEnv(drive, random.Random(3)).port.disk("/srv/n1")
    for _ in slices(disk, (index, term, b"state")):
        pass
    disk.close()
    remains = read_directory(SimEnv(drive, random.Random(3)).port, "/srv/n1")
    assert [entry[1] for entry in remains.entries] == kept
    storage = open_storage(SimEnv(drive, random.Random(3)).port, "/srv/n1", "fsync")
    assert storage.journal[:] == (list(remains.entries) or [(b"", index, term)])
    storage.close()


def test_what_is_damaged_is_not_read() -> None:
    drive = left(True)
    name = next(name for name in drive.files() if name.startswith("journal"))
    data = bytearray(drive.files()[name])
    data[data.index(b"command 1")] ^= 1
    drive.set_file(name, bytes(data))
    with pytest.raises(StorageDamaged, match=name):
        read_directory(SimEnv(drive, random.Random(3)).port, "/srv/n1")


@pytest.mark.parametrize("drive", [SimDisk(random.Random(1)), left(False)])
def test_a_directory_of_no_member_has_nothing_to_recover(drive: SimDisk) -> None:
    with pytest.raises(UsageError, match="of no node that has belonged"):
        read_directory(SimEnv(drive, random.Random(3)).port, "/srv/n1")
