"""Who is granted what, and what everybody else is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.table.scripts import Machine
from tests.table.talk import (
    EXPIRED,
    GRANTED,
    HELD,
    LIMIT,
    OK,
    RELEASED,
    SESSION_ENDED,
    Talk,
    abandon,
    acquire,
    acquire_all,
    extend,
    release,
    session_open,
)

pytestmark = pytest.mark.fast


def test_the_first_to_ask_is_granted(talk: Talk) -> None:
    assert talk.one(acquire(b"job", 1)) == [OK, 1, 0, 1_000, False]
    assert talk.events == [[GRANTED, b"job", 0, 1, b"node1", 0]]


def test_the_second_is_told_who_leaves_when__I1(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.pass_time(400)
    assert talk.one(acquire(b"job", 2)) == [HELD, b"node1", 600, 1, 0]
    assert talk.events == []


def test_tokens_rise_over_all_names__I2(talk: Talk) -> None:
    answers = talk.all(acquire(b"a", 1), acquire(b"b", 1), acquire(b"c", 1))
    assert [answer[1] for answer in answers] == [1, 2, 3]


def test_a_lease_is_over_at_its_deadline_and_not_before__I7(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.pass_time(999)
    assert talk.one(acquire(b"job", 2))[:3] == [HELD, b"node1", 1]
    talk.pass_time(1)
    assert talk.one(acquire(b"job", 2)) == [OK, 2, 0, 1_000, False]
    assert talk.kinds() == [EXPIRED, GRANTED]


@pytest.mark.parametrize("lease_ms", [100, 3_600_000])
def test_how_long_a_contender_wants_it_does_not_matter_to_the_holder__B5(talk: Talk, lease_ms: int) -> None:
    talk.one(acquire(b"job", 1, lease_ms=60_000))
    talk.pass_time(59_999)
    assert talk.one(acquire(b"job", 2, lease_ms=lease_ms))[:3] == [HELD, b"node1", 1]
    talk.pass_time(1)
    assert talk.one(acquire(b"job", 2, lease_ms=lease_ms)) == [OK, 2, 0, lease_ms, False]


def test_asking_again_gives_the_same_lease_and_changes_nothing__I5(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.pass_time(300)
    before = talk.state()
    assert talk.one(acquire(b"job", 1, lease_ms=60_000)) == [OK, 1, 0, 700, False]
    assert talk.events == []
    assert talk.state()[9] == before[9]


def test_asking_again_after_the_end_is_a_new_lease__I5(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.one(release(b"job", 1, 1))
    assert talk.one(acquire(b"job", 1)) == [OK, 2, 0, 1_000, False]


def test_asking_again_is_answered_although_the_session_is_over__I5(talk: Talk) -> None:
    _, session, _ = talk.one(session_open(lease_ms=100))
    talk.one(acquire(b"job", 1, session=session))
    talk.pass_time(500)
    assert talk.one(acquire(b"job", 1, session=session)) == [OK, 2, 0, 500, False]
    assert talk.one(acquire(b"job", 2, session=session)) == [SESSION_ENDED]


def test_a_refusal_is_not_remembered__I5(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    assert talk.one(acquire(b"job", 2))[0] == HELD
    talk.one(release(b"job", 1, 1))
    assert talk.one(acquire(b"job", 2))[0] == OK


def test_the_lowest_free_slot_is_given(talk: Talk) -> None:
    slots = [answer[2] for answer in talk.all(*[acquire(b"job", by, max_leaders=3) for by in range(3)])]
    assert slots == [0, 1, 2]
    talk.one(release(b"job", 1, 2))
    assert talk.one(acquire(b"job", 9, max_leaders=3)) == [OK, 4, 1, 1_000, False]


def test_the_smallest_limit_of_all_counts__I1(talk: Talk) -> None:
    talk.all(acquire(b"job", 1, max_leaders=5), acquire(b"job", 2, max_leaders=2))
    assert talk.one(acquire(b"job", 3, max_leaders=5))[0] == HELD
    assert talk.one(acquire(b"job", 4, max_leaders=1))[0] == HELD
    talk.one(release(b"job", 2, 2))
    assert talk.one(acquire(b"job", 3, max_leaders=5))[0] == OK


def test_held_names_the_first_to_leave_and_of_equals_the_smaller_slot(talk: Talk) -> None:
    talk.all(
        acquire(b"job", 1, max_leaders=3, lease_ms=2_000),
        acquire(b"job", 2, max_leaders=3),
        acquire(b"job", 3, max_leaders=3),
    )
    assert talk.one(acquire(b"job", 4)) == [HELD, b"node2", 1_000, 2, 1]


def test_an_extended_lease_is_told_with_its_new_end(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.one(extend(b"job", 1, 1, lease_ms=5_000))
    assert talk.one(acquire(b"job", 2)) == [HELD, b"node1", 5_000, 1, 0]


def test_leftovers_are_reported_by_slot_before_the_grant__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=0), sweep_max=0)
    talk.all(acquire(b"job", 1, max_leaders=3, lease_ms=500), acquire(b"job", 2, max_leaders=3, lease_ms=300))
    talk.pass_time(600)
    assert talk.one(acquire(b"job", 3)) == [OK, 3, 0, 1_000, False]
    assert [(event[0], event[3]) for event in talk.events] == [(EXPIRED, 1), (EXPIRED, 2), (GRANTED, 3)]


def test_a_refusal_reports_no_leftovers__I4(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=0), sweep_max=0)
    talk.all(acquire(b"job", 1, max_leaders=2, lease_ms=300), acquire(b"job", 2, max_leaders=2))
    talk.pass_time(600)
    assert talk.one(acquire(b"job", 3))[:2] == [HELD, b"node2"]
    assert talk.events == []


# All or none


def test_all_names_are_granted_in_the_order_given(talk: Talk) -> None:
    talk.one(acquire(b"c", 9, max_leaders=2))
    assert talk.one(acquire_all([b"b", b"a", b"c"], 1, max_leaders=2)) == [
        OK,
        [[2, 0, 1_000, False], [3, 0, 1_000, False], [4, 1, 1_000, False]],
    ]
    assert [event[1] for event in talk.events] == [b"b", b"a", b"c"]


def test_one_held_name_refuses_all_and_is_named(talk: Talk) -> None:
    talk.all(acquire(b"b", 9), acquire(b"c", 8))
    assert talk.one(acquire_all([b"a", b"b", b"c"], 1)) == [HELD, b"node9", 1_000, 1, 0, 1]
    assert talk.events == []
    assert talk.one(acquire(b"a", 2))[0] == OK


def test_names_that_the_id_holds_count_as_obtained__I5(talk: Talk) -> None:
    talk.one(acquire(b"b", 1, lease_ms=300))
    talk.pass_time(100)
    assert talk.one(acquire_all([b"a", b"b"], 1)) == [OK, [[2, 0, 1_000, False], [1, 0, 200, False]]]
    assert [event[1] for event in talk.events] == [b"a"]
    assert talk.one(acquire_all([b"a", b"b"], 1)) == [OK, [[2, 0, 1_000, False], [1, 0, 200, False]]]
    assert talk.events == []


def test_what_remains_is_told_after_the_session_was_renewed(talk: Talk) -> None:
    _, session, _ = talk.one(session_open(lease_ms=1_000))
    talk.one(acquire(b"a", 1, lease_ms=100, session=session))
    talk.pass_time(600)
    assert talk.one(acquire_all([b"a", b"b"], 1, lease_ms=100, session=session)) == [
        OK,
        [[2, 0, 1_000, False], [3, 0, 1_000, False]],
    ]


def test_expired_leftovers_of_all_missing_names_go_first__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=0), sweep_max=0)
    talk.all(acquire(b"a", 7), acquire(b"b", 8))
    talk.pass_time(1_000)
    assert talk.one(acquire_all([b"b", b"a"], 1))[0] == OK
    assert [(event[0], event[1]) for event in talk.events] == [
        (EXPIRED, b"b"),
        (EXPIRED, b"a"),
        (GRANTED, b"b"),
        (GRANTED, b"a"),
    ]


# Limits


def test_a_full_table_grants_nothing_more(make: Callable[..., Machine]) -> None:
    talk = Talk(make(leases_max=2))
    talk.all(acquire(b"a", 1), acquire(b"b", 1))
    assert talk.one(acquire(b"c", 1)) == [LIMIT, 1]
    assert talk.one(acquire(b"a", 1))[0] == OK
    talk.one(abandon(b"a", 1))
    assert talk.one(acquire_all([b"c", b"d"], 1)) == [LIMIT, 1]
    assert talk.one(acquire(b"c", 1))[0] == OK


def test_what_is_over_but_not_swept_does_not_count__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(leases_max=3, sweep_max=0), sweep_max=0)
    talk.all(acquire(b"a", 1, lease_ms=500), acquire(b"b", 1, lease_ms=300), acquire(b"c", 1, lease_ms=9_000))
    talk.pass_time(600)
    assert talk.one(acquire(b"d", 1))[0] == OK
    assert [(event[0], event[1]) for event in talk.events] == [(EXPIRED, b"b"), (GRANTED, b"d")]
    assert talk.one(acquire_all([b"e", b"f"], 1)) == [LIMIT, 1]
    assert [(event[0], event[1]) for event in talk.events] == [(EXPIRED, b"a")]


def test_the_text_of_all_leases_is_limited(make: Callable[..., Machine]) -> None:
    talk = Talk(make(text_max=19, sweep_max=0), sweep_max=0)
    talk.one(acquire(b"abc", 1, meta=b"12"))
    assert talk.one(acquire(b"def", 2, meta=b"12")) == [LIMIT, 4]
    assert talk.one(acquire(b"def", 2, meta=b"1"))[0] == OK
    assert talk.one(acquire_all([b"a", b"b"], 3)) == [LIMIT, 4]
    talk.pass_time(1_000)
    assert talk.one(acquire(b"x", 3, meta=b"1" * 3))[0] == OK
    assert [(event[0], event[1]) for event in talk.events] == [(EXPIRED, b"abc"), (GRANTED, b"x")]
    assert talk.one(acquire_all([b"abcdef", b"b"], 3)) == [LIMIT, 4]
    assert talk.one(acquire(b"b" * 5, 3))[0] == OK


def test_a_released_lease_makes_room_at_once(make: Callable[..., Machine]) -> None:
    talk = Talk(make(leases_max=1))
    talk.one(acquire(b"a", 1))
    talk.one(release(b"a", 1, 1))
    assert talk.kinds() == [RELEASED]
    assert talk.one(acquire(b"b", 2))[0] == OK
