"""Batches: headers, epochs, time, bytes that are no operations, and the operations that keep the raft group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster import limits
from tests.table.packing import HEADER, batch, decode_all, pack
from tests.table.scripts import Machine
from tests.table.talk import (
    EPOCH,
    GRANTED,
    INVALID,
    LIMIT,
    NOT_YET,
    OK,
    TICK,
    WRONG_EPOCH,
    Talk,
    acquire,
    acquire_all,
    extend,
    ident,
    release,
    revoke,
    session_open,
)

pytestmark = pytest.mark.fast


# Headers


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x01" * 23,
        batch([TICK], 0, 1, level=0),
        batch([TICK], 0, 1, level=2),
        b"\x01\x01" + batch([TICK], 0, 1)[2:],
        b"\x01\x00\x01\x00" + batch([TICK], 0, 1)[4:],
        b"\x01\x00\x00\x01" + batch([TICK], 0, 1)[4:],
        batch([TICK], 0, 1, count=3),
        batch([TICK], 0, 1, count=2**32 - 1),
        batch([], 9_000, 1, count=1),
    ],
)
def test_a_header_that_cannot_be_read_counts_no_operations_and_changes_nothing__I7(talk: Talk, data: bytes) -> None:
    talk.one(acquire(b"job", 1))
    before = talk.state()
    assert talk.send(data) == []
    assert talk.events == []
    assert talk.state() == before


def test_a_batch_without_operations_moves_time_and_sweeps(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    assert talk.send(batch([], 1_000, 1)) == []
    assert talk.kinds() == [3]


def test_bytes_after_the_last_operation_are_ignored(talk: Talk) -> None:
    assert talk.send(batch([TICK], 0, 1) + b"\xc1\xff") == [[OK]]
    assert talk.send(batch([TICK, TICK], 0, 1, count=1)) == [[OK]]


@pytest.mark.parametrize(
    "odd",
    [
        b"\xc1",
        b"\x0a",
        b"\x90",
        b"\x92\x0a\x00",
        b"\x91\x0e",
        b"\x91\xff",
        b"\x91\xd0\x0a",
        b"\x91\xcb\0\0\0\0\0\0\0\0",
        b"\x81\x0a\x00",
        pack([4, b"7"]),
        pack([6, "x" * 16, b"job"]),
        pack([7, b"job", 0, 1]),
        pack([7, b"job", False, True]),
        pack([3, ident(1), b"job", -1, 1_000]),
        pack([13, ident(1), b"job"]),
        pack([2, ident(1), [b"a", 1], 1_000, 1, 0, 0, b"", b""]),
        pack(acquire(b"x" * 200, 1))[:-150],
    ],
)
def test_from_an_unreadable_operation_on_all_are_invalid__I7(talk: Talk, odd: bytes) -> None:
    assert talk.all(TICK, odd, TICK, TICK) == [[OK], [INVALID, 0], [INVALID, 0], [INVALID, 0]]


def test_integers_bytes_and_arrays_are_read_in_any_width(talk: Talk) -> None:
    wide = (
        b"\xdd\x00\x00\x00\x09" + b"\xcf" + bytes(7) + b"\x01" + b"\xc6\x00\x00\x00\x10" + ident(1) + b"\xc5\x00\x03job"
        + b"\xcf" + (1_000).to_bytes(8, "big") + b"\xcd\x00\x01" + b"\xcc\x00" + b"\xce\x00\x00\x00\x00" + b"\xc6\x00\x00\x00\x00" * 2
    )  # fmt: skip
    assert talk.all(wide, acquire(b"job", 1)) == [[OK, 1, 0, 1_000, False]] * 2


# Arguments


NAME = b"a" * limits.NAME_MAX_BYTES


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        ([1, b"x" * 15, b"", 1, 0, 2, 0, b"x" * 256, b""], 1),
        ([1, ident(1), b"", 1, 0, 2, 0, b"x" * 256, b""], 2),
        (acquire(b"-job", 1), 2),
        (acquire(b".job", 1), 2),
        (acquire(b"j ob", 1), 2),
        (acquire(b"job\n", 1), 2),
        (acquire("jöb".encode(), 1), 2),
        (acquire(b"job\0", 1), 2),
        (acquire(NAME + b"a", 1), 2),
        (acquire(b"job", 1, lease_ms=99), 3),
        (acquire(b"job", 1, lease_ms=limits.LEASE_MAX_MS + 1), 3),
        (acquire(b"job", 1, lease_ms=2**64 - 1), 3),
        (acquire(b"job", 1, max_leaders=0), 4),
        (acquire(b"job", 1, max_leaders=limits.MAX_LEADERS_MAX + 1), 4),
        (acquire(b"job", 1, max_leaders=2**32 + 1), 4),
        (acquire(b"job", 1, min_ms=1_001), 5),
        (acquire(b"job", 1, min_ms=2**32), 5),
        (acquire(b"job", 1, node=b"x" * 256), 7),
        (acquire(b"job", 1, meta=b"x" * 4_097), 8),
        (acquire_all([], 1), 2),
        (acquire_all([b"a", b"b", b"a"], 1), 2),
        (acquire_all([b"a", b""], 1), 2),
        (acquire_all([b"n%d" % i for i in range(65)], 1), 2),
        (acquire_all([b"a"], 1, max_leaders=0), 4),
        (extend(b"job", 1, 1, lease_ms=99), 4),
        ([3, b"", b"job", 1, 1_000], 1),
        (extend(b"", 1, 1), 2),
        (release(b"job", 1, 1, outcome=5), 4),
        (release(b"", 1, 1), 2),
        ([6, b"x" * 17, b"job"], 1),
        ([6, ident(1), b"/job"], 2),
        (revoke(b""), 1),
        (revoke(b"job", limits.MAX_LEADERS_MAX), 2),
        ([9, 0], 1),
        ([9, 256], 1),
        ([11, b"", 0], 1),
        ([11, b"c" * 16, limits.WALL_MAX_MS + 1], 2),
        (session_open(99), 1),
        (session_open(1_000, b"x" * 256), 2),
        ([13, ident(1), b"", 1], 2),
    ],
)
def test_the_first_argument_out_of_range_is_named_and_the_rest_goes_on__I7(
    talk: Talk, operation: list[Any], place: int
) -> None:
    before = talk.state()
    assert talk.all(operation, TICK) == [[INVALID, place], [OK]]
    assert talk.state() == before


@pytest.mark.parametrize(
    "operation",
    [
        acquire(b"a", 1),
        acquire(b"0_-:./Z", 1),
        acquire(NAME, 1, lease_ms=limits.LEASE_MIN_MS, min_ms=100),
        acquire(b"job", 1, lease_ms=limits.LEASE_MAX_MS, min_ms=limits.LEASE_MAX_MS, max_leaders=1_024),
        acquire(b"job", 1, node=b"\xff" * 255, meta=b"\0" * 4_096),
        acquire_all([b"n%d" % i for i in range(64)], 1),
    ],
)
def test_ranges_hold_their_ends(talk: Talk, operation: list[Any]) -> None:
    assert talk.one(operation)[0] == OK
    assert talk.state()[9][0][11:] == [operation[7], operation[8]]


# Epochs and time


def test_a_new_epoch_is_entered_by_an_entry_of_its_own__I3(talk: Talk) -> None:
    talk.now = 500
    talk.one(acquire(b"job", 1))
    assert talk.send(batch([EPOCH], 9_000, 2)) == [[OK, 500]]
    assert talk.events == []
    assert talk.state()[2:4] == [2, 500]


def test_an_epoch_entry_of_the_same_epoch_changes_nothing__I3(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    before = talk.state()
    assert talk.send(batch([EPOCH], 9_000, 1)) == [[OK, 0]]
    assert talk.state() == before


def test_batches_of_other_epochs_are_refused_whole__I3(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.send(batch([EPOCH], 0, 5))
    before = talk.state()
    for epoch in (0, 1, 4, 6, 2**64 - 1):
        assert talk.send(batch([TICK, acquire(b"other", 1), b"\xc1"], 9_000, epoch)) == [[WRONG_EPOCH]] * 3
    assert talk.send(batch([EPOCH], 9_000, 4)) == [[WRONG_EPOCH]]
    assert talk.send(batch([EPOCH, TICK], 9_000, 6)) == [[WRONG_EPOCH]] * 2
    assert talk.events == []
    assert talk.state() == before


def test_an_epoch_operation_among_others_is_invalid(talk: Talk) -> None:
    assert talk.all(TICK, EPOCH, TICK) == [[OK], [INVALID, 0], [OK]]


def test_time_never_goes_back__I3(talk: Talk) -> None:
    for stamp, expected in ((500, 500), (499, 500), (0, 500), (-1, 500), (-(2**63), 500), (501, 501)):
        talk.send(batch([TICK], stamp, 1))
        assert talk.state()[3] == expected


def test_a_stamp_above_the_limit_is_ignored_and_its_batch_is_not__I3(talk: Talk) -> None:
    for stamp in (limits.STAMP_MAX_MS + 1, 2**62, 2**63 - 1):
        assert talk.send(batch([TICK], stamp, 1)) == [[OK]]
        assert talk.state()[3] == 0


def test_at_the_end_of_time_sums_do_not_overflow__I7(talk: Talk) -> None:
    talk.now = limits.STAMP_MAX_MS
    longest = limits.LEASE_MAX_MS
    _, session, remaining = talk.one(session_open(longest))
    assert remaining == longest
    assert talk.one(acquire(b"job", 1, lease_ms=longest, min_ms=longest, session=session)) == [OK, 2, 0, longest, False]
    assert talk.one(extend(b"job", 1, 2, lease_ms=longest)) == [OK, longest]
    assert talk.one(release(b"job", 1, 2)) == [OK]
    assert talk.one(acquire(b"job", 2))[2] == longest


# The raft group


def test_the_first_init_counts__I2(talk: Talk) -> None:
    floor = 1_700_000_000 << 21
    assert talk.one([11, b"c" * 16, 1_700_000_000_999]) == [OK, b"c" * 16, floor]
    assert talk.one(acquire(b"job", 1))[1] == floor
    assert talk.one([11, b"d" * 16, 1_800_000_000_000]) == [OK, b"c" * 16, floor + 1]


def test_an_init_never_takes_tokens_back__I2(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    assert talk.one([11, bytes(16), 999]) == [OK, bytes(16), 2]
    assert talk.state()[5] == bytes(16)


def test_the_level_only_rises(talk: Talk) -> None:
    assert talk.all([9, 1], [9, 255], [9, 7]) == [[OK, 1], [OK, 255], [OK, 255]]


def state_with(make: Callable[..., Machine], **changes: int) -> Talk:
    """A talk with a machine in epoch 1 whose state was changed from outside, as a restore from a backup does."""
    machine = make()
    machine.apply(batch([EPOCH], 0, 1))
    state = Talk(machine).state()
    for place, value in changes.items():
        state[{"next_token": 4, "grants_from": 6}[place]] = value
    machine.restore(pack(state))
    return Talk(machine)


def test_nothing_is_granted_before_its_time(make: Callable[..., Machine]) -> None:
    talk = state_with(make, grants_from=500)
    talk.now = 100
    assert talk.all(acquire(b"job", 1), acquire_all([b"a", b"b"], 1), session_open()) == [
        [NOT_YET, 400],
        [NOT_YET, 400],
        [OK, 1, 1_000],
    ]
    talk.now = 500
    assert talk.one(acquire(b"job", 1))[0] == OK


def test_without_tokens_nothing_is_granted__I2(make: Callable[..., Machine]) -> None:
    talk = state_with(make, next_token=limits.TOKEN_MAX - 1)
    assert talk.one(acquire_all([b"a", b"b", b"c"], 1)) == [LIMIT, 3]
    assert talk.one(acquire(b"a", 1))[1] == limits.TOKEN_MAX - 1
    assert talk.one(session_open())[1] == limits.TOKEN_MAX
    assert talk.all(acquire(b"b", 1), session_open()) == [[LIMIT, 3]] * 2
    assert talk.state()[4] == limits.TOKEN_MAX + 1


def test_events_are_numbered_one_after_the_other_and_the_numbers_only_rise(make: Callable[..., Machine]) -> None:
    talk = Talk(make())
    assert talk.state()[14] == 1
    talk.all(acquire(b"a", 1), acquire(b"b", 1), acquire(b"a", 2), release(b"a", 1, 1))
    assert talk.state()[14] == 4
    # A group that begins anew, from a backup or from nothing, numbers above every earlier one's, as it does with tokens.
    talk.all([11, ident(9), 1_000_000], acquire(b"c", 1))
    assert talk.state()[14] == (1_000 << 21) + 1


def test_events_and_answers_are_arrays_one_after_the_other(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.apply(batch([EPOCH], 0, 1))
    replies, events = machine.apply(batch([acquire(b"a", 1), TICK, acquire(b"b", 1)], 0, 1))
    assert decode_all(replies) == [[OK, 1, 0, 1_000, False], [OK], [OK, 2, 0, 1_000, False]]
    assert decode_all(events) == [[GRANTED, b"a", 0, 1, b"node1", 0], [GRANTED, b"b", 0, 2, b"node1", 0]]
    assert HEADER.size == 24
