"""What one operation, one restore, a long life may cost: never more than in proportion to what there is.

Knows: operations, and how long and large things are. Must not know: how the table stores them. Times are compared within one run, and
only where they differ many times over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from cluster import limits
from cluster._table import LeaseTable
from tests.table.packing import batch, decode_all, pack
from tests.table.talk import EPOCH, EXPIRED, GRANTED, OK, acquire, acquire_all, ident, release

pytestmark = pytest.mark.fast


def fresh(**limits: int) -> LeaseTable:
    table = LeaseTable(**limits)
    table.apply(batch([EPOCH], 0, 1))
    return table


def ms_of(act: Callable[[], object]) -> float:
    began = time.process_time_ns()
    act()
    return (time.process_time_ns() - began) / 1e6


def claim(name: bytes, by: int, lease_ms: int) -> list[Any]:
    return acquire(name, by, lease_ms=lease_ms, max_leaders=limits.MAX_LEADERS_MAX, node=b"w")


NAMES = [b"n%d" % i for i in range(16)]


def with_lapsed(live: int, lapsed: int) -> LeaseTable:
    """Groups with live leases in the low slots and lapsed ones, which no sweep took, above them."""
    table = fresh(sweep_max=0)
    for name in NAMES:
        operations = [claim(name, by, 60_000) for by in range(live)]
        table.apply(batch(operations + [claim(name, by, 1_000) for by in range(live, live + lapsed)], 0, 1))
    return table


def ms_to_acquire_all(live: int, lapsed: int) -> float:
    took = []
    for _ in range(3):
        table = with_lapsed(live, lapsed)
        data = batch([acquire_all(NAMES, 9_999, max_leaders=limits.MAX_LEADERS_MAX)], 2_000, 1)
        took.append(ms_of(lambda table=table, data=data: table.apply(data)))  # type: ignore[misc]
        assert table.lease_count == len(NAMES) * (live + 1)
    return min(took)


def test_to_take_out_what_lapsed_costs_as_much_as_there_is__I7() -> None:
    """Live holders below lapsed ones were walked past once for each of those: 25 times the time."""
    among_live, alone = ms_to_acquire_all(512, 511), ms_to_acquire_all(1, 511)
    assert among_live < 10 * alone, f"{among_live:.2f} ms against {alone:.2f} ms"


def test_what_lapsed_among_the_living_is_told_by_slot_before_the_grant__I7() -> None:
    table = fresh(sweep_max=0)
    table.apply(batch([claim(b"job", by, 60_000 if by % 3 == 1 else 1_000 - by) for by in range(9)], 0, 1))
    replies, events = table.apply(batch([claim(b"job", 77, 60_000)], 2_000, 1))
    assert decode_all(replies)[0][:3] == [OK, 10, 0]
    told = [(event[0], event[2]) for event in decode_all(events)]
    assert told == [*((EXPIRED, slot) for slot in (0, 2, 3, 5, 6, 8)), (GRANTED, 0)]
    assert [row[1] for row in table.rows(b"job", 2_000)] == [0, 1, 4, 7]


def snapshot_of_groups(groups: int, size: int) -> bytes:
    table = fresh()
    for group in range(groups):
        table.apply(batch([claim(b"g%05d" % group, by, 60_000) for by in range(size)], 0, 1))
    return table.snapshot()


def test_a_restore_costs_as_much_as_there_is__I6() -> None:
    """Of large groups it took 65 times as long as of as many single names."""
    single, grouped = snapshot_of_groups(20_000, 1), snapshot_of_groups(20, 1_000)
    table = LeaseTable()
    ms_single = min(ms_of(lambda: table.restore(single)) for _ in range(3))
    ms_grouped = min(ms_of(lambda: table.restore(grouped)) for _ in range(3))
    assert table.snapshot() == grouped
    assert ms_grouped < 10 * ms_single, f"{ms_grouped:.1f} ms against {ms_single:.1f} ms"


@pytest.mark.parametrize("order", ["rising", "falling", "mixed"])
def test_a_restored_group_is_whole_in_whatever_order_its_slots_were_granted__I1_I6(order: str) -> None:
    slots = {"rising": range(100), "falling": range(99, -1, -1), "mixed": [i * 37 % 100 for i in range(100)]}[order]
    leases = [[ident(i), b"job", slot, i + 1, 0, 9_000, 9_000, 0, 101, 0, 0, b"w", b""] for i, slot in enumerate(slots)]
    state = [b"tenure table", 1, 1, 0, 200, b"", 0, 9_000, [], leases, 0, [], [], [], 1]
    table = LeaseTable()
    table.restore(pack(state))
    assert [row[1] for row in table.rows(b"job", 0)] == list(range(100))
    assert table.snapshot() == pack(state)
    replies, _ = table.apply(batch([acquire(b"job", 9_999, max_leaders=101)], 0, 1))
    assert decode_all(replies)[0][:3] == [OK, 200, 100]
    for place, value in ((2, slots[3]), (0, ident(3))):
        for one, other in ((3, 90), (3, 4)):
            broken = [list(lease) for lease in leases]
            broken[other][place] = value
            with pytest.raises(ValueError, match="not a snapshot"):
                LeaseTable().restore(pack([*state[:9], broken, *state[10:]]))
            # Whoever is over does not live: its id may stand twice. Its slot may not, until it is swept.
            broken[one][5:7] = [1_000, 1_000]
            late = [*state[:3], 2_000, *state[4:9], broken, *state[10:]]
            if place == 0:
                table.restore(pack(late))
                assert table.snapshot() == pack(late)
            else:
                with pytest.raises(ValueError, match="not a snapshot"):
                    table.restore(pack(late))


def test_infos_that_change_their_size_take_no_more_memory_than_some_times_the_most_there_was() -> None:
    table, most = fresh(), 0
    for size in range(limits.CANDIDATE_INFO_MAX_BYTES, 0, -64):
        operations = [[16, b"job", b"node%d" % i, 60_000, i.to_bytes(4, "big") * (size // 4)] for i in range(512)]
        assert {answer[0] for answer in decode_all(table.apply(batch(operations, 0, 1))[0])} == {OK}
        most = max(most, table.candidate_bytes)
    assert table.memory_bytes < 9 * most, f"{table.memory_bytes / most:.1f} times"


@pytest.mark.parametrize("what", ["metadata", "names"])
def test_leases_that_change_their_size_take_no_more_memory_than_some_times_the_most_there_was(what: str) -> None:
    table, token, most = fresh(), 1, 0
    before = table.memory_bytes
    largest = {"metadata": limits.METADATA_MAX_BYTES, "names": limits.NAME_MAX_BYTES}[what]
    count = {"metadata": 500, "names": 4_000}[what]
    for size in range(largest, 8, -largest // 60):
        if what == "names":
            names, meta = [b"%0*d" % (size, i) for i in range(count)], b""
        else:
            names, meta = [b"%08d" % i for i in range(count)], b"m" * size
        operations = [acquire(name, 1, lease_ms=60_000, meta=meta) for name in names]
        assert {answer[0] for answer in decode_all(table.apply(batch(operations, 0, 1))[0])} == {OK}
        # Each lease has about a hundred bytes beside its texts.
        most = max(most, sum(map(len, names)) + count * (100 + len(meta)))
        table.apply(batch([release(name, 1, token + i) for i, name in enumerate(names)], 0, 1))
        token += count
    assert table.lease_count == 0
    assert table.memory_bytes - before < 9 * most, f"{(table.memory_bytes - before) / most:.1f} times"
