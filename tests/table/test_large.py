"""Tables with many leases: growth, memory, pauses, order, where scripts with a few names do not reach.

Knows: operations of a single kind at a time, so that a dict is model enough. Must not know: how the table stores them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import pytest

from cluster._table import LeaseTable
from tests.table.packing import batch, decode_all, pack
from tests.table.talk import EPOCH, EXPIRED, HELD, NOT_HELD, OK, TICK, acquire, extend, ident, release, session_open

NAME = b"tenant:acme:jobs-%07d"  # 24 bytes in all
NODE = b"worker-17:40321"


def fresh(**limits: int) -> LeaseTable:
    table = LeaseTable(**limits)
    table.apply(batch([EPOCH], 0, 1))
    return table


def acquires(first: int, count: int, *, session: int = 0, lease_ms: int = 60_000) -> list[bytes]:
    """Packed once for all: the names are of one length."""
    pattern = pack(acquire(NAME % 0, 0, lease_ms=lease_ms, session=session, node=NODE))
    parts = pattern.replace(NAME % 0, b"\0NAME").replace(ident(0), b"\0ID", 1)
    before, _, rest = parts.partition(b"\0ID")
    between, _, after = rest.partition(b"\0NAME")
    return [before + ident(i) + between + NAME % i + after for i in range(first, first + count)]


def fill(table: LeaseTable, count: int, *, session: int = 0, size: int = 1_000) -> None:
    for first in range(0, count, size):
        table.apply(batch(acquires(first, min(size, count - first), session=session), 0, 1))
    assert table.lease_count == count


@pytest.mark.parametrize(("names", "batches"), [(40, 300), (300, 200), pytest.param(6_000, 60, marks=pytest.mark.fast)])
def test_names_come_and_go_while_the_index_grows__I1_I4(names: int, batches: int) -> None:
    """Every answer and every expiry is as a dict says; few names in few slots make long runs, many make it grow again and again."""
    rng = random.Random(names)
    table, now = fresh(sweep_max=2**20), 0
    held: dict[bytes, tuple[int, int, int]] = {}  # name: (id, token, end)
    for _ in range(batches):
        now += rng.choice([0, 10, 200])
        due = sorted((end, token, name) for name, (_, token, end) in held.items() if end <= now)
        for _, _, name in due:
            del held[name]
        operations, expected = [], []
        for _ in range(rng.choice([1, 50, 400])):
            name, by = NAME % rng.randrange(names), rng.randrange(1, 4)
            owner, token, end = held.get(name, (0, 0, 0))
            if rng.randrange(2):
                lease_ms = rng.choice([100, 300, 2_000, 60_000])
                operations.append(acquire(name, by, lease_ms=lease_ms))
                if owner:
                    expected.append(OK if owner == by else HELD)
                else:
                    expected.append(OK)
                    held[name] = (by, -1 - len(expected), now + lease_ms)
            elif rng.randrange(3) == 0 and token >= 0:
                operations.append(extend(name, by, token, 5_000))
                expected.append(OK if owner == by else NOT_HELD)
                if owner == by:
                    held[name] = (owner, token, max(end, now + 5_000))
            elif token >= 0:
                operations.append(release(name, by, token))
                expected.append(OK if owner == by else NOT_HELD)
                if owner == by:
                    del held[name]
        replies, events = table.apply(batch(operations, now, 1))
        answers = decode_all(replies)
        assert [answer[0] for answer in answers] == expected
        # A lease that was granted in this batch is known by its place in it until its token is known.
        held.update({name: (by, answers[-2 - token][1], end) for name, (by, token, end) in held.items() if token < 0})
        assert [event[3] for event in decode_all(events) if event[0] == EXPIRED] == [token for _, token, _ in due]
        assert table.lease_count == len(held)
    assert {row[0]: row[2] for row in all_rows(table)} == {name: token for name, (_, token, _) in held.items()}


def all_rows(table: LeaseTable) -> Iterator[tuple[object, ...]]:
    after, slot, more = b"", 0, True
    while more:
        rows, more = table.scan(b"", after, slot, 2_000, 0)
        yield from rows
        after, slot = (rows[-1][0], rows[-1][1]) if rows else (b"", 0)


@pytest.mark.fast
def test_sessions_with_many_leases_are_swept_in_order__I7() -> None:
    """Three sessions end together; what hangs on them, what outlives them and what stands free come in one order, in capped steps."""
    rng = random.Random(3)
    table = fresh(sweep_max=700)
    ends: dict[int, int] = {}  # of tokens
    replies, _ = table.apply(batch([session_open(1_000), session_open(1_000), session_open(1_500)], 0, 1))
    lifetimes = {0: 0, **{answer[1]: answer[2] for answer in decode_all(replies)}}
    for first in range(0, 9_000, 300):
        operations = []
        for i in range(first, first + 300):
            session, lease_ms = rng.choice([0, *lifetimes]), rng.choice([500, 1_000, 1_500, 3_000])
            operations.append(acquire(NAME % i, 1, lease_ms=lease_ms, session=session))
            ends[i + 4] = max(lease_ms, lifetimes[session])
        table.apply(batch(operations, 0, 1))
    longer = rng.sample(sorted(ends), 500)
    table.apply(batch([extend(NAME % (token - 4), 1, token, 2_500) for token in longer], 0, 1))
    ends.update({token: max(ends[token], 2_500) for token in longer})
    expected = [token for _, token in sorted((end, token) for token, end in ends.items() if end <= 2_000)]
    swept: list[int] = []
    while step := [event[3] for event in decode_all(table.apply(batch([TICK], 2_000, 1))[1])]:
        assert len(step) <= 700
        swept += step
        table.restore(table.snapshot())
    assert swept == expected
    assert table.session_count == 0


@pytest.mark.parametrize("on_a_session", [False, True])
def test_memory_of_a_lease(on_a_session: bool, record_property: Callable[[str, object], None]) -> None:
    """With names of 24 bytes and node ids of 15. The figure at a million leases is in ``bench``."""
    table = fresh()
    empty = table.memory_bytes
    session = 0
    if on_a_session:
        session = decode_all(table.apply(batch([session_open(60_000)], 0, 1))[0])[0][1]
    fill(table, 200_000, session=session)
    each = (table.memory_bytes - empty) / 200_000
    record_property("bytes_per_lease", round(each, 1))
    assert each < 150


def test_what_is_freed_is_used_again() -> None:
    """Leases of many sizes come and go, by every way out, with metadata and sessions; the table stops to grow."""
    table, now, grown = fresh(sweep_max=2**20), 0, []
    for _ in range(12):
        rng = random.Random(1)
        replies, _ = table.apply(batch([session_open(5_000, b"n" * rng.randrange(200)) for _ in range(1_500)], now, 1))
        sessions = [0, *(answer[1] for answer in decode_all(replies))]
        operations = [
            acquire(
                b"n%d" % i,
                i,
                lease_ms=rng.choice([1_000, 60_000]),
                min_ms=rng.choice([0, 1_000]),
                session=rng.choice(sessions),
                node=b"x" * rng.randrange(100),
                meta=b"m" * rng.choice([0, 0, 7, 900, 4_096]),
            )
            for i in range(1, 1_500)
        ]
        granted = decode_all(table.apply(batch(operations, now, 1))[0])
        endings = [release(b"n%d" % i, i, granted[i - 1][1], rng.randrange(5)) for i in range(1, 1_500, 3)]
        endings += [[6, ident(i), b"n%d" % i] for i in range(2, 1_500, 3)]
        endings += [[7, b"n%d" % i, None, bool(i % 2)] for i in range(3, 1_500, 6)]
        table.apply(batch(endings, now, 1))
        now += 100_000
        table.apply(batch([TICK], now, 1))
        assert (table.lease_count, table.session_count, table.next_deadline()) == (0, 0, -1)
        grown.append(table.memory_bytes)
    assert grown[1:] == [grown[1]] * 11


def test_growth_makes_nobody_wait__I7() -> None:
    """No single acquire pays for the growth of all: one that moved every slot at once would take 20 ms and more at this size."""
    table, full = fresh(), (1 << 20) * 13 // 16
    fill(table, full - 100)
    before, took = table.memory_bytes, []
    for operation in acquires(full - 100, 5_000):
        data = batch([operation], 0, 1)
        began = time.thread_time_ns()
        table.apply(data)
        took.append(time.thread_time_ns() - began)
    assert table.memory_bytes > before + (8 << 20), "this was to be the moment at which it grows"
    assert table.lease_count == full + 4_900
    # Not the very worst, which may be the machine's: a rehash at once would be all of it in one operation.
    assert sum(sorted(took)[-3:]) < 12_000_000, f"{[ns / 1e6 for ns in sorted(took)[-5:]]} ms"


def test_a_large_state_goes_through_its_snapshot__I6() -> None:
    table = fresh()
    fill(table, 300_000)
    snapshot = table.snapshot()
    other = LeaseTable(seed=7)
    other.restore(snapshot)
    assert other.snapshot() == snapshot
    tail = batch([release(NAME % i, i, i + 1) for i in range(0, 300_000, 1_000)], 0, 1)
    assert other.apply(tail) == table.apply(tail)
    assert other.snapshot() == table.snapshot()
