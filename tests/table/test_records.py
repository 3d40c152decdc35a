"""Records in the table and in the model: who may write, what a retry is, and every limit on both sides. I10."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster import limits
from cluster._table import LeaseTable
from tests.table.packing import batch, decode, pack
from tests.table.scripts import Machine
from tests.table.talk import INVALID, LIMIT, OK, REVOKED, Talk, acquire, check, ident, release, revoke

pytestmark = pytest.mark.fast

FENCED, VERSION_DIFFERS, FORGOTTEN = 9, 10, 11
RECORDS, WRITES = 11, 12  # where a snapshot has them


def put(
    key: bytes,
    value: bytes,
    write: int,
    *,
    by: tuple[bytes, int] = (b"", 0),
    expected: int | None = None,
    known: int | None = None,
) -> list[Any]:
    return [14, ident(write), key, value, *by, expected, known]


def delete(
    key: bytes, write: int, *, by: tuple[bytes, int] = (b"", 0), expected: int | None = None, known: int | None = None
) -> list[Any]:
    return [15, ident(write), key, *by, expected, known]


def test_a_record_is_written_read_and_deleted(talk: Talk) -> None:
    assert talk.one(put(b"key", b"one", 1)) == [OK, 1, 0]
    assert talk.one(put(b"key", b"two", 2)) == [OK, 2, 0]
    assert talk.state()[RECORDS] == [[b"key", b"", 2, 0, b"two"]]
    assert talk.one(delete(b"key", 3)) == [OK, 3, 0]
    assert talk.one(delete(b"key", 4)) == [OK, 0, 0]
    assert talk.state()[RECORDS] == []


def test_versions_and_tokens_are_one_row_of_numbers__I2(talk: Talk) -> None:
    first = talk.one(acquire(b"job", 1))[1]
    assert talk.one(put(b"key", b"", 1))[1] == first + 1
    assert talk.one(acquire(b"other", 1))[1] == first + 2


def test_a_bound_record_is_written_by_a_live_token_of_its_name_only__I10(talk: Talk) -> None:
    talk.one(put(b"key", b"anybody's", 1))
    token = talk.one(acquire(b"job", 1))[1]
    other = talk.one(acquire(b"other", 1))[1]
    assert talk.one(put(b"key", b"mine", 2, by=(b"job", token)))[0] == OK
    for by in ((b"", 0), (b"other", other), (b"other", token), (b"job", other), (b"job", token + 50)):
        for write in (put(b"key", b"not yours", 3, by=by), delete(b"key", 3, by=by)):
            assert talk.one(write) == [FENCED, b"job"]
    assert talk.one(put(b"fresh", b"", 4, by=(b"job", other))) == [FENCED, b""]
    talk.pass_time(1_000)
    # Over, and not swept yet: it is over.
    answers = talk.all(put(b"key", b"late", 5, by=(b"job", token)), acquire(b"job", 2))
    assert answers[0] == [FENCED, b"job"]
    assert talk.one(put(b"key", b"next", 6, by=(b"job", answers[1][1])))[0] == OK


def test_over_but_unswept_is_over__I7_I10(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=1), sweep_max=1)
    talk.all(acquire(b"a", 1), acquire(b"b", 1))
    token = talk.one(acquire(b"job", 1))[1]
    talk.pass_time(1_000)
    assert talk.one(put(b"key", b"", 1, by=(b"job", token))) == [FENCED, b""]


def test_a_token_that_only_occupies_is_dead__I10(talk: Talk) -> None:
    token = talk.one(acquire(b"job", 1, min_ms=500))[1]
    assert talk.one(put(b"key", b"", 1, by=(b"job", token)))[0] == OK
    talk.one(release(b"job", 1, token))
    assert talk.one(put(b"key", b"", 2, by=(b"job", token))) == [FENCED, b"job"]


def test_a_revoked_holder_writes_until_it_ends__I10(talk: Talk) -> None:
    token = talk.one(acquire(b"job", 1))[1]
    talk.one(revoke(b"job"))
    assert talk.one(check(b"job", 1, token))[0] == REVOKED
    assert talk.one(put(b"key", b"", 1, by=(b"job", token)))[0] == OK
    talk.one(revoke(b"job", force=True))
    assert talk.one(put(b"key", b"", 2, by=(b"job", token))) == [FENCED, b"job"]


def test_a_deleted_record_is_bound_to_nothing__I10(talk: Talk) -> None:
    token = talk.one(acquire(b"job", 1))[1]
    talk.one(put(b"key", b"", 1, by=(b"job", token)))
    assert talk.one(delete(b"key", 2, by=(b"job", token)))[0] == OK
    assert talk.one(put(b"key", b"anybody's", 3))[0] == OK


def test_an_expected_version_is_compared_in_the_same_step__C2(talk: Talk) -> None:
    assert talk.one(put(b"key", b"", 1, expected=7)) == [VERSION_DIFFERS, 0]
    version = talk.one(put(b"key", b"", 1, expected=0))[1]
    assert talk.one(put(b"key", b"", 2, expected=0)) == [VERSION_DIFFERS, version]
    assert talk.one(delete(b"key", 2, expected=version + 1)) == [VERSION_DIFFERS, version]
    assert talk.one(delete(b"absent", 2, expected=version)) == [VERSION_DIFFERS, 0]
    assert talk.one(put(b"key", b"", 2, expected=version)) == [OK, version + 1, 0]


def test_a_retried_write_is_applied_once_whatever_came_between__C6_I10(talk: Talk) -> None:
    token = talk.one(acquire(b"job", 1))[1]
    first = talk.one(put(b"key", b"one", 1, by=(b"job", token), expected=0))
    talk.one(put(b"key", b"two", 2, by=(b"job", token)))
    removed = talk.one(delete(b"key", 3, by=(b"job", token)))
    again = talk.one(put(b"key", b"three", 4))
    talk.one(release(b"job", 1, token))
    assert talk.one(put(b"key", b"one", 1, by=(b"job", token), expected=0, known=0)) == first
    assert talk.one(delete(b"key", 3, by=(b"job", token), known=0)) == removed
    assert talk.state()[RECORDS] == [[b"key", b"", again[1], 0, b"three"]]


def test_a_retry_of_what_may_be_forgotten_is_refused__I10(make: Callable[..., Machine]) -> None:
    talk = Talk(make(writes_max=2))
    first = talk.one(put(b"key", b"one", 1))[1]
    talk.all(put(b"key", b"two", 2), put(b"key", b"three", 3))
    assert [write[0] for write in talk.state()[WRITES]] == [ident(2), ident(3)]
    assert talk.one(put(b"key", b"one", 1, known=first - 1)) == [FORGOTTEN]
    assert talk.one(delete(b"key", 9, known=0)) == [FORGOTTEN]
    # One that was first sent after what is forgotten would be remembered: it was not applied.
    assert talk.one(put(b"key", b"four", 4, known=first))[0] == OK


def test_refusals_are_not_remembered__I10(talk: Talk) -> None:
    assert talk.one(put(b"key", b"", 1, expected=5)) == [VERSION_DIFFERS, 0]
    assert talk.one(put(b"key", b"", 1, known=0))[0] == OK


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        ([14, b"x" * 15, b"key", b"", b"", 0, None, None], 1),
        ([14, b"x" * 16, b"-key", b"", b"", 0, None, None], 2),
        ([14, b"x" * 16, b"k" * 256, b"", b"", 0, None, None], 2),
        ([14, b"x" * 16, b"key", b"v" * (limits.RECORD_VALUE_MAX_BYTES + 1), b"", 0, None, None], 3),
        ([14, b"x" * 16, b"key", b"", b"a b", 1, None, None], 4),
        ([14, b"x" * 16, b"key", b"", b"job", 0, None, None], 5),
        ([14, b"x" * 16, b"key", b"", b"", 1, None, None], 5),
        ([15, b"x" * 17, b"key", b"", 0, None, None], 1),
        ([15, b"x" * 16, b"", b"", 0, None, None], 2),
        ([15, b"x" * 16, b"key", b"a b", 1, None, None], 3),
        ([15, b"x" * 16, b"key", b"", 1, None, None], 4),
        ([14, b"x" * 16, b"key", b"", b"", 0, None], 0),
        ([15, b"x" * 16, b"key", b"", 0, True, None], 0),
        ([15, b"x" * 16, b"key", b"", 0, None, b""], 0),
    ],
)
def test_a_bad_argument_is_named__I7(talk: Talk, operation: list[Any], place: int) -> None:
    assert talk.one(operation) == [INVALID, place]


def test_the_longest_key_name_and_value(talk: Talk) -> None:
    key, name, value = b"k" * 255, b"n" * 255, b"v" * limits.RECORD_VALUE_MAX_BYTES
    token = talk.one(acquire(name, 1))[1]
    version = talk.one(put(key, value, 1, by=(name, token)))[1]
    before = talk.machine.snapshot()
    assert decode(before)[0][RECORDS] == [[key, name, version, token, value]]
    talk.machine.restore(before)
    assert talk.machine.snapshot() == before


def test_as_many_records_as_there_may_be_and_no_more(make: Callable[..., Machine]) -> None:
    talk = Talk(make(records_max=2))
    assert [answer[0] for answer in talk.all(put(b"a", b"", 1), put(b"b", b"", 2))] == [OK, OK]
    assert talk.one(put(b"c", b"", 3)) == [LIMIT, 5]
    assert talk.one(put(b"a", b"anew", 4))[0] == OK
    talk.one(delete(b"b", 5))
    assert talk.one(put(b"c", b"", 6))[0] == OK


def test_as_many_bytes_as_there_may_be_and_no_more(make: Callable[..., Machine]) -> None:
    talk = Talk(make(records_bytes_max=10))
    token = talk.one(acquire(b"job", 1))[1]
    assert talk.one(put(b"key", b"12345678", 1)) == [LIMIT, 6]
    assert talk.one(put(b"key", b"1234567", 1))[0] == OK
    assert talk.one(put(b"key", b"12345", 2, by=(b"job", token))) == [LIMIT, 6]
    assert talk.one(put(b"key", b"1234", 2, by=(b"job", token)))[0] == OK
    assert talk.one(put(b"x", b"", 3)) == [LIMIT, 6]
    talk.one(delete(b"key", 4, by=(b"job", token)))
    assert talk.one(put(b"x", b"123456789", 5))[0] == OK


def test_without_a_number_left_nothing_is_written(talk: Talk) -> None:
    talk.one(put(b"key", b"", 1))
    state = talk.state()
    state[4] = limits.TOKEN_MAX
    talk.machine.restore(pack(state))
    talk = Talk(talk.machine)
    assert talk.one(put(b"key", b"last", 2)) == [OK, limits.TOKEN_MAX, 0]
    assert talk.one(put(b"key", b"", 3)) == [LIMIT, 3]
    assert talk.one(delete(b"key", 4)) == [LIMIT, 3]
    assert talk.one(delete(b"absent", 5)) == [OK, 0, 0]


def test_the_real_number_of_writes_is_remembered() -> None:
    talk = Talk(LeaseTable())
    kept = limits.RECORD_WRITES_KEPT
    table = LeaseTable()
    state = talk.state()
    state[4] = kept + 10
    state[WRITES] = [[ident(number), number, 0] for number in range(1, kept + 1)]
    table.restore(pack(state))
    assert table.snapshot() == pack(state)
    state[WRITES].append([ident(kept + 1), kept + 1, 0])
    with pytest.raises(ValueError, match="not a snapshot"):
        table.restore(pack(state))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (10, 9),
        (10, 1),
        (RECORDS, [[b"key", b"", 9, 0, b""]]),
        (RECORDS, [[b"key", b"", 0, 0, b""]]),
        (RECORDS, [[b"-", b"", 3, 0, b""]]),
        (RECORDS, [[b"key", b"job", 3, 0, b""]]),
        (RECORDS, [[b"key", b"", 3, 1, b""]]),
        (RECORDS, [[b"key", b"a b", 3, 1, b""]]),
        (RECORDS, [[b"key", b"job", 3, 3, b""]]),
        (RECORDS, [[b"key", b"", 3, 0, b"v" * (limits.RECORD_VALUE_MAX_BYTES + 1)]]),
        (RECORDS, [[b"key", b"", 3, 0, b""], [b"key", b"", 4, 0, b""]]),
        (RECORDS, [[b"key", b"", 4, 0, b""], [b"other", b"", 3, 0, b""]]),
        (RECORDS, [[b"key", b"", 3, 0]]),
        (WRITES, [[b"x" * 15, 3, 0]]),
        (WRITES, [[b"x" * 16, 9, 0]]),
        (WRITES, [[b"x" * 16, 3, 3]]),
        (WRITES, [[b"x" * 16, 3, 0], [b"x" * 16, 4, 0]]),
        (WRITES, [[b"x" * 16, 4, 0], [b"y" * 16, 3, 0]]),
    ],
)
def test_records_that_cannot_be_are_refused__I6(place: int, value: Any) -> None:
    state: list[Any] = [
        b"tenure table",
        1,
        1,
        5_000,
        9,
        b"",
        0,
        1_000,
        [],
        [],
        0,
        [[b"key", b"job", 3, 2, b"v"]],
        [[b"w" * 16, 3, 2]], [],
        1,
    ]
    table = LeaseTable()
    table.restore(pack(state))
    assert table.snapshot() == pack(state)
    state[place] = value
    with pytest.raises(ValueError, match="not a snapshot"):
        table.restore(pack(state))
    assert table.record(b"key") == (b"job", 3, 2, b"v")


def test_a_snapshot_beyond_the_limits_of_records_is_refused() -> None:
    talk = Talk(LeaseTable())
    talk.all(put(b"a", b"12345", 1), put(b"b", b"", 2))
    for small in (LeaseTable(records_max=1), LeaseTable(records_bytes_max=6), LeaseTable(writes_max=1)):
        with pytest.raises(ValueError, match="not a snapshot"):
            small.restore(talk.machine.snapshot())


def test_what_it_shows_of_records() -> None:
    table = LeaseTable()
    talk = Talk(table)
    token = talk.one(acquire(b"job", 1))[1]
    talk.all(put(b"a", b"12345", 1, by=(b"job", token)), put(b"b", b"", 2))
    assert table.record(b"a") == (b"job", token + 1, token, b"12345")
    assert table.record(b"b") == (b"", token + 2, 0, b"")
    assert table.record(b"c") is None
    assert (table.record_count, table.record_bytes) == (2, 1 + 3 + 5 + 1)


def test_a_frozen_copy_keeps_what_is_overwritten_and_deleted__I6() -> None:
    talk = Talk(LeaseTable())
    talk.all(*(put(b"k%d" % number, b"x" * number * 100, number + 1) for number in range(200)))
    table = talk.machine
    assert isinstance(table, LeaseTable)
    before, frozen, more = table.snapshot(), table.freeze(), table.freeze()
    del more
    talk.all(*(put(b"k%d" % number, b"y" * 100, number + 1_000) for number in range(100)))
    talk.all(*(delete(b"k%d" % number, number + 2_000) for number in range(50, 200)))
    assert frozen() == before
    del table
    talk.machine = LeaseTable()
    assert frozen() == before


def test_records_of_a_backup_stay_with_their_fences__I10(talk: Talk) -> None:
    token = talk.one(acquire(b"job", 1))[1]
    talk.all(put(b"bound", b"mine", 1, by=(b"job", token)), put(b"free", b"", 2))
    before = talk.state()
    talk.one([31, 0])
    assert talk.state()[10:13] == before[10:13]
    assert talk.one(put(b"bound", b"late", 3, by=(b"job", token))) == [FENCED, b"job"]
    assert talk.one(put(b"bound", b"mine", 1, by=(b"job", token), known=0))[0] == OK
    talk.pass_time(1_000)
    again = talk.one(acquire(b"job", 2))[1]
    assert talk.one(put(b"bound", b"next", 4, by=(b"job", again)))[0] == OK


def test_memory_is_given_back_whatever_the_sizes() -> None:
    """Values of every size, one after the other, need no more room than the largest of them."""
    talk = Talk(LeaseTable())
    table = talk.machine
    assert isinstance(table, LeaseTable)
    for number in range(300):
        table.apply(batch([put(b"key", b"v" * (number * 218), number + 1)], 0, 1))
    assert table.memory_bytes < 4 << 20
