"""Snapshot files: whole or not there, checked when read, never older than what is kept."""

from __future__ import annotations

import errno
import logging
import random
import struct
import zlib

import pytest

from cluster.storage import StorageDamaged, open_storage
from cluster.storage.snapshots import BLOCK_BYTES, decode, snapshot_name

from .simdisk import SimDisk
from .simenv import SimEnv
from .story import Snap

pytestmark = pytest.mark.fast


def begun(drive: SimDisk, seed: int = 1) -> tuple[SimEnv, list[BaseException | None]]:
    return SimEnv(drive, random.Random(seed)), []


def saved(*snapshots: Snap) -> SimDisk:
    drive = SimDisk()
    env, done = begun(drive)
    storage = open_storage(env.port, "data", "fsync", segment_bytes=4096)
    storage.meta.save(term=9)
    for snapshot in snapshots:
        storage.snapshots.save(*snapshot, done.append)
    env.run()
    assert done == [None] * len(snapshots)
    storage.close()
    return drive


def snapshot_files(drive: SimDisk) -> list[str]:
    return [name for name in drive.files() if name.startswith("snapshot-")]


@pytest.mark.parametrize("size", [0, 1, 1000, BLOCK_BYTES, BLOCK_BYTES + 1, 2 * BLOCK_BYTES + 12345])
def test_what_is_saved_is_read_again(size: int) -> None:
    snapshot = (5, 3, random.Random(size).randbytes(size))
    drive = saved(snapshot)
    drive.crash_power()
    env, _ = begun(drive)
    storage = open_storage(env.port, "data", "fsync", segment_bytes=4096)
    assert storage.snapshots.latest() == snapshot
    assert storage.snapshots.index == 5


def test_every_flip_and_every_truncation_is_damage__s12() -> None:
    drive = saved((5, 3, bytes(range(200))))
    name = snapshot_name(5)
    data = drive.files()[name]
    for offset in range(len(data)):
        with pytest.raises(StorageDamaged) as caught:
            decode(name, data[:offset] + bytes([data[offset] ^ 4]) + data[offset + 1 :])
        assert caught.value.file == name
        with pytest.raises(StorageDamaged):
            decode(name, data[:offset])
    with pytest.raises(StorageDamaged):
        decode(name, data + b"\0")
    with pytest.raises(StorageDamaged, match="index 5"):
        decode(snapshot_name(6), data)


def test_a_header_that_promises_blocks_of_no_bytes_is_damage() -> None:
    drive = saved((5, 3, b"state"))
    name = snapshot_name(5)
    data = drive.files()[name]
    header = data[:12] + bytes(4) + data[16:40]
    with pytest.raises(StorageDamaged, match="blocks have no bytes") as caught:
        decode(name, header + struct.pack("<I", zlib.crc32(header)) + data[44:])
    assert (caught.value.file, caught.value.offset) == (name, 12)


def test_damage_is_named_by_block_and_blocks_cannot_change_places() -> None:
    drive = saved((5, 3, b"".join(bytes([number]) * BLOCK_BYTES for number in range(3))))
    name = snapshot_name(5)
    data = drive.files()[name]
    block = BLOCK_BYTES + 4
    start = len(data) - 3 * block
    with pytest.raises(StorageDamaged) as caught:
        decode(name, data[: start + block + 77] + b"X" + data[start + block + 78 :])
    assert caught.value.offset == start + block
    swapped = (
        data[:start] + data[start + block : start + 2 * block] + data[start : start + block] + data[start + 2 * block :]
    )
    with pytest.raises(StorageDamaged):
        decode(name, swapped)


def test_a_damaged_snapshot_stops_the_start_and_is_not_passed_over__s12() -> None:
    drive = saved((5, 3, b"state"))
    name = snapshot_name(5)
    before = drive.files()
    drive.set_file(name, before[name][:-1])
    env, _ = begun(drive)
    with pytest.raises(StorageDamaged) as caught:
        open_storage(env.port, "/srv/n1", "fsync", segment_bytes=4096)
    assert caught.value.file == f"/srv/n1/{name}"
    assert drive.files() == {**before, name: before[name][:-1]}, "nothing was changed"
    drive.set_file(name, before[name])
    open_storage(env.port, "data", "fsync", segment_bytes=4096)


def test_a_snapshot_damaged_while_the_node_runs_is_not_handed_out() -> None:
    drive = saved((5, 3, b"state"))
    env, _ = begun(drive)
    storage = open_storage(env.port, "/srv/n1", "fsync", segment_bytes=4096)
    drive.set_file(snapshot_name(5), b"rubbish")
    with pytest.raises(StorageDamaged, match="/srv/n1/snapshot-"):
        storage.snapshots.latest()


def test_the_previous_one_stays_until_the_next_is_whole() -> None:
    drive = saved((5, 3, b"old"))
    env, done = begun(drive)
    storage = open_storage(env.port, "data", "fsync", segment_bytes=4096)
    storage.snapshots.save(9, 4, bytes(3 * BLOCK_BYTES), done.append)
    seen = 0
    while not done:
        assert snapshot_name(5) in drive.files()
        assert storage.snapshots.latest() == (5, 3, b"old")
        env.work()
        env.turn()
        seen += 1
    assert seen >= 4, "in slices, so that journal syncs come in between"
    env.run()
    assert snapshot_files(drive) == [snapshot_name(9)]
    assert storage.snapshots.index == 9


def test_an_older_one_never_replaces_a_newer_one__s20() -> None:
    drive = SimDisk()
    env, done = begun(drive)
    storage = open_storage(env.port, "data", "fsync", segment_bytes=4096)
    storage.snapshots.save(5, 0, b"own", done.append)
    storage.snapshots.save(9, 0, b"installed", done.append)
    storage.snapshots.save(7, 0, b"own, late", done.append)
    storage.snapshots.save(9, 0, b"again", done.append)
    env.run()
    assert done == [None] * 4
    assert storage.snapshots.latest() == (9, 0, b"installed")
    assert snapshot_files(drive) == [snapshot_name(9)]


def test_an_error_is_told_to_who_saved_and_another_save_may_follow(caplog: pytest.LogCaptureFixture) -> None:
    whole = saved((5, 3, b"old"))
    env, done = begun(whole)
    storage = open_storage(env.port, "data", "fsync", segment_bytes=4096)
    first = whole.calls
    storage.snapshots.save(9, 4, b"new", done.append)
    env.run()
    calls = whole.calls - first
    for call in range(1, calls):
        drive = saved((5, 3, b"old"))
        env, done = begun(drive)
        storage = open_storage(env.port, "data", "fsync", segment_bytes=4096)
        error = OSError(errno.ENOSPC, "full")
        drive.faults = {drive.calls + call: error}
        with caplog.at_level(logging.CRITICAL):
            storage.snapshots.save(9, 4, b"new", done.append)
            env.run()
        assert done == [error]
        assert storage.snapshots.latest() == (5, 3, b"old")
        storage.snapshots.save(9, 4, b"new", done.append)
        env.run()
        assert done == [error, None]
        drive.crash_power()
        env, _ = begun(drive)
        assert open_storage(env.port, "data", "fsync", segment_bytes=4096).snapshots.latest() == (9, 4, b"new")


def test_in_memory_it_is_the_same() -> None:
    env, done = begun(SimDisk())
    storage = open_storage(env.port, None, "memory")
    assert storage.snapshots.latest() is None
    storage.snapshots.save(9, 4, b"new", done.append)
    storage.snapshots.save(7, 4, b"old", done.append)
    assert not done, "done comes later, as it does from a disk"
    env.run()
    assert done == [None, None]
    assert storage.snapshots.latest() == (9, 4, b"new")
    assert storage.snapshots.index == 9
