"""What is over goes in order, a bounded number at a time, and nobody can tell whether it has gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster._table import LeaseTable
from tests.table.scripts import Machine
from tests.table.talk import EXPIRED, HELD, OK, VACATED, Talk, acquire, extend, release

pytestmark = pytest.mark.fast


def test_in_order_of_deadline_then_token__I7(talk: Talk) -> None:
    talk.all(*[acquire(b"n%d" % i, 1, lease_ms=lease_ms) for i, lease_ms in enumerate([500, 300, 500, 300, 100])])
    assert [event[3] for event in talk.wait(600)] == [5, 2, 4, 1, 3]


def test_an_extension_moves_a_lease_in_the_order__I7(talk: Talk) -> None:
    talk.all(*[acquire(b"n%d" % i, 1, lease_ms=200) for i in range(3)])
    talk.all(extend(b"n0", 1, 1, 400), extend(b"n1", 1, 2, 300))
    assert [event[3] for event in talk.wait(500)] == [3, 2, 1]


def test_an_early_end_moves_a_lease_to_the_front__I7(talk: Talk) -> None:
    talk.all(
        acquire(b"a", 1, lease_ms=200), acquire(b"b", 1, lease_ms=9_000, min_ms=100), acquire(b"c", 1, lease_ms=150)
    )
    talk.one(release(b"b", 1, 2))
    assert [(event[0], event[1]) for event in talk.wait(500)] == [(VACATED, b"b"), (EXPIRED, b"c"), (EXPIRED, b"a")]


def test_not_more_than_the_cap_in_one_batch_and_the_rest_later__I7() -> None:
    talk = Talk(LeaseTable())
    for first in range(0, 2_500, 500):
        talk.all(*[acquire(b"n%d" % i, 1) for i in range(first, first + 500)])
    counts = []
    talk.pass_time(5_000)
    for _ in range(4):
        talk.all()
        counts.append(len(talk.events))
    assert counts == [1_024, 1_024, 452, 0]


def test_what_waits_to_be_swept_does_not_show__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=1), sweep_max=1)
    talk.all(*[acquire(b"n%d" % i, 1) for i in range(5)])
    talk.pass_time(1_000)
    answers = talk.all(*[acquire(b"n%d" % i, 2) for i in reversed(range(5))])
    assert [answer[:3] for answer in answers] == [[OK, token, 0] for token in range(6, 11)]
    assert [event[3] for event in talk.events] == [1, 5, 6, 4, 7, 3, 8, 2, 9, 10]


def test_a_lease_that_was_expired_by_a_grant_is_not_swept_again__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=0), sweep_max=0)
    talk.one(acquire(b"job", 1))
    talk.pass_time(1_000)
    talk.one(acquire(b"job", 2))
    assert talk.wait(500) == []
    assert talk.one(acquire(b"job", 3)) == [HELD, b"node2", 500, 2, 0]
