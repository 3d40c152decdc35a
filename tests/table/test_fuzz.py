"""Bytes that nobody meant: every batch is answered, every snapshot is taken whole or not at all, and nothing crashes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster._table import LeaseTable
from tests.table.invariants import State, Witness, check_state
from tests.table.model import Model
from tests.table.packing import batch, decode, pack
from tests.table.scripts import Author, Stage, perform
from tests.table.talk import EPOCH


def crowded(rng: random.Random) -> tuple[LeaseTable, Author]:
    """A table with a history, and who wrote it."""
    table = LeaseTable()
    author = Author(rng, names=6, ops_max=8)
    perform(Stage([table]), author, 25)
    return table, author


def damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(changed) + 1)
        how = rng.randrange(4)
        if how == 0:
            changed[at : at + 1] = bytes([rng.randrange(256)])
        elif how == 1:
            del changed[at : at + rng.choice([1, 1, 3, 20])]
        elif how == 2:
            changed[at:at] = bytes(
                rng.choice([0, 1, 0x7F, 0x90, 0xC4, 0xCF, 0xDD, 0xFF]) for _ in range(rng.choice([1, 4]))
            )
        elif changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def play_damaged_batches(seed: int, count: int) -> None:
    rng = random.Random(seed)
    table, author = crowded(rng)
    model = Model()
    model.restore(table.snapshot())
    witness = Witness(table.snapshot(), 1_024)
    for _ in range(count):
        data = damaged(author.next_batch(), rng)
        outcome = table.apply(data)
        assert outcome == model.apply(data), f"seed {seed}: {data.hex()}"
        witness.saw(data, *outcome, table.snapshot())


def restore_damaged_states(seed: int, count: int) -> int:
    """How many of them were taken. Those must keep the invariants, and go on like the model."""
    rng = random.Random(seed)
    table, author = crowded(rng)
    intact = table.snapshot()
    taken = 0
    for _ in range(count):
        data = damaged(intact, rng) if rng.randrange(2) else with_one_value_changed(intact, rng)
        before = table.snapshot()
        try:
            table.restore(data)
        except ValueError:
            assert table.snapshot() == before, "a refused snapshot left its mark"
            continue
        taken += 1
        check_state(State(table.snapshot()))
        go_on(table, author)
    return taken


def with_one_value_changed(snapshot: bytes, rng: random.Random) -> bytes:
    state: list[Any] = decode(snapshot)[0]
    row = rng.choice([state, *state[8], *state[9], *state[11], *state[12]])
    at = rng.choice([*range(8), 10]) if row is state else rng.randrange(len(row))
    if isinstance(row[at], int):
        row[at] = max(
            0,
            rng.choice(
                [row[at] + 1, row[at] - 1, row[at] + 100, row[at] - 100, 0, 1, 2, 3, 2**32, 2**53, 2**63, 2**64 - 1]
            ),
        )
    else:
        row[at] = rng.choice([b"", row[at] + b"a", row[at][:-1], bytes(16), b"n1"])
    if rng.randrange(10) == 0:
        rng.shuffle(state[9])
    return pack(state)


def go_on(table: LeaseTable, author: Author) -> None:
    model = Model()
    model.restore(table.snapshot())
    stage = Stage([table, model])
    author.epoch = table.epoch
    author.stamp = table.time_ms
    for _ in range(5):
        author.heard(stage.play(author.next_batch())[0])


@pytest.mark.fast
@given(st.binary(max_size=300))
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
def test_any_bytes_are_answered__I7(data: bytes) -> None:
    for table in (LeaseTable(), crowded(random.Random(1))[0]) if len(data) > 250 else (LeaseTable(),):
        before = table.snapshot()
        replies, events = table.apply(data)
        if len(data) < 24:
            assert (replies, events, table.snapshot()) == (b"", b"", before)


@given(st.lists(st.binary(max_size=60), max_size=8), st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
def test_any_bytes_in_place_of_operations_are_answered_as_the_model_does__I7(
    operations: list[bytes], stamp: int
) -> None:
    stage = Stage([LeaseTable(), Model()])
    stage.play(batch([EPOCH], 0, 1))
    stage.play(batch(operations, stamp, 1))


@pytest.mark.fast
@given(st.binary(max_size=300))
@settings(max_examples=300, derandomize=True, database=None, deadline=None)
def test_any_bytes_are_refused_as_a_snapshot(data: bytes) -> None:
    table = LeaseTable()
    with pytest.raises(ValueError, match="not a snapshot"):
        table.restore(data)


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(4))
def test_damaged_batches_are_answered_as_the_model_does__I7(seed: int) -> None:
    play_damaged_batches(seed, 400)


def test_a_damaged_snapshot_is_taken_whole_or_not_at_all__I6() -> None:
    assert sum(restore_damaged_states(seed, 150) for seed in range(8)) > 100


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_damaged_batches_and_snapshots__I6_I7(seed: int) -> None:
    play_damaged_batches(seed, 10_000)
    for more in range(10):
        restore_damaged_states(seed * 100 + more, 400)
