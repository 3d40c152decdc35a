"""A frozen table gives the snapshot of its moment, whatever the table does meanwhile, on any thread."""

from __future__ import annotations

import copy
import random
import threading

import pytest

from cluster._table import FrozenTable, LeaseTable
from tests.table.packing import batch
from tests.table.scripts import Author, Stage, perform
from tests.table.talk import EPOCH, acquire, release

pytestmark = pytest.mark.fast


def filled(count: int) -> LeaseTable:
    table = LeaseTable()
    table.apply(batch([EPOCH], 0, 1))
    for start in range(0, count, 1_000):
        numbers = range(start, min(start + 1_000, count))
        table.apply(batch([acquire(b"name-%d" % number, number + 1) for number in numbers], 1_000, 1))
    return table


def test_it_is_the_snapshot_of_its_moment__I6() -> None:
    table = filled(5_000)
    before = table.snapshot()
    frozen = table.freeze()
    table.apply(batch([acquire(b"other-%d" % number, number + 9_000) for number in range(5_000)], 500_000_000, 1))
    assert table.snapshot() != before
    assert frozen() == before
    del table
    assert frozen() == before


def test_of_an_empty_table_and_while_the_index_grows() -> None:
    assert LeaseTable().freeze()() == LeaseTable().snapshot()
    table = filled(0)
    for number in range(400):
        table.apply(batch([acquire(b"n%d" % number, number + 1)], 1, 1))
        assert table.freeze()() == table.snapshot()


@pytest.mark.parametrize("seed", range(10))
def test_at_every_step_of_a_random_script__I6(seed: int) -> None:
    table = LeaseTable()
    stage, author = Stage([table]), Author(random.Random(seed))
    for _ in range(60):
        perform(stage, author, 1)
        assert table.freeze()() == table.snapshot()


def test_writing_it_leaves_the_interpreter_to_others() -> None:
    table = filled(100_000)
    frozen = table.freeze()
    expected = table.snapshot()
    made: list[bytes] = []
    writer = threading.Thread(target=lambda: made.extend(frozen() for _ in range(5)))
    writer.start()
    turns = 0
    while writer.is_alive():
        turns += 1
    writer.join()
    assert made == [expected] * 5
    assert turns > 100


def test_it_is_not_copied_or_pickled() -> None:
    with pytest.raises(TypeError, match="not pickled or copied"):
        copy.copy(FrozenTable())


def test_releases_meanwhile_do_not_touch_it() -> None:
    table = filled(3_000)
    before, frozen, first = table.snapshot(), table.freeze(), table.next_token - 3_000
    table.apply(batch([release(b"name-%d" % number, number + 1, first + number) for number in range(3_000)], 1_000, 1))
    assert table.lease_count == 0
    assert frozen() == before
