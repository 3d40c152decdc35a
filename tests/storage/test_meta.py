"""The file that must never be read as "term 0, no vote" when it is not."""

from __future__ import annotations

import errno
import random
import struct
import zlib

import pytest

from cluster.storage import Meta, StorageDamaged
from cluster.storage.meta import MAGIC, NAME, NEW, VERSION, State, decode, encode

from .simdisk import SimDisk

pytestmark = pytest.mark.fast

STATE = State(7, "10.0.0.1:9000", b"i" * 16, b"c" * 16, {"b:2": b"B" * 16, "a:1": b"A" * 16}, True, 5)


def test_what_is_written_is_read() -> None:
    for state in (STATE, State(), State(voted_for=""), State(term=2**64 - 1, voted_for="ü", formed={"": b""})):
        assert decode(encode(state)) == state


def test_every_flip_and_every_truncation_is_damage__s14() -> None:
    data = encode(STATE)
    for offset in range(len(data)):
        for bit in range(8):
            with pytest.raises(StorageDamaged) as caught:
                decode(data[:offset] + bytes([data[offset] ^ 1 << bit]) + data[offset + 1 :])
            assert caught.value.file == NAME
        with pytest.raises(StorageDamaged):
            decode(data[:offset])
    with pytest.raises(StorageDamaged, match="empty"):
        decode(b"")
    with pytest.raises(StorageDamaged):
        decode(data + b"\0")


def sealed(body: bytes) -> bytes:
    """A file whose checksums are good, whatever it says."""
    front = struct.pack("<8sHHII", MAGIC, VERSION, 0, len(body), zlib.crc32(body))
    return front + struct.pack("<I", zlib.crc32(front)) + body


def test_impossible_contents_under_a_good_checksum_are_damage() -> None:
    whole = encode(STATE)
    numbers, texts = whole[24:50], whole[50:]
    assert decode(sealed(numbers + texts)) == STATE
    two = struct.pack("<I", 0) * 2
    not_text = struct.pack("<I", 1) + b"\xff" + two
    for body in (b"", numbers[:-1], numbers, numbers + two, numbers + texts + two[:4], numbers + not_text, whole):
        with pytest.raises(StorageDamaged, match="not what any release wrote") as caught:
            decode(sealed(body))
        assert caught.value.file == NAME


def test_a_save_is_whole_and_durable_when_it_returns() -> None:
    for seed in range(50):
        drive = SimDisk(random.Random(seed))
        meta = Meta(drive.mount(), State(incarnation=b"i" * 16))
        meta.save(term=3, voted_for="a")
        meta.save(cluster_id=b"c", formed={"a": b"1"}, joined=True, no_vote_through=2)
        drive.crash_power()
        assert decode(drive.files()[NAME]) == State(3, "a", b"i" * 16, b"c", {"a": b"1"}, True, 2)


def test_nothing_is_written_when_nothing_changes() -> None:
    drive = SimDisk()
    meta = Meta(drive.mount(), State())
    meta.save(term=3, voted_for="a")
    calls = drive.calls
    meta.save(term=3)
    meta.save(voted_for="a", formed={})
    assert drive.calls == calls


def test_what_it_gave_and_took_is_not_shared() -> None:
    meta = Meta(None, State())
    formed = {"a": b"1"}
    meta.save(formed=formed)
    formed["b"] = b"2"
    meta.formed["c"] = b"3"
    assert meta.formed == {"a": b"1"}


def test_a_term_cannot_go_back() -> None:
    meta = Meta(None, State())
    meta.save(term=3)
    with pytest.raises(ValueError, match="cannot go back"):
        meta.save(term=2)
    assert meta.term == 3


def test_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(TypeError, match="votes"):
        Meta(None, State()).save(votes=1)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_save_nothing_changed_and_nothing_can_be_saved(number: int) -> None:
    whole = SimDisk()
    Meta(whole.mount(), State()).save(term=1)
    for call in range(1, whole.calls + 1):
        error = OSError(number, "planned")
        drive = SimDisk(faults={call: error})
        meta = Meta(drive.mount(), State())
        told: list[BaseException] = []
        meta.on_error = told.append
        with pytest.raises(OSError, match="planned"):
            meta.save(term=1, voted_for="a")
        assert (meta.term, meta.voted_for) == (0, None)
        assert told == [error]
        with pytest.raises(OSError, match="planned"):
            meta.save(term=2)
        assert told == [error]
        assert NEW in drive.files() or NAME in drive.files() or call == 1
