"""The compiled module as Python sees it."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from cluster import _table, limits
from cluster._table import LEVEL, LIMITS, LeaseTable

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.fast


def test_the_limits_of_the_format_are_those_of_the_product() -> None:
    assert {name: getattr(limits, name) for name in LIMITS} == LIMITS


def test_every_limit_of_the_format_is_compiled_in() -> None:
    text = (ROOT / "cluster" / "limits.py").read_text(encoding="utf-8")
    of_the_format = text.split("# Of the replicated format", 1)[1].split("\n\n", 1)[0]
    names = [line.split(":")[0] for line in of_the_format.splitlines() if ": Final" in line]
    assert sorted(names) == sorted(LIMITS)


def test_the_level_is_that_of_a_fresh_table() -> None:
    assert LeaseTable().level == LEVEL == 1


def test_a_fresh_table_is_empty() -> None:
    table = LeaseTable()
    assert (table.time_ms, table.epoch, table.next_token, table.cluster_id) == (0, 0, 1, b"")
    assert (table.lease_count, table.session_count, table.next_deadline()) == (0, 0, -1)


@pytest.mark.parametrize("wrong", [None, "text", 5, bytearray(30), memoryview(b"x" * 30)])
def test_batches_and_snapshots_are_bytes(wrong: Any) -> None:
    table = LeaseTable()
    for method in (table.apply, table.restore):
        with pytest.raises(TypeError):
            method(wrong)


def test_what_it_shows_cannot_be_set() -> None:
    table: Any = LeaseTable()
    for name in ("time_ms", "epoch", "level", "next_token", "lease_count", "session_count", "cluster_id", "anything"):
        with pytest.raises(AttributeError):
            setattr(table, name, 1)


def test_a_table_is_not_pickled_or_copied_without_its_state() -> None:
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="snapshot"):
            attempt(LeaseTable())


def test_limits_can_only_be_lowered() -> None:
    for wrong in ({"leases_max": limits.LEASES_MAX + 1}, {"sessions_max": limits.SESSIONS_MAX + 1}):
        with pytest.raises(ValueError, match="at most"):
            LeaseTable(**wrong)


def test_any_integer_is_a_seed() -> None:
    for seed in (0, -1, 2**64, 2**200):
        assert LeaseTable(seed=seed).snapshot() == LeaseTable().snapshot()


def test_every_public_thing_says_what_it_is() -> None:
    public = [_table, LeaseTable, *[getattr(LeaseTable, name) for name in dir(LeaseTable) if not name.startswith("_")]]
    assert len(public) > 12
    assert all(thing.__doc__ for thing in public)
