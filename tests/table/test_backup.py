"""A state that comes back from a backup: what ends, what waits, what goes on upwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster import limits
from cluster._table import LeaseTable
from tests.table.packing import batch, pack
from tests.table.scripts import Machine
from tests.table.talk import (
    FREED,
    HELD,
    INVALID,
    NOT_HELD,
    NOT_YET,
    OK,
    SESSION_ENDED,
    VACATED,
    Talk,
    acquire,
    acquire_all,
    check,
    extend,
    release,
    session_open,
    session_renew,
)

pytestmark = pytest.mark.fast
RESTORE = 31
CLUSTER = b"c" * 16


def restored(talk: Talk, lease_ms: int = 0) -> list[int]:
    """Restore, and begin the group anew. Returns the answer to RESTORE."""
    answer = talk.one([RESTORE, lease_ms])
    assert talk.one([11, CLUSTER, 0])[0] == OK
    return answer


def test_nothing_is_granted_until_the_longest_lease_time_has_passed__E15(talk: Talk) -> None:
    token = talk.one(acquire(b"long", 1, lease_ms=9_000))[1]
    talk.one(release(b"long", 1, token))
    talk.one(acquire(b"job", 2, lease_ms=1_000))
    assert restored(talk) == [OK, 9_000]
    assert talk.one(acquire(b"job", 3)) == [NOT_YET, 9_000]
    talk.pass_time(8_999)
    assert talk.all(acquire(b"other", 3), acquire_all([b"a", b"b"], 3)) == [[NOT_YET, 1], [NOT_YET, 1]]
    talk.pass_time(1)
    granted = talk.one(acquire(b"job", 3))
    assert granted[0] == OK
    assert granted[1] > token


def test_a_holder_of_the_backup_can_do_nothing_with_its_lease__I8(talk: Talk) -> None:
    """It may have ended after the backup was made, and its name may have passed to another who still runs."""
    session = talk.one(session_open())[1]
    hung = talk.one(acquire(b"hung", 1, session=session))[1]
    free = talk.one(acquire(b"free", 2))[1]
    dead = talk.one(acquire(b"dead", 3, min_ms=500))[1]
    talk.one(release(b"dead", 3, dead))
    talk.one([RESTORE, 0])
    assert sorted((event[0], event[1]) for event in talk.events) == [(FREED, b"dead"), (FREED, b"free"), (FREED, b"hung")]
    assert talk.state()[8:10] == [[], []]
    asked = (extend(b"free", 2, free), check(b"hung", 1, hung), release(b"free", 2, free), session_renew(session))
    assert talk.all(*asked) == [[NOT_HELD], [NOT_HELD], [NOT_HELD], [SESSION_ENDED]]
    # Asked again with the id of a lease that lives in the backup: no grant either.
    assert talk.one(acquire(b"free", 2))[0] == NOT_YET


def test_what_was_over_and_unswept_is_told_as_what_it_was__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=1), sweep_max=1)
    for name in (b"a", b"b", b"c"):
        token = talk.one(acquire(name, 1, min_ms=500))[1]
        talk.one(release(name, 1, token))
    talk.pass_time(500)
    talk.one([RESTORE, 0])
    assert talk.kinds() == [VACATED] * 3


def test_the_wait_counts_from_the_beginning_of_the_group__I8(talk: Talk) -> None:
    """Nodes that were restored may stand idle for long before all of them are there; time passes, and so may holders of others."""
    talk.one([11, b"a" * 16, 0])
    talk.one(acquire(b"job", 1, lease_ms=2_000))
    talk.one([RESTORE, 0])
    talk.pass_time(60_000)
    assert talk.one([11, CLUSTER, 0])[1] == CLUSTER
    assert talk.one(acquire(b"job", 2)) == [NOT_YET, 2_000]
    talk.pass_time(2_000)
    assert talk.one(acquire(b"job", 2))[0] == OK


def test_a_new_group_does_not_wait(talk: Talk) -> None:
    assert talk.one([11, CLUSTER, 0])[0] == OK
    assert talk.one(acquire(b"job", 1))[0] == OK
    assert talk.one(acquire(b"job", 2))[0] == HELD


def test_a_state_without_leases_waits_for_nobody(talk: Talk) -> None:
    talk.one([11, b"a" * 16, 0])
    assert restored(talk) == [OK, 0]
    assert talk.one(acquire(b"job", 1))[0] == OK


@pytest.mark.parametrize(("lease_ms", "waits_ms"), [(0, 1_000), (999, 1_000), (1_001, 1_001), (limits.LEASE_MAX_MS, limits.LEASE_MAX_MS)])
def test_an_operator_can_name_a_longer_lease_time(talk: Talk, lease_ms: int, waits_ms: int) -> None:
    talk.one(acquire(b"job", 1, lease_ms=1_000))
    assert restored(talk, lease_ms) == [OK, waits_ms]
    assert talk.one(acquire(b"job", 1)) == [NOT_YET, waits_ms]


def test_a_lease_time_that_none_can_have_is_refused(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    assert talk.one([RESTORE, limits.LEASE_MAX_MS + 1]) == [INVALID, 1]
    assert talk.one(acquire(b"job", 2))[0] == HELD


def test_the_next_token_is_above_the_backups_and_the_wall_clocks__I2(talk: Talk) -> None:
    last = talk.one(acquire(b"job", 1))[1]
    talk.one([RESTORE, 0])
    assert talk.one([11, CLUSTER, 0]) == [OK, CLUSTER, last + 1]
    talk.one([RESTORE, 0])
    assert talk.one([11, CLUSTER, 1_700_000_000_999])[2] == 1_700_000_000 << 21


def test_restored_twice_in_a_row_it_still_waits(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, lease_ms=5_000))
    restored(talk)
    talk.pass_time(4_000)
    assert restored(talk) == [OK, 5_000]
    assert talk.one(acquire(b"job", 1)) == [NOT_YET, 5_000]


def test_the_longest_lease_time_outlives_snapshots__E15(make: Callable[..., Machine]) -> None:
    machine = make()
    Talk(machine).one(acquire(b"job", 1, lease_ms=7_000))
    other = make()
    other.restore(machine.snapshot())
    talk = Talk(other)
    assert restored(talk) == [OK, 7_000]


def test_the_table_tells_how_long_it_waits() -> None:
    table = LeaseTable()
    table.apply(batch([[8]], 0, 1))
    table.apply(batch([acquire(b"job", 1, lease_ms=3_000)], 50, 1))
    assert (table.longest_ms, table.grants_from) == (3_000, 0)
    table.apply(batch([pack([RESTORE, 0])], 60, 1))
    assert (table.grants_from, table.cluster_id, table.lease_count) == (3_060, b"", 0)
    assert table.next_free(b"job", 1, 100) == 3_060
