"""Extending, checking and ending what one holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster import limits
from tests.table.scripts import Machine
from tests.table.talk import (
    ABANDONED,
    EXTENDED,
    HELD,
    NOT_HELD,
    OK,
    RELEASED,
    VACATED,
    Talk,
    abandon,
    acquire,
    check,
    extend,
    release,
)

pytestmark = pytest.mark.fast


def test_an_extension_keeps_the_token_and_counts_from_now__I4(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.pass_time(400)
    assert talk.one(extend(b"job", 1, 1, lease_ms=2_000)) == [OK, 2_000]
    assert talk.events == [[EXTENDED, b"job", 0, 1, b"node1", 0]]
    assert talk.one(check(b"job", 1, 1)) == [OK, 2_000]
    assert talk.one(acquire(b"job", 1))[1] == 1


def test_an_extension_never_shortens__I4(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, lease_ms=5_000))
    assert talk.one(extend(b"job", 1, 1, lease_ms=100)) == [OK, 5_000]
    assert talk.events == []


@pytest.mark.parametrize("wrong", [extend, check, release])
def test_a_wrong_token_id_or_name_changes_nothing__I4(talk: Talk, wrong: Callable[..., list[object]]) -> None:
    talk.one(acquire(b"job", 1))
    before = talk.state()
    assert (
        talk.all(wrong(b"job", 1, 2), wrong(b"job", 2, 1), wrong(b"other", 1, 1), wrong(b"job", 1, 0))
        == [[NOT_HELD]] * 4
    )
    assert talk.state() == before


@pytest.mark.parametrize("wrong", [extend, check, release])
def test_what_is_over_is_not_held_swept_or_not__I7(
    make: Callable[..., Machine], wrong: Callable[..., list[object]]
) -> None:
    talk = Talk(make(sweep_max=0), sweep_max=0)
    talk.one(acquire(b"job", 1))
    talk.pass_time(1_000)
    assert talk.one(wrong(b"job", 1, 1)) == [NOT_HELD]
    assert talk.events == []


def test_a_token_of_an_earlier_lease_of_the_same_id_is_stale__I4(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    talk.one(release(b"job", 1, 1))
    talk.one(acquire(b"job", 1))
    assert talk.all(extend(b"job", 1, 1), release(b"job", 1, 1), check(b"job", 1, 1)) == [[NOT_HELD]] * 3
    assert talk.one(check(b"job", 1, 2)) == [OK, 1_000]


def test_a_release_frees_the_name_and_is_idempotent_in_effect__I5(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    assert talk.one(release(b"job", 1, 1, outcome=2)) == [OK]
    assert talk.events == [[RELEASED, b"job", 0, 1, b"node1", 2]]
    assert talk.one(release(b"job", 1, 1)) == [NOT_HELD]
    assert talk.one(acquire(b"job", 2))[0] == OK


# The least time that a name stays occupied


@pytest.mark.parametrize("outcome", [1, 2, 3, 4])
def test_an_early_end_keeps_the_slot_until_grant_plus_min(talk: Talk, outcome: int) -> None:
    talk.one(acquire(b"job", 1, min_ms=600))
    talk.pass_time(200)
    assert talk.one(release(b"job", 1, 1, outcome)) == [OK]
    assert talk.events == [[RELEASED, b"job", 0, 1, b"node1", outcome]]
    assert talk.one(acquire(b"job", 2)) == [HELD, b"node1", 400, 1, 0]
    talk.pass_time(399)
    assert talk.one(acquire(b"job", 2))[:3] == [HELD, b"node1", 1]
    assert talk.wait(1) == [[VACATED, b"job", 0, 1, b"node1", 0]]
    assert talk.one(acquire(b"job", 2))[0] == OK


def test_min_is_not_applied_if_the_action_never_started(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=600))
    assert talk.one(release(b"job", 1, 1, outcome=0)) == [OK]
    assert talk.one(acquire(b"job", 2))[0] == OK


def test_min_is_not_applied_after_it_has_passed(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=600))
    talk.pass_time(600)
    talk.one(release(b"job", 1, 1))
    assert talk.one(acquire(b"job", 2))[0] == OK


def test_min_counts_from_the_grant_also_after_extensions(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=600))
    talk.one(extend(b"job", 1, 1, lease_ms=60_000))
    talk.one(release(b"job", 1, 1))
    assert talk.one(acquire(b"job", 2)) == [HELD, b"node1", 600, 1, 0]


def test_a_dead_lease_can_only_be_looked_at__I4(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=600))
    talk.one(release(b"job", 1, 1))
    before = talk.state()
    assert talk.all(
        extend(b"job", 1, 1), check(b"job", 1, 1), release(b"job", 1, 1, outcome=0), abandon(b"job", 1)
    ) == [
        [NOT_HELD],
        [NOT_HELD],
        [OK],
        [OK],
    ]
    assert talk.events == []
    assert talk.state() == before


def test_a_dead_lease_is_not_found_again_by_its_id__I5(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=600, max_leaders=2))
    talk.one(release(b"job", 1, 1))
    assert talk.one(acquire(b"job", 1, max_leaders=2)) == [OK, 2, 1, 1_000, False]


def test_a_dead_lease_counts_with_its_limit__I1(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=600, max_leaders=1))
    talk.one(release(b"job", 1, 1))
    assert talk.one(acquire(b"job", 2, max_leaders=5))[0] == HELD


def test_a_dead_occupancy_that_is_over_is_vacated_before_the_grant__I7(make: Callable[..., Machine]) -> None:
    talk = Talk(make(sweep_max=0), sweep_max=0)
    talk.one(acquire(b"job", 1, min_ms=600))
    talk.one(release(b"job", 1, 1))
    talk.pass_time(600)
    assert talk.one(release(b"job", 1, 1)) == [NOT_HELD]
    assert talk.one(acquire(b"job", 2))[0] == OK
    assert talk.kinds() == [VACATED, 1]


# Abandoning


def test_abandon_frees_at_once_whatever_min_says(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, min_ms=1_000))
    assert talk.one(abandon(b"job", 1)) == [OK]
    assert talk.events == [[ABANDONED, b"job", 0, 1, b"node1", 0]]
    assert talk.one(acquire(b"job", 2))[0] == OK


def test_abandon_of_what_is_not_held_is_ok_and_nothing__I5(talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    assert talk.all(abandon(b"job", 2), abandon(b"other", 1)) == [[OK], [OK]]
    assert talk.events == []
    assert talk.one(check(b"job", 1, 1))[0] == OK


def test_the_longest_lease_time_ever_asked_for_is_kept(talk: Talk) -> None:
    talk.one(acquire(b"job", 1, lease_ms=2_000))
    assert talk.state()[7] == 2_000
    talk.one(extend(b"job", 1, 1, lease_ms=limits.LEASE_MAX_MS))
    talk.one(abandon(b"job", 1))
    assert talk.state()[7] == limits.LEASE_MAX_MS
