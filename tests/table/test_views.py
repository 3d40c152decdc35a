"""What a leader and an operator may look at: rows, pages, and when it is worth asking again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cluster._table import LeaseTable
from tests.table import views
from tests.table.model import Model
from tests.table.packing import pack
from tests.table.scripts import Author, Stage
from tests.table.talk import TICK, Talk, acquire, extend, release, revoke, session_open, session_renew

pytestmark = pytest.mark.fast


@pytest.fixture
def table() -> LeaseTable:
    return LeaseTable()


@pytest.fixture
def talk(table: LeaseTable) -> Talk:
    return Talk(table)


def test_rows_are_the_occupants_by_slot(table: LeaseTable, talk: Talk) -> None:
    talk.now = 100
    talk.all(session_open(5_000), acquire(b"job", 1, max_leaders=4, lease_ms=2_000, meta=b"meta"))
    talk.all(
        acquire(b"job", 2, max_leaders=3, session=1),
        acquire(b"job", 3, max_leaders=3, min_ms=500),
        acquire(b"other", 4),
    )
    talk.all(release(b"job", 3, 4), revoke(b"job", 0))
    assert table.rows(b"job", 150) == [
        (b"job", 0, 2, b"node1", 1_950, 50, 2_000, 4, 0, 1, b"meta"),
        (b"job", 1, 3, b"node2", 4_950, 50, 1_000, 3, 1, 0, b""),
        (b"job", 2, 4, b"node3", 450, 50, 1_000, 3, 0, 2, b""),
    ]
    assert [row[1] for row in table.rows(b"job", 600)] == [0, 1]
    assert table.rows(b"job", 5_099)[0][8] == 1
    assert table.rows(b"job", 5_100) == []
    assert table.rows(b"nobody", 0) == []


def test_a_time_before_the_tables_own_is_not_looked_at(table: LeaseTable, talk: Talk) -> None:
    talk.now = 500
    talk.one(acquire(b"job", 1))
    assert table.rows(b"job", -(2**63))[0][4:6] == (1_000, 0)
    assert table.next_free(b"job", 1, 0) == 1_500


def test_pages_follow_one_another_by_name_and_slot(table: LeaseTable, talk: Talk) -> None:
    names = [b"b", b"a", b"ab", b"a0", b"c", b"a/b"]
    talk.all(*[acquire(name, 1) for name in names], *[acquire(b"group", by, max_leaders=5) for by in range(5)])
    for limit in (1, 2, 3, 11, 12, 1_000):
        found: list[tuple[bytes, int]] = []
        after, slot, more = b"", 0, True
        while more:
            rows, more = table.scan(b"", after, slot, limit, 0)
            assert len(rows) == limit or not more
            found += [(row[0], row[1]) for row in rows]
            after, slot = found[-1]
        assert found == sorted(found)
        assert len(found) == 11
    assert [row[0] for row in table.scan(b"a", b"", 0, 100, 0)[0]] == [b"a", b"a/b", b"a0", b"ab"]
    assert [row[0] for row in table.scan(b"a", b"a0", 0, 100, 0)[0]] == [b"ab"]
    assert table.scan(b"x" * 300, b"", 0, 100, 0) == ([], False)
    assert table.scan(b"", b"z" * 300, 0, 100, 0) == ([], False)


@pytest.mark.parametrize("limit", [0, -1, -(2**63)])
def test_a_page_has_at_least_one_row(table: LeaseTable, talk: Talk, limit: int) -> None:
    talk.all(acquire(b"a", 1), acquire(b"b", 1))
    rows, more = table.scan(b"", b"", 0, limit, 0)
    assert (len(rows), more) == (1, True)


def test_next_free_is_now_or_the_next_end(table: LeaseTable, talk: Talk) -> None:
    assert table.next_free(b"job", 1, 0) == 0
    talk.all(acquire(b"job", 1, max_leaders=2, lease_ms=2_000), acquire(b"job", 2, max_leaders=3, lease_ms=1_000))
    assert table.next_free(b"job", 3, 0) == 1_000
    assert table.next_free(b"job", 3, 1_000) == 0
    assert table.next_free(b"job", 1, 1_000) == 2_000
    assert table.next_free(b"job", 1, 2_000) == 0
    assert table.next_free(b"other", 0, 0) == 0
    assert table.next_free(b"x" * 300, -(2**63), 2**63 - 1) == 0


def test_nothing_is_free_before_grants_begin(table: LeaseTable, talk: Talk) -> None:
    talk.one(acquire(b"job", 1))
    state = talk.state()
    state[6] = 5_000
    table.restore(pack(state))
    assert table.next_free(b"job", 1, 0) == 5_000
    assert table.next_free(b"other", 1, 4_999) == 5_000
    assert table.next_free(b"other", 1, 5_000) == 0


def test_next_deadline_is_exact(table: LeaseTable, talk: Talk) -> None:
    assert table.next_deadline() == -1
    talk.all(acquire(b"a", 1, lease_ms=500), acquire(b"b", 1, lease_ms=800))
    assert table.next_deadline() == 500
    talk.one(extend(b"a", 1, 1, lease_ms=2_000))
    assert table.next_deadline() == 800
    talk.one(release(b"b", 1, 2))
    assert table.next_deadline() == 2_000
    talk.one(session_open(300))
    assert table.next_deadline() == 300
    talk.pass_time(200)
    talk.one(session_renew(3))
    assert table.next_deadline() == 500


def test_next_deadline_is_past_while_something_waits_to_be_swept() -> None:
    table = LeaseTable(sweep_max=1)
    talk = Talk(table, sweep_max=1)
    talk.all(*[acquire(b"n%d" % i, 1) for i in range(3)])
    talk.now = 1_500
    ends = []
    for _ in range(3):
        talk.one(TICK)
        ends.append(table.next_deadline())
    assert ends == [1_000, 1_000, -1]


def look_around(table: LeaseTable, model: Model, rng: random.Random) -> None:
    now = model.now + rng.choice([-100, 0, 0, 1, 50, 100, 300, 1_000, 10_000])
    name = b"n%d" % rng.randrange(5)
    assert table.rows(name, now) == views.rows(model, name, now)
    assert table.leaver(name, now) == views.leaver(model, name, now)
    assert table.chain_length(name) == views.chain_length(model, name)
    leaders = rng.choice([1, 2, 3, 1_024])
    assert table.next_free(name, leaders, now) == views.next_free(model, name, leaders, now)
    assert table.next_deadline() == views.next_deadline(model)
    assert table.candidates(name, now) == views.candidates(model, name, now)
    page: list[Any] = [
        rng.choice([b"", b"n", b"n1", b"x"]),
        rng.choice([b"", name]),
        rng.randrange(3),
        rng.choice([1, 2, 5]),
        now,
    ]
    assert table.scan(*page) == views.scan(model, *page)
    assert (table.lease_count, table.session_count) == (len(model.leases), len(model.sessions))
    assert (table.time_ms, table.epoch, table.level) == (model.now, model.epoch, model.level)
    assert (table.next_token, table.cluster_id) == (model.next_token, model.cluster_id)


@pytest.mark.parametrize("seed", range(40))
def test_views_agree_with_the_model(seed: int) -> None:
    rng = random.Random(seed)
    sweep_max = rng.choice([1, 3, 1_024])
    table, model = LeaseTable(sweep_max=sweep_max), Model(sweep_max=sweep_max)
    stage, author = Stage([table, model], sweep_max), Author(rng, names=5, ops_max=6)
    for _ in range(30):
        author.heard(stage.play(author.next_batch())[0])
        look_around(table, model, rng)
