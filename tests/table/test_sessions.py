"""Sessions: one liveness for many leases."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.table.scripts import Machine
from tests.table.talk import (
    EXPIRED,
    HELD,
    LIMIT,
    NOT_HELD,
    OK,
    RELEASED,
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


def open_session(talk: Talk, lease_ms: int = 1_000) -> int:
    answer = talk.one(session_open(lease_ms))
    assert answer[0] == OK
    assert answer[2] == lease_ms
    session: int = answer[1]
    return session


def test_a_session_takes_its_id_from_the_token_counter__I2(talk: Talk) -> None:
    answers = talk.all(acquire(b"a", 1), session_open(), acquire(b"b", 1), session_open())
    assert [answer[1] for answer in answers] == [1, 2, 3, 4]


def test_a_lease_on_a_session_lives_as_long_as_it(talk: Talk) -> None:
    session = open_session(talk)
    assert talk.one(acquire(b"job", 1, lease_ms=100, session=session)) == [OK, 2, 0, 1_000, False]
    for _ in range(5):
        talk.pass_time(900)
        assert talk.one(session_renew(session)) == [OK, 1_000, 0]
    assert talk.one(check(b"job", 1, 2)) == [OK, 1_000]
    assert talk.wait(1_000) == [[EXPIRED, b"job", 0, 2, b"node1", 0]]


def test_joining_renews_the_session(talk: Talk) -> None:
    session = open_session(talk)
    talk.one(acquire(b"a", 1, lease_ms=100, session=session))
    talk.pass_time(700)
    talk.one(acquire(b"b", 1, lease_ms=100, session=session))
    assert talk.one(check(b"a", 1, 2)) == [OK, 1_000]


def test_a_refused_acquire_does_not_renew__I4(talk: Talk) -> None:
    session = open_session(talk)
    talk.all(acquire(b"a", 1, lease_ms=100, session=session), acquire(b"b", 9, lease_ms=5_000))
    talk.pass_time(700)
    assert talk.one(acquire(b"b", 1, session=session))[0] == HELD
    assert talk.one(acquire_all([b"c", b"b"], 1, session=session))[0] == HELD
    assert talk.one(check(b"a", 1, 2)) == [OK, 300]


def test_a_lease_with_a_later_deadline_of_its_own_outlives_its_session(talk: Talk) -> None:
    session = open_session(talk)
    talk.one(acquire(b"job", 1, lease_ms=3_000, session=session))
    assert talk.wait(2_999) == []
    assert talk.one(session_renew(session)) == [SESSION_ENDED]
    assert talk.one(extend(b"job", 1, 2, lease_ms=500)) == [OK, 500]
    assert talk.wait(499) == []
    assert talk.wait(1) == [[EXPIRED, b"job", 0, 2, b"node1", 0]]


def test_an_extension_beyond_the_session_counts(talk: Talk) -> None:
    session = open_session(talk)
    talk.one(acquire(b"job", 1, lease_ms=100, session=session))
    assert talk.one(extend(b"job", 1, 2, lease_ms=200)) == [OK, 1_000]
    assert talk.one(extend(b"job", 1, 2, lease_ms=4_000)) == [OK, 4_000]
    talk.wait(1_000)
    assert talk.one(check(b"job", 1, 2)) == [OK, 3_000]


def test_an_ended_session_never_comes_back(talk: Talk) -> None:
    session = open_session(talk)
    talk.pass_time(1_000)
    assert talk.one(session_renew(session)) == [SESSION_ENDED]
    assert talk.one(acquire(b"job", 1, session=session)) == [SESSION_ENDED]
    assert talk.one(acquire_all([b"job"], 1, session=session)) == [SESSION_ENDED]
    assert open_session(talk) != session
    assert talk.one(session_renew(session)) == [SESSION_ENDED]


def test_sessions_that_never_were_are_over(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    assert talk.all(session_renew(0), session_renew(1), session_renew(2**64 - 1)) == [[SESSION_ENDED]] * 3


def test_a_session_is_over_at_its_deadline_and_not_before(talk: Talk) -> None:
    session = open_session(talk)
    talk.pass_time(999)
    assert talk.one(session_renew(session)) == [OK, 1_000, 0]
    talk.pass_time(1_000)
    assert talk.one(session_renew(session)) == [SESSION_ENDED]


def test_leases_of_an_ended_session_expire_in_order_of_deadline_and_token__I7(talk: Talk) -> None:
    session = open_session(talk)
    talk.all(
        acquire(b"a", 1, lease_ms=1_000),
        acquire(b"b", 1, lease_ms=100, session=session),
        acquire(b"c", 1, lease_ms=3_000, session=session),
        acquire(b"d", 1, lease_ms=1_000),
        acquire(b"e", 1, lease_ms=1_000, session=session),
        acquire(b"f", 1, lease_ms=100),
    )
    assert [event[1] for event in talk.wait(5_000)] == [b"f", b"a", b"b", b"d", b"e", b"c"]


def test_the_cap_cuts_an_ended_session_where_the_order_says__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=2), sweep_max=2)
    session = open_session(talk)
    talk.all(*[acquire(b"n%d" % i, 1, lease_ms=1_000, session=session if i % 2 else 0) for i in range(6)])
    talk.pass_time(1_000)
    assert talk.all() == []
    order = [event[1] for event in talk.events]
    assert talk.one(check(b"n5", 1, 7)) == [NOT_HELD]
    order += [event[1] for event in talk.events]
    order += [event[1] for event in talk.wait(1)]
    assert order == [b"n0", b"n1", b"n2", b"n3", b"n4", b"n5"]


def test_a_lease_leaves_an_ended_session_that_was_not_swept_yet(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=1), sweep_max=1)
    session = open_session(talk)
    talk.all(*[acquire(b"n%d" % i, 1, lease_ms=100, session=session) for i in range(4)])
    talk.all(acquire(b"long", 1, lease_ms=9_000, session=session), acquire(b"more", 1, lease_ms=9_000, session=session))
    talk.pass_time(1_000)
    assert talk.one(release(b"long", 1, 6)) == [OK]
    assert talk.kinds() == [EXPIRED, RELEASED]
    assert talk.one(acquire(b"n2", 5))[0] == OK
    assert [event[1] for event in talk.events] == [b"n1", b"n2", b"n2"]
    assert [event[1] for event in talk.wait(1)] == [b"n3"]
    assert talk.wait(1) == []
    assert talk.one(check(b"more", 1, 7))[0] == OK


def test_a_released_lease_leaves_its_session(talk: Talk) -> None:
    session = open_session(talk)
    talk.one(acquire(b"job", 1, min_ms=500, session=session))
    talk.one(release(b"job", 1, 2))
    talk.pass_time(400)
    talk.one(session_renew(session))
    assert talk.wait(100) == [[VACATED, b"job", 0, 2, b"node1", 0]]


def test_an_ended_session_is_gone_from_the_state_and_its_leases_stand_free__I6(talk: Talk) -> None:
    session = open_session(talk)
    talk.one(acquire(b"job", 1, lease_ms=5_000, session=session))
    assert talk.state()[8] == [[session, 1_000, 1_000, 0, b"host:1"]]
    assert talk.state()[9][0][9] == session
    talk.wait(1_000)
    assert talk.state()[8] == []
    assert talk.state()[9][0][5:10] == [5_000, 5_000, 0, 1, 0]


def test_a_full_table_opens_no_more_sessions_until_one_ends(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sessions_max=2))
    open_session(talk, 500)
    open_session(talk, 1_000)
    assert talk.one(session_open()) == [LIMIT, 2]
    talk.pass_time(500)
    open_session(talk)
    assert talk.one(session_open()) == [LIMIT, 2]


def test_an_ended_session_with_unswept_leases_does_not_count__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sessions_max=1, sweep_max=0), sweep_max=0)
    session = open_session(talk, 500)
    talk.one(acquire(b"job", 1, lease_ms=100, session=session))
    talk.pass_time(500)
    open_session(talk)
    assert talk.events == []
