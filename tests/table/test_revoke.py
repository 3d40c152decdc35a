"""An operator ends a lease: by a mark, or by force."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.table.scripts import Machine
from tests.table.talk import (
    ABANDONED,
    EXPIRED,
    FREED,
    HELD,
    MARKED,
    NOT_HELD,
    OK,
    RELEASED,
    REVOKED,
    Talk,
    abandon,
    acquire,
    acquire_all,
    check,
    extend,
    release,
    revoke,
    session_open,
    session_renew,
)

pytestmark = pytest.mark.fast


def test_a_marked_lease_lives_to_its_deadline_and_is_not_extended__I4(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    assert talk.one(revoke(b"job")) == [OK, 1]
    assert talk.events == [[MARKED, b"job", 0, 1, b"node1", 0]]
    talk.pass_time(400)
    assert talk.one(extend(b"job", 1, 1, lease_ms=9_000)) == [REVOKED, 600]
    assert talk.one(check(b"job", 1, 1)) == [REVOKED, 600]
    assert talk.one(acquire(b"job", 2)) == [HELD, b"node1", 600, 1, 0]
    assert talk.wait(600) == [[EXPIRED, b"job", 0, 1, b"node1", 0]]


def test_the_holder_who_asks_again_is_told(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.one(revoke(b"job"))
    assert talk.one(acquire(b"job", 1)) == [OK, 1, 0, 1_000, True]
    assert talk.one(acquire_all([b"job"], 1)) == [OK, [[1, 0, 1_000, True]]]


def test_a_marked_lease_is_not_counted_again(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.one(revoke(b"job"))
    assert talk.one(revoke(b"job")) == [OK, 0]
    assert talk.events == []


def test_its_release_frees_at_once_whatever_min_says(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=1_000))
    talk.one(revoke(b"job"))
    assert talk.one(release(b"job", 1, 1, outcome=3)) == [OK]
    assert talk.events == [[RELEASED, b"job", 0, 1, b"node1", 3]]
    assert talk.one(acquire(b"job", 2))[0] == OK


def test_it_can_be_abandoned(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.one(revoke(b"job"))
    talk.one(abandon(b"job", 1))
    assert talk.kinds() == [ABANDONED]


def test_a_marked_lease_leaves_its_session_with_the_end_that_it_had(talk: Talk) -> None:
    _, session, _ = talk.one(session_open(1_000))
    talk.all(acquire(b"a", 1, lease_ms=100, session=session), acquire(b"b", 1, lease_ms=100, session=session))
    talk.pass_time(400)
    assert talk.one(revoke(b"a")) == [OK, 1]
    assert talk.one(session_renew(session)) == [OK, 1_000, 1]
    assert talk.one(check(b"a", 1, 2)) == [REVOKED, 600]
    assert talk.one(check(b"b", 1, 3)) == [OK, 1_000]
    assert [event[1] for event in talk.wait(600)] == [b"a"]
    talk.one(revoke(b"b"))
    assert talk.one(session_renew(session)) == [OK, 1_000, 2]


def test_one_slot_or_every_slot(talk: Talk) -> None:
    talk.all(*[acquire(b"job", by, max_leaders=3) for by in range(3)])
    assert talk.one(revoke(b"job", 1)) == [OK, 1]
    assert [event[2] for event in talk.events] == [1]
    assert talk.one(revoke(b"job", 7)) == [OK, 0]
    assert talk.one(revoke(b"job")) == [OK, 2]
    assert [event[2] for event in talk.events] == [0, 2]


def test_force_frees_at_once(talk: Talk) -> None:
    talk.all(*[acquire(b"job", by, max_leaders=3, min_ms=1_000) for by in range(3)])
    talk.one(revoke(b"job", 0))
    talk.one(release(b"job", 1, 2))
    assert talk.one(revoke(b"job", force=True)) == [OK, 3]
    assert [(event[0], event[2]) for event in talk.events] == [(FREED, 0), (FREED, 1), (FREED, 2)]
    assert talk.one(check(b"job", 2, 3)) == [NOT_HELD]
    assert talk.one(acquire(b"job", 9))[0] == OK


def test_what_force_frees_counts_for_its_session_so_that_its_holder_learns_of_it__I8(talk: Talk) -> None:
    _, session, _ = talk.one(session_open(1_000))
    talk.all(acquire(b"a", 1, session=session), acquire(b"b", 1, session=session), acquire(b"c", 1))
    talk.one(revoke(b"a", force=True))
    talk.one(revoke(b"c", force=True))
    assert talk.one(session_renew(session)) == [OK, 1_000, 1]
    talk.one(revoke(b"b"))
    talk.one(revoke(b"b", force=True))
    assert talk.one(session_renew(session)) == [OK, 1_000, 2]


def test_a_mark_passes_over_dead_occupants(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=1_000))
    talk.one(release(b"job", 1, 1))
    assert talk.one(revoke(b"job")) == [OK, 0]
    assert talk.events == []


@pytest.mark.parametrize("force", [False, True])
def test_what_is_over_is_not_revoked_swept_or_not__I7(make: Callable[..., Machine], force: bool) -> None:
    talk = Talk(make(sweep_max=0), sweep_max=0)
    talk.one(acquire(b"job", 1))
    talk.pass_time(1_000)
    assert talk.one(revoke(b"job", force=force)) == [OK, 0]
    assert talk.one(revoke(b"unknown", force=force)) == [OK, 0]
    assert talk.events == []
