"""States as bytes: canonical, complete, and believed only as far as they can be true."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cluster import limits
from cluster._table import LEVEL, LeaseTable
from tests.table.invariants import State, check_state
from tests.table.model import Model
from tests.table.packing import batch, decode, pack, pack_anyhow
from tests.table.scripts import Author, Stage, perform
from tests.table.talk import EPOCH, TICK, Talk, acquire, extend, ident, release, revoke, session_open

pytestmark = pytest.mark.fast


def a_rich_state() -> list[Any]:
    """Sessions, groups, revoked and dead leases, in epoch 1 at time 1,000."""
    talk = Talk(LeaseTable())
    talk.now = 1_000
    talk.all([11, b"c" * 16, 0], session_open(2_000), session_open(500))
    talk.all(
        acquire(b"group", 1, max_leaders=3, session=1),
        acquire(b"group", 2, max_leaders=2, session=2, lease_ms=5_000),
        acquire(b"marked", 3, meta=b"meta"),
        acquire(b"dead", 4, min_ms=700),
        acquire(b"plain", 5),
    )
    talk.all(revoke(b"marked"), release(b"dead", 4, 6), extend(b"plain", 5, 7, 9_000))
    return talk.state()


def places(*names: str) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


HEAD = places("magic", "level", "epoch", "time", "next_token", "cluster_id", "grants_from", "longest") | {
    "next_event": 14
}
SESSION = places("id", "deadline", "lease_ms", "revoked", "node_id")
LEASE = places(
    *("id", "name", "slot", "token", "granted", "deadline", "lease_ms", "min_ms", "max_leaders", "session", "flags"),
    *("node_id", "metadata"),
)
GROUP_1, GROUP_2, MARKED, DEAD, PLAIN = range(5)


def restored(state: Any) -> LeaseTable:
    table = LeaseTable()
    table.restore(pack(state))
    return table


def test_restoring_is_the_identity__I6() -> None:
    state = a_rich_state()
    assert restored(state).snapshot() == pack(state)


def test_a_snapshot_does_not_depend_on_seed_or_history__I6() -> None:
    snapshots = set()
    for seed in range(5):
        rng = random.Random(seed)
        table = LeaseTable(seed=rng.randrange(2**64))
        table.apply(batch([EPOCH], 0, 1))
        for first in range(0, 2_000, 100):
            names = [b"n%d" % i for i in range(first, first + 100)]
            table.apply(batch([acquire(name, 1) for name in names], 0, 1))
            if rng.randrange(2):
                table.restore(table.snapshot())
        snapshots.add(table.snapshot())
    assert len(snapshots) == 1


def test_a_fresh_table_has_a_snapshot_like_any_other__I6() -> None:
    table = LeaseTable()
    assert decode(table.snapshot())[0] == [b"tenure table", LEVEL, 0, 0, 1, b"", 0, 0, [], [], 0, [], [], [], 1]
    table.restore(table.snapshot())
    assert table.snapshot() == LeaseTable().snapshot()


def test_a_snapshot_is_read_in_any_width_and_written_in_the_shortest__I6() -> None:
    state = a_rich_state()
    table = LeaseTable()
    table.restore(pack_anyhow(state, random.Random(1)))
    assert table.snapshot() == pack(state)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("magic", b"tenure tablf"),
        ("level", 0),
        ("level", LEVEL + 1),
        ("time", limits.STAMP_MAX_MS + 1),
        ("time", 999),
        ("time", 3_001),
        ("next_token", 7),
        ("next_token", 0),
        ("next_token", limits.TOKEN_MAX + 2),
        ("cluster_id", b"c" * 15),
        ("grants_from", limits.STAMP_MAX_MS + limits.LEASE_MAX_MS + 1),
        ("longest", limits.LEASE_MAX_MS + 1),
        ("longest", 4_999),
        ("epoch", b""),
        ("next_event", 0),
        ("next_event", limits.EVENT_MAX + 1),
        ("next_event", b""),
    ],
)
def test_an_impossible_head_is_refused(place: str, value: Any) -> None:
    state = a_rich_state()
    state[HEAD[place]] = value
    with pytest.raises(ValueError, match="not a snapshot"):
        restored(state)


def test_the_largest_number_of_an_event_is_restored() -> None:
    state = a_rich_state()
    state[HEAD["next_event"]] = limits.EVENT_MAX
    assert restored(state).next_event == limits.EVENT_MAX


@pytest.mark.parametrize(
    ("which", "place", "value"),
    [
        (0, "id", 0),
        (1, "id", 1),
        (1, "id", 8),
        (1, "id", 4),
        (0, "deadline", 1_000),
        (0, "deadline", 3_001),
        (0, "lease_ms", 99),
        (0, "lease_ms", limits.LEASE_MAX_MS),
        (0, "revoked", 2**60),
        (0, "node_id", b"x" * 256),
    ],
)
def test_an_impossible_session_is_refused(which: int, place: str, value: Any) -> None:
    state = a_rich_state()
    state[8][which][SESSION[place]] = value
    with pytest.raises(ValueError, match="not a snapshot"):
        restored(state)


@pytest.mark.parametrize(
    ("which", "place", "value"),
    [
        (GROUP_1, "id", b"x" * 17),
        (GROUP_2, "id", ident(1)),
        (PLAIN, "name", b"-"),
        (PLAIN, "name", b"group"),
        (GROUP_2, "slot", 0),
        (GROUP_2, "slot", 2),
        (PLAIN, "slot", 1),
        (GROUP_1, "max_leaders", 1),
        (GROUP_1, "max_leaders", 0),
        (GROUP_1, "max_leaders", 1_025),
        (GROUP_1, "token", 2),
        (GROUP_1, "token", 4),
        (PLAIN, "token", 8),
        (PLAIN, "granted", 1_001),
        (PLAIN, "deadline", 1_999),
        (PLAIN, "deadline", 10_001),
        (PLAIN, "lease_ms", 99),
        (PLAIN, "lease_ms", 9_001),
        (PLAIN, "min_ms", 1_001),
        (PLAIN, "session", 3),
        (MARKED, "session", 1),
        (DEAD, "session", 1),
        (DEAD, "deadline", 1_701),
        (DEAD, "min_ms", 0),
        (PLAIN, "flags", 3),
        (PLAIN, "flags", 4),
        (PLAIN, "node_id", b"x" * 256),
        (PLAIN, "metadata", b"x" * 4_097),
        (PLAIN, "metadata", 5),
    ],
)
def test_an_impossible_lease_is_refused(which: int, place: str, value: Any) -> None:
    state = a_rich_state()
    assert restored(state).lease_count == 5
    state[9][which][LEASE[place]] = value
    with pytest.raises(ValueError, match="not a snapshot"):
        restored(state)


def test_more_occupants_than_one_of_them_allows_are_refused__I1() -> None:
    state = a_rich_state()
    state[9][PLAIN][LEASE["name"]] = b"group"
    state[9][PLAIN][LEASE["slot"]] = 2
    state[9][PLAIN][LEASE["max_leaders"]] = 3
    with pytest.raises(ValueError, match="not a snapshot"):
        restored(state)
    state[9][GROUP_2][LEASE["max_leaders"]] = 3
    assert restored(state).lease_count == 5


def test_a_lease_older_than_its_session_is_refused() -> None:
    state = a_rich_state()
    del state[9][MARKED]
    state[8][1][SESSION["id"]] = 5
    state[9][GROUP_2][LEASE["session"]] = 0
    assert restored(state).session_count == 2
    state[9][GROUP_2][LEASE["session"]] = 5
    with pytest.raises(ValueError, match="not a snapshot"):
        restored(state)


def test_occupants_that_are_over_do_not_count__I1() -> None:
    state = [b"tenure table", 1, 1, 5_000, 9, b"", 0, 1_000, [], [], 0, [], [], [], 1]
    lease = [ident(1), b"job", 0, 1, 0, 1_000, 1_000, 0, 2, 0, 0, b"", b""]
    state[9] = [lease, [*lease[:2], 1, 2, *lease[4:]]]
    assert restored(state).lease_count == 2


def test_what_fails_leaves_the_state_as_it_was() -> None:
    table = restored(a_rich_state())
    before = table.snapshot()
    for data in (b"", b"\x9d", before[:-1], before + b"\0", bytes(100), pack([b"tenure table"])):
        with pytest.raises(ValueError, match="not a snapshot of a lease table"):
            table.restore(data)
        assert table.snapshot() == before
    assert table.apply(batch([TICK], 0, 1)) == (b"\x91\x00", b"")


def test_a_snapshot_beyond_the_limits_is_refused() -> None:
    snapshot = pack(a_rich_state())
    for small in (LeaseTable(leases_max=4), LeaseTable(sessions_max=1), LeaseTable(text_max=50)):
        with pytest.raises(ValueError, match="not a snapshot"):
            small.restore(snapshot)


def test_a_restored_table_goes_on_like_the_original__I6() -> None:
    """Also where the original has stale keys, half-swept sessions and a half-moved index inside, which the restored one has not."""
    for seed in range(40):
        rng = random.Random(seed)
        original, copy, model = LeaseTable(sweep_max=2), LeaseTable(seed=seed, sweep_max=2), Model(sweep_max=2)
        author = Author(rng, names=8, ops_max=8)
        perform(Stage([original], 2), author, rng.randrange(10, 40))
        if original.level > LEVEL:
            continue
        copy.restore(original.snapshot())
        model.restore(original.snapshot())
        for _ in range(30):
            data = author.next_batch()
            outcome = original.apply(data)
            assert copy.apply(data) == outcome
            assert model.apply(data) == outcome
            author.heard(outcome[0])
        assert copy.snapshot() == original.snapshot() == model.snapshot()
        check_state(State(copy.snapshot()))
