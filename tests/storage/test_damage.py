"""Every byte of a small journal flipped, every file cut short, every tail torn: what is loaded is what was written, or nothing is."""

from __future__ import annotations

import logging
import random
import zlib

import pytest

from cluster.storage import Entry, StorageDamaged, open_storage
from cluster.storage import record as r
from cluster.storage.replay import Log, Segment, replay
from cluster.storage.segments import segment_name

from .simdisk import SimDisk
from .simenv import SimEnv

pytestmark = pytest.mark.fast

SEGMENT_BYTES = 512


def written(groups: int, *, close: bool = False) -> tuple[SimDisk, list[list[Entry]]]:
    """A journal of several segments and synced groups of two or three entries. Returns what it held after each group."""
    rng = random.Random(groups)
    drive = SimDisk(rng)
    env = SimEnv(drive, rng)
    storage = open_storage(env.port, "data", "fsync", segment_bytes=SEGMENT_BYTES)
    storage.meta.save(term=1)
    held: list[list[Entry]] = [[]]
    for group in range(groups):
        for _ in range(2 + group % 2):
            storage.journal.add(rng.randbytes(rng.choice((0, 5, 60))), len(storage.journal) + 1, 1)
        storage.journal.sync(lambda: held.append(storage.journal[:]))
        env.run()
    if close:
        storage.close()
    else:
        drive.crash_process()
    return drive, held


def segments_of(drive: SimDisk) -> list[Segment]:
    return [Segment(name, data) for name, data in drive.files().items() if name.startswith("journal-")]


def records_of(segments: list[Segment]) -> list[tuple[int, int, int]]:
    """(ordinal, first offset, end offset) of every record."""
    places = []
    for ordinal, segment in enumerate(segments):
        header, offset = r.Header.decode(segment.data), r.HEADER_BYTES
        while record := r.decode_record(header, segment.data, offset, len(segment.data)):
            places.append((ordinal, offset, offset + record.size))
            offset += record.size
    return places


def with_data(segments: list[Segment], ordinal: int, data: bytes) -> list[Segment]:
    return [*segments[:ordinal], Segment(segments[ordinal].name, data), *segments[ordinal + 1 :]]


def outcome(segments: list[Segment]) -> Log | StorageDamaged:
    try:
        return replay(segments)
    except StorageDamaged as error:
        return error


def flipped(data: bytes, offset: int, mask: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ mask]) + data[offset + 1 :]


def test_no_flipped_byte_is_loaded_and_nothing_settled_is_lost() -> None:
    drive, held = written(6)
    segments = segments_of(drive)
    assert len(segments) >= 3
    last, before_last_group = held[-1], held[-2]
    damaged = cut = harmless = 0
    for ordinal, segment in enumerate(segments):
        for offset in range(len(segment.data)):
            changed = with_data(segments, ordinal, flipped(segment.data, offset, 1 << offset % 8))
            log = outcome(changed)
            if isinstance(log, StorageDamaged):
                assert log.file == segment.name
                assert log.offset <= offset < log.offset + max(r.HEADER_BYTES, r.RECORD_BYTES + 60)
                damaged += 1
                continue
            assert log.entries == last[: len(log.entries)]
            assert len(log.entries) >= len(before_last_group)
            if log.cut is None:
                # Space that is never read: behind the end of a segment that was left for the next one.
                assert log.entries == last
                harmless += 1
            else:
                assert log.cut.ordinal == ordinal
                assert log.cut.offset <= offset
                cut += 1
    assert damaged > 0
    assert cut > 0
    assert harmless > 0


def test_after_a_close_a_flip_in_any_record_of_an_entry_is_damage_and_named() -> None:
    drive, _ = written(6, close=True)
    segments = segments_of(drive)
    places = records_of(segments)
    for ordinal, start, end in places[:-1]:
        for offset in range(start, end):
            with pytest.raises(StorageDamaged) as caught:
                replay(with_data(segments, ordinal, flipped(segments[ordinal].data, offset, 0x10)))
            assert (caught.value.file, caught.value.offset) == (segments[ordinal].name, start)
            assert str(start) in str(caught.value)
            assert segments[ordinal].name in str(caught.value)
    # The last is the seal, which proves the others and which nothing proves: without it nothing is lost.
    ordinal, start, end = places[-1]
    whole = replay(segments)
    for offset in range(start, end):
        log = replay(with_data(segments, ordinal, flipped(segments[ordinal].data, offset, 0x10)))
        assert log.entries == whole.entries


def test_a_second_at_rest_proves_everything() -> None:
    rng = random.Random(1)
    drive = SimDisk(rng)
    env = SimEnv(drive, rng)
    storage = open_storage(env.port, "data", "fsync", segment_bytes=SEGMENT_BYTES)
    storage.journal.add(b"one", 1, 0)
    storage.journal.onOneSecondTimer()
    env.run()
    assert replay(segments_of(drive)).proven == 0
    storage.journal.onOneSecondTimer()
    env.run()
    (segment,) = segments_of(drive)
    start, end = records_of([segment])[0][1:]
    assert replay([segment]).proven == end - start
    with pytest.raises(StorageDamaged):
        replay([Segment(segment.name, flipped(segment.data, start + 20, 1))])
    size = len(records_of([segment]))
    for _ in range(3):
        storage.journal.onOneSecondTimer()
        env.run()
    assert len(records_of(segments_of(drive))) == size, "a node at rest must not write"


@pytest.mark.parametrize("ordinal", [0, -1])
def test_a_file_cut_short_anywhere_is_damage(ordinal: int) -> None:
    drive, _ = written(6)
    segments = segments_of(drive)
    data = segments[ordinal].data
    for size in range(len(data)):
        with pytest.raises(StorageDamaged) as caught:
            replay(with_data(segments, ordinal % len(segments), data[:size]))
        assert caught.value.file == segments[ordinal].name


@pytest.mark.parametrize("middle", [0, 1])
def test_a_missing_segment_is_damage(middle: int) -> None:
    drive, _ = written(14)
    segments = segments_of(drive)
    assert len(segments) >= 4
    del segments[1 + middle]
    with pytest.raises(StorageDamaged, match="missing"):
        replay(segments)


def test_a_tail_that_never_arrived_is_cut_at_any_byte() -> None:
    """As after a power cut: zeros from some byte on, in the last segment."""
    drive, held = written(6)
    segments = segments_of(drive)
    data, everything = segments[-1].data, held[-1]
    places = records_of(segments)
    for size in range(r.HEADER_BYTES, len(data)):
        log = replay(with_data(segments, len(segments) - 1, data[:size] + bytes(len(data) - size)))
        whole = sum(1 for place in places if place[0] < len(segments) - 1 or place[2] <= size)
        assert whole <= len(log.entries) <= whole + 1, "a record may end in zeros of its own"
        assert log.entries == everything[: len(log.entries)]


def test_a_hole_before_readable_records_of_one_group_is_torn_and_before_a_later_group_damage() -> None:
    drive, _ = written(2)
    (segment,) = segments_of(drive)
    (_, first, second), (_, _, third), *_ = records_of([segment])
    hole = segment.data[:first] + bytes(second - first) + segment.data[second:]
    with pytest.raises(StorageDamaged) as caught:
        replay([Segment(segment.name, hole)])
    assert caught.value.offset == first

    drive, _ = written(1)
    (segment,) = segments_of(drive)
    hole = segment.data[:first] + bytes(second - first) + segment.data[second:]
    log = replay([Segment(segment.name, hole)])
    assert log.cut is not None
    assert log.cut.offset == first
    assert not log.entries
    assert third > second


def test_records_behind_a_cut_are_never_met_again() -> None:
    """What is written after a cut may end exactly where an old record begins; the old one must be gone."""
    drive, held = written(1)
    name = segment_name(1)
    data = drive.files()[name]
    (_, first, second), *_ = records_of([Segment(name, data)])
    drive.set_file(name, flipped(data, first + r.RECORD_BYTES - 1, 0xFF))
    env = SimEnv(drive, random.Random(5))
    storage = open_storage(env.port, "data", "fsync", segment_bytes=SEGMENT_BYTES)
    assert not storage.journal[:]
    storage.journal.add(bytes(second - first - r.RECORD_BYTES), 1, 1)
    storage.journal.sync(lambda: None)
    env.run()
    drive.crash_power()
    again = open_storage(SimEnv(drive, random.Random(6)).port, "data", "fsync", segment_bytes=SEGMENT_BYTES)
    assert len(held[-1]) > 1
    assert again.journal[:] == [(bytes(second - first - r.RECORD_BYTES), 1, 1)]


def test_a_record_at_another_place_is_no_record() -> None:
    drive, _ = written(1)
    (segment,) = segments_of(drive)
    (_, first, second), *_ = records_of([segment])
    header = r.Header.decode(segment.data)
    assert r.decode_record(header, segment.data, first, len(segment.data))
    moved = bytes(8) + segment.data[:-8]
    assert r.decode_record(header, moved, first + 8, len(moved)) is None
    assert second > first


def test_a_record_inside_a_command_is_no_record() -> None:
    """A client that knew the format could not make a torn tail look like damage: it knows neither mark nor seed."""
    drive, _ = written(1)
    (segment,) = segments_of(drive)
    header = r.Header.decode(segment.data)
    places = records_of([segment])
    end = places[-1][2]
    other = r.Header(header.number, header.base, 0, 0, header.capacity, header.mark, header.seed ^ 1)
    position = r.position_of(header, end + r.RECORD_BYTES)
    forged = r.encode_record(other, position, r.ENTRY, 9, 9, position + 1000, b"forged")
    outer = r.encode_record(header, r.position_of(header, end), r.ENTRY, 4, 1, 0, forged)
    torn = segment.data[:end] + flipped(outer, 4, 1) + bytes(len(segment.data) - end - len(outer))
    log = replay([Segment(segment.name, torn)])
    assert log.cut is not None
    assert log.cut.offset == end


def test_a_cut_is_told_with_file_and_offset(caplog: pytest.LogCaptureFixture) -> None:
    drive, held = written(2)
    name = segment_name(1)
    data = drive.files()[name]
    _, start, end = records_of([Segment(name, data)])[-1]
    drive.set_file(name, flipped(data, end - 1, 1))
    with caplog.at_level(logging.WARNING):
        storage = open_storage(SimEnv(drive, random.Random(1)).port, "/srv/n1", "fsync", segment_bytes=SEGMENT_BYTES)
    assert storage.journal[:] == held[-1][:-1]
    (told,) = [record.getMessage() for record in caplog.records if "journal_tail_cut" in record.getMessage()]
    assert f"file=/srv/n1/{name}" in told
    assert f"offset={start}" in told


@pytest.mark.parametrize(
    ("kind", "index", "term", "data", "why"),
    [
        (r.ENTRY, 9, 1, b"", "where 3 belongs"),
        (r.CUT, 9, 0, b"", "a cut at 9"),
        (r.HEAD, 9, 0, b"", "a head at 9"),
        (r.RESET, 9, 2, r.encode_entries([(b"", 9, 1)]), "holds 1"),
        (r.RESET, 9, 2, r.encode_entries([(b"", 9, 1), (b"", 11, 1)]), "where 10 belongs"),
        (r.RESET, 9, 1, b"short", "cut short"),
        (r.RESET, 9, 1, r.encode_entries([(b"longer", 9, 1)])[:-1], "cut short"),
    ],
)
def test_sound_records_that_cannot_follow_each_other_are_damage(
    kind: int, index: int, term: int, data: bytes, why: str
) -> None:
    drive, held = written(1)
    assert len(held[-1]) == 2
    (segment,) = segments_of(drive)
    header = r.Header.decode(segment.data)
    end = records_of([segment])[-1][2]
    record = r.encode_record(header, r.position_of(header, end), kind, index, term, 0, data)
    changed = segment.data[:end] + record + segment.data[end + len(record) :]
    with pytest.raises(StorageDamaged, match=why) as caught:
        replay([Segment(segment.name, changed)])
    assert caught.value.offset == end


def test_another_format_is_refused_by_name() -> None:
    header = r.Header(1, 0, 0, 0, 512, b"mark", 5)
    assert r.Header.decode(header.encode()) == header
    newer = header.encode()[:8] + b"\x02" + header.encode()[9:60]
    with pytest.raises(ValueError, match="format 2, this release reads 1"):
        r.Header.decode(newer + zlib.crc32(newer).to_bytes(4, "little"))
    with pytest.raises(ValueError, match="not a journal segment"):
        r.Header.decode(b"#!/bin/sh" + bytes(100))
    with pytest.raises(ValueError, match="cut short"):
        r.Header.decode(header.encode()[:-1])
