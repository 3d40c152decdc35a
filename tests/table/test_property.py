"""The compiled table against the model, on random scripts: answers, events and state, byte by byte, after every batch.

Three machines play each script: the table, the model, and a table with another seed; one of them is now and then replaced by what its own
snapshot says. A witness of I1 to I7 and I10 looks on.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster import limits
from cluster._table import LeaseTable
from tests.table.model import Model
from tests.table.scripts import Author, Machine, Stage, perform

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def play(rng: random.Random, batches: int) -> None:
    """One script. Small limits make their edges come up."""
    small = {
        "leases_max": rng.choice([4, 12, limits.LEASES_MAX]),
        "text_max": rng.choice([40, 100, limits.LEASES_TEXT_MAX_BYTES, limits.LEASES_TEXT_MAX_BYTES]),
        "sessions_max": rng.choice([2, 4, limits.SESSIONS_MAX]),
        "sweep_max": rng.choice([1, 2, 3, limits.SWEEP_MAX_PER_BATCH]),
        "records_max": rng.choice([1, 2, limits.RECORDS_MAX]),
        "records_bytes_max": rng.choice([20, 50, limits.RECORDS_MAX_BYTES, limits.RECORDS_MAX_BYTES]),
        "writes_max": rng.choice([1, 2, 4, limits.RECORD_WRITES_KEPT]),
        "candidates_max": rng.choice([1, 3, limits.CANDIDATES_MAX, limits.CANDIDATES_MAX]),
        "candidates_bytes_max": rng.choice([30, 60, limits.CANDIDATES_MAX_BYTES, limits.CANDIDATES_MAX_BYTES]),
    }
    author = Author(rng, names=rng.choice([1, 2, 3, 8]), ids=rng.choice([2, 4, 8]), ops_max=rng.choice([1, 5, 12]))
    author.records = rng.choice([0, 20, 60])
    author.candidates = rng.choice([0, 15, 60])
    machines: list[Machine] = [LeaseTable(**small), Model(**small), LeaseTable(seed=rng.randrange(2**64), **small)]
    stage = Stage(machines, small["sweep_max"])
    perform(stage, author, batches)


@pytest.mark.fast
@given(st.randoms(use_true_random=False))
@settings(max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=QUIET)
def test_table_and_model_agree_on_short_scripts__I1_to_I7_I10(rng: random.Random) -> None:
    play(rng, 10)


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(3))
def test_table_and_model_agree__I1_to_I7_I10(seed: int) -> None:
    for script in range(20):
        play(random.Random(seed * 1_000 + script), 60)


@pytest.mark.parametrize("seed", range(10, 14))
def test_table_and_model_agree_on_long_scripts__I1_to_I7_I10(seed: int) -> None:
    for script in range(10):
        play(random.Random(seed * 1_000 + script), 400)


@pytest.mark.long
@pytest.mark.timeout(900)
@given(st.randoms(use_true_random=False))
@settings(max_examples=2_000, derandomize=True, database=None, deadline=None, suppress_health_check=QUIET)
def test_table_and_model_agree_on_many_short_scripts__I1_to_I7_I10(rng: random.Random) -> None:
    play(rng, 20)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
def test_table_and_model_agree_on_many_scripts__I1_to_I7_I10(seed: int) -> None:
    for script in range(300):
        play(random.Random(seed * 1_000 + script), 100)
