"""Candidates: who stands, what a revision means, whose turn it is, what is counted (F4, F5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster import limits
from cluster._table import LeaseTable
from tests.table.packing import pack
from tests.table.scripts import Machine
from tests.table.talk import (
    HELD,
    INVALID,
    LIMIT,
    NOT_HELD,
    NOT_YET,
    OK,
    SESSION_ENDED,
    TICK,
    Talk,
    abandon,
    acquire,
    ident,
    release,
)

pytestmark = pytest.mark.fast

VERSION_DIFFERS, NOT_YOUR_TURN = 10, 12
JOB = b"job"


def register(node: bytes, ttl_ms: int = 10_000, info: bytes = b"", name: bytes = JOB) -> list[Any]:
    return [16, name, node, ttl_ms, info]


def refresh(node: bytes, ttl_ms: int = 10_000, name: bytes = JOB) -> list[Any]:
    return [17, name, node, ttl_ms]


def unregister(node: bytes, name: bytes = JOB) -> list[Any]:
    return [18, name, node]


def elect(
    by: int, node: bytes, revision: int, count: int, place: int = 0, claim_ms: int = 0, **terms: int
) -> list[Any]:
    lease_ms, session = terms.get("lease_ms", 1_000), terms.get("session", 0)
    return [
        19,
        ident(by),
        JOB,
        lease_ms,
        1,
        terms.get("min_ms", 0),
        session,
        node,
        b"",
        revision,
        count,
        place,
        claim_ms,
    ]


def roster(talk: Talk, name: bytes = JOB) -> Any:
    """``[revision, last_token, open_since, {node: (registered, last_start, last_completion, successes, failures, info)}]``."""
    for row in talk.state()[13]:
        if row[0] == name:
            return [*row[1:4], {c[0]: (*c[3:8], c[8]) for c in row[4]}]
    return None


def test_who_registers_stands_until_its_time_is_over(talk: Talk) -> None:
    assert talk.one(register(b"a", 1_000)) == [OK, 1]
    assert talk.one(register(b"b", 2_000, b"info")) == [OK, 2]
    talk.wait(999)
    assert talk.one(refresh(b"a", 500)) == [OK, 2], "a refresh is no change"
    talk.wait(501)
    assert talk.one(refresh(b"a")) == [NOT_HELD], "refreshed until 1,499 only"
    assert talk.one(refresh(b"b")) == [OK, 2], "who runs out is no change of the revision"
    assert talk.one(register(b"a")) == [OK, 3], "a new candidate, after b"
    assert list(roster(talk)[3]) == [b"b", b"a"]


def test_a_refresh_never_shortens(talk: Talk) -> None:
    talk.one(register(b"a", 5_000))
    talk.all(refresh(b"a", 100), register(b"a", 100))
    talk.wait(4_999)
    assert talk.one(refresh(b"a", 100))[0] == OK


def test_registering_again_keeps_what_was_counted__F5(talk: Talk) -> None:
    talk.all(register(b"a", info=b"one"), register(b"b"))
    talk.wait(10)
    token = talk.one(elect(1, b"a", 2, 2))[1]
    talk.wait(10)
    talk.one(release(JOB, 1, token, 1))
    before = roster(talk)
    assert before[3][b"a"] == (0, 10, 20, 1, 0, b"one")
    talk.wait(10)
    assert talk.one(register(b"a", info=b"one")) == [OK, before[0]], "nothing new: no change"
    assert roster(talk) == before
    assert talk.one(register(b"a", info=b"two")) == [OK, before[0] + 1]
    assert roster(talk)[3][b"a"] == (0, 10, 20, 1, 0, b"two")
    assert list(roster(talk)[3]) == [b"a", b"b"], "its place among equals stays"


@pytest.mark.parametrize(
    ("outcome", "counted"), [(0, (None, 0, 0)), (1, (5, 1, 0)), (2, (5, 0, 1)), (3, (5, 0, 1)), (4, (5, 0, 0))]
)
def test_an_outcome_is_counted_once_per_token__F5(talk: Talk, outcome: int, counted: Any) -> None:
    talk.one(register(b"a"))
    token = talk.one(elect(1, b"a", 1, 1, min_ms=500))[1]
    talk.wait(5)
    for _ in range(3):
        talk.one(release(JOB, 1, token, outcome))
    completed, successes, failures = counted
    assert roster(talk)[3][b"a"][2:5] == (completed, successes, failures)


def test_a_late_outcome_revives_nobody__F5(talk: Talk) -> None:
    talk.all(register(b"a", 100), register(b"b"))
    token = talk.one(elect(1, b"a", 2, 2))[1]
    talk.wait(200)
    assert talk.one(release(JOB, 1, token, 1)) == [OK]
    assert talk.one(refresh(b"a")) == [NOT_HELD]
    assert talk.one(register(b"a"))[0] == OK
    assert roster(talk)[3][b"a"] == (200, None, None, 0, 0, b"")


def test_an_outcome_is_not_counted_for_who_registered_after_the_grant__F5(talk: Talk) -> None:
    talk.all(register(b"a", 100), register(b"b"))
    token = talk.one(elect(1, b"a", 2, 2))[1]
    talk.wait(200)
    talk.one(register(b"a"))
    talk.one(release(JOB, 1, token, 2))
    assert roster(talk)[3][b"a"][2:5] == (None, 0, 0)


def test_a_lease_that_runs_out_counts_nothing(talk: Talk) -> None:
    talk.one(register(b"a"))
    token = talk.one(elect(1, b"a", 1, 1))[1]
    talk.wait(1_000)
    assert talk.one(release(JOB, 1, token, 1)) == [NOT_HELD]
    assert roster(talk)[3][b"a"][2:5] == (None, 0, 0)


def test_two_winners_of_different_views_are_one__F4(talk: Talk) -> None:
    talk.all(register(b"a"), register(b"b"))
    first, second = talk.all(elect(1, b"a", 2, 2), elect(2, b"b", 2, 2))
    assert first[0] == OK
    assert second[0] == HELD
    talk.one(abandon(JOB, 1))
    assert talk.one(elect(2, b"b", 2, 2)) == [VERSION_DIFFERS, first[1]], "the grant was a change"
    assert talk.one(elect(2, b"b", first[1], 2))[0] == OK


@pytest.mark.parametrize(
    "change",
    [register(b"c"), register(b"a", info=b"new"), unregister(b"a"), acquire(b"other", 9)],
    ids=["new", "changed", "gone", "elsewhere"],
)
def test_a_claim_is_good_against_its_own_view_only__F4(talk: Talk, change: list[Any]) -> None:
    talk.all(register(b"a"), register(b"b"))
    talk.one(change)
    answer = talk.one(elect(1, b"b", 2, 2))
    assert answer[0] == (OK if change[0] == 1 else VERSION_DIFFERS)


def test_who_ran_out_makes_another_view__F4(talk: Talk) -> None:
    talk.all(register(b"a", 100), register(b"b"))
    talk.pass_time(100)
    assert talk.one(elect(1, b"b", 2, 2)) == [VERSION_DIFFERS, 2]
    assert talk.one(elect(1, b"b", 2, 1))[0] == OK


def test_who_does_not_stand_cannot_claim(talk: Talk) -> None:
    assert talk.one(elect(1, b"a", 0, 0)) == [NOT_HELD]
    talk.all(register(b"a", 100), register(b"b"))
    assert talk.one(elect(1, b"c", 2, 2)) == [NOT_HELD]
    talk.pass_time(100)
    assert talk.one(elect(1, b"a", 2, 2)) == [NOT_HELD]


def test_who_is_next_in_line_waits_its_turn_and_no_longer__F4(talk: Talk) -> None:
    talk.all(register(b"a"), register(b"b"), register(b"c"))
    talk.wait(5_000)
    assert talk.one(elect(2, b"b", 3, 3, 1, 200)) == [NOT_YOUR_TURN, 200], "the first claim opens the election"
    talk.wait(150)
    assert talk.one(elect(3, b"c", 3, 3, 2, 200)) == [NOT_YOUR_TURN, 250]
    talk.wait(49)
    assert talk.one(elect(2, b"b", 3, 3, 1, 200)) == [NOT_YOUR_TURN, 1]
    talk.wait(1)
    token = talk.one(elect(2, b"b", 3, 3, 1, 200))[1]
    talk.wait(300)
    talk.one(release(JOB, 2, token, 1))
    revision = roster(talk)[0]
    talk.wait(10)
    assert talk.one(elect(3, b"c", revision, 3, 1, 200)) == [NOT_YOUR_TURN, 200], "another election"


def test_a_change_of_the_roster_does_not_start_the_turns_again__F4(talk: Talk) -> None:
    talk.all(register(b"a"), register(b"b"))
    talk.one(elect(2, b"b", 2, 2, 1, 200))
    talk.wait(200)
    talk.one(register(b"c"))
    assert talk.one(elect(2, b"b", 3, 3, 1, 200))[0] == OK


def test_asking_again_gets_the_same_lease__I5(talk: Talk) -> None:
    talk.one(register(b"a"))
    first = talk.one(elect(1, b"a", 1, 1))
    assert talk.one(elect(1, b"a", 1, 1)) == first


def test_a_plain_lease_of_a_candidate_counts_like_any_other(talk: Talk) -> None:
    talk.one(register(b"node1"))
    token = talk.one(acquire(JOB, 1))[1]
    talk.one(release(JOB, 1, token, 1))
    assert roster(talk)[3][b"node1"][1:4] == (0, 0, 1)


def test_the_order_of_refusals(talk: Talk) -> None:
    talk.one(register(b"a"))
    assert talk.one(elect(1, b"a", 0, 0, 1, 9, session=99)) == [SESSION_ENDED]
    talk.one(acquire(JOB, 7))
    assert talk.one(elect(1, b"b", 0, 0, 1, 9))[0] == HELD
    talk.one(abandon(JOB, 7))
    assert talk.one(elect(1, b"b", 0, 0, 1, 9)) == [NOT_HELD]
    assert talk.one(elect(1, b"a", 0, 0, 1, 9))[0] == VERSION_DIFFERS
    assert talk.one(elect(1, b"a", roster(talk)[0], 1, 1, 9)) == [NOT_YOUR_TURN, 9]
    talk.one([31, 5_000])
    assert talk.one(elect(1, b"a", roster(talk)[0], 1)) == [NOT_YET, 5_000]


@pytest.mark.parametrize(
    ("operation", "place"),
    [
        (register(b"a", name=b"-"), 1),
        (register(b""), 2),
        (register(b"n" * 256), 2),
        (register(b"a", limits.LEASE_MIN_MS - 1), 3),
        (register(b"a", limits.LEASE_MAX_MS + 1), 3),
        (register(b"a", info=b"i" * (limits.CANDIDATE_INFO_MAX_BYTES + 1)), 4),
        (refresh(b""), 2),
        (refresh(b"a", 0), 3),
        (unregister(b""), 2),
        (unregister(b"a", b""), 1),
        (elect(1, b"a", 1, 1, limits.CANDIDATES_PER_NAME_MAX), 11),
        (elect(1, b"a", 1, 1, 0, limits.LEASE_MAX_MS + 1), 12),
        (elect(1, b"a", 1, 1, lease_ms=99), 3),
    ],
)
def test_what_is_out_of_range_is_named(talk: Talk, operation: list[Any], place: int) -> None:
    assert talk.one(operation) == [INVALID, place]


def test_what_is_just_in_range_is_taken(talk: Talk) -> None:
    info = b"i" * limits.CANDIDATE_INFO_MAX_BYTES
    assert talk.one(register(b"n" * 255, limits.LEASE_MIN_MS, info, b"n" * 255))[0] == OK
    assert talk.one(register(b"a", limits.LEASE_MAX_MS))[0] == OK
    last = elect(1, b"a", 2, 1, limits.CANDIDATES_PER_NAME_MAX - 1, limits.LEASE_MAX_MS)
    assert talk.one(last) == [NOT_YOUR_TURN, (limits.CANDIDATES_PER_NAME_MAX - 1) * limits.LEASE_MAX_MS]


def test_a_name_has_so_many_candidates_and_no_more(make: Callable[..., Machine]) -> None:
    talk = Talk(make())
    nodes = [b"n%d" % i for i in range(limits.CANDIDATES_PER_NAME_MAX)]
    assert talk.all(*(register(node) for node in nodes))[-1][0] == OK
    assert talk.all(register(b"one more"), register(nodes[0], info=b"changed"), register(b"x", name=b"other")) == [
        [LIMIT, 9],
        [OK, limits.CANDIDATES_PER_NAME_MAX + 1],
        [OK, limits.CANDIDATES_PER_NAME_MAX + 2],
    ]
    talk.one(unregister(nodes[1]))
    assert talk.one(register(b"one more"))[0] == OK


def test_all_names_together_have_so_many_candidates(make: Callable[..., Machine]) -> None:
    talk = Talk(make(candidates_max=2))
    talk.all(register(b"a", 100, name=b"x"), register(b"a", name=b"y"))
    assert talk.one(register(b"a")) == [LIMIT, 7]
    talk.pass_time(100)
    assert talk.one(register(b"a"))[0] == OK, "who has run out does not count"


def test_all_candidates_together_have_so_many_bytes(make: Callable[..., Machine]) -> None:
    talk = Talk(make(candidates_bytes_max=10))
    assert talk.one(register(b"abc", info=b"info")) == [OK, 1]
    assert talk.all(register(b"d"), register(b"abc", info=b"info!")) == [[LIMIT, 8], [LIMIT, 8]]
    assert talk.all(register(b"abc", info=b"inf"), register(b"d")) == [[OK, 2], [OK, 3]]


def test_readers_see_who_stands_at_their_time() -> None:
    table = LeaseTable()
    talk = Talk(table)
    talk.now = 50
    talk.one(TICK)
    assert table.candidates(JOB, 50) == (0, 0, [])
    talk.all(register(b"a", 100, b"info"), register(b"b"))
    token = talk.one(elect(1, b"b", 2, 2))[1]
    b = (b"b", b"", 50, 50, None, 0, 0)
    assert table.candidates(JOB, 149) == (token, token, [(b"a", b"info", 50, None, None, 0, 0), b])
    assert table.candidates(JOB, 150) == (token, token, [b])
    assert table.candidates(JOB, 1 << 40) == (0, 0, [])
    assert (table.candidate_count, table.candidate_bytes) == (2, 9)
    talk.all(unregister(b"a"), unregister(b"b"))
    assert (table.candidate_count, table.candidate_bytes) == (0, 0)


def state_with(*rosters: Any) -> list[Any]:
    return [b"tenure table", 1, 1, 5_000, 9, b"", 0, 1_000, [], [], 0, [], [], list(rosters), 1]


GOOD: list[Any] = [
    b"job",
    5,
    4,
    4_000,
    [[b"a", 2, 6_000, 1_000, 2_000, 3_000, 1, 0, b"info"], [b"b", 3, 4_000, 1_000, None, None, 0, 0, b""]],
]


def test_rosters_are_restored__I6() -> None:
    table = LeaseTable()
    table.restore(pack(state_with(GOOD)))
    assert table.snapshot() == pack(state_with(GOOD))
    assert table.freeze()() == pack(state_with(GOOD))
    assert [row[0] for row in table.candidates(JOB, 5_000)[2]] == [b"a"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda row: row.__setitem__(0, b"a b"),
        lambda row: row.__setitem__(1, 9),
        lambda row: row.__setitem__(1, 2),
        lambda row: row.__setitem__(2, 6),
        lambda row: row.__setitem__(3, 5_001),
        lambda row: row.__setitem__(4, []),
        lambda row: row.append(0),
        lambda row: row[4].reverse(),
        lambda row: row[4][1].__setitem__(0, b"a"),
        lambda row: row[4][0].__setitem__(0, b""),
        lambda row: row[4][0].__setitem__(1, 0),
        lambda row: row[4][0].__setitem__(2, 1_099),
        lambda row: row[4][0].__setitem__(2, 5_001 + limits.LEASE_MAX_MS),
        lambda row: row[4][0].__setitem__(3, 5_001),
        lambda row: row[4][0].__setitem__(4, 999),
        lambda row: row[4][0].__setitem__(5, 5_001),
        lambda row: row[4][0].__setitem__(6, limits.TOKEN_MAX + 1),
        lambda row: row[4][0].__setitem__(8, b"i" * (limits.CANDIDATE_INFO_MAX_BYTES + 1)),
    ],
)
def test_rosters_that_cannot_be_are_refused__I6(spoil: Callable[[Any], None]) -> None:
    row: Any = [*GOOD[:4], [list(candidate) for candidate in GOOD[4]]]
    spoil(row)
    with pytest.raises(ValueError, match="not a snapshot"):
        LeaseTable().restore(pack(state_with(row)))


def test_two_rosters_are_two_names_in_order__I6() -> None:
    later: list[Any] = [b"other", 6, 0, None, [[b"a", 6, 6_000, 1_000, None, None, 0, 0, b""]]]
    table = LeaseTable()
    table.restore(pack(state_with(GOOD, later)))
    for wrong in ([later, GOOD], [GOOD, [b"job", *later[1:]]]):
        with pytest.raises(ValueError, match="not a snapshot"):
            table.restore(pack(state_with(*wrong)))
