"""Nodes and clients in virtual time, under faults that are drawn from a seed. `python -m tests.sim --seed N` plays one by hand."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.campaign import command
from tests.sim.coverage import not_covered
from tests.sim.run import run

DEFAULT_SEEDS = 200
"""Of the default tier. The first ones are played for long, the others for a few seconds: it is in its begin that seeds differ most."""
LONG_UNTIL = 23
SHORT_S = 5.0
LONG_SEEDS = 2_000
COVERING_SEEDS = 500
"""So many together meet every kind of fault in every role that matters. The first 86 did, when it was looked at."""
CHUNK = 5
ROOT = Path(__file__).parents[2]
_FINGERPRINTS = "from tests.sim.run import run; print(*[run(seed, 6.0).fingerprint for seed in ({seeds})])"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def play(first: int, count: int, history: Path, seconds: float = 20.0, work: str = "all") -> Counter[str]:
    """What was counted in all of them."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        written = history / f"history-{seed}.jsonl"
        try:
            counts += run(seed, seconds, history=written, work=work).counts
        except Exception as failure:
            pytest.fail(f"{failure}\nagain: {command(seed, seconds, work=work)}\nhistory: python -m tests.history {written}")
    return counts


@pytest.mark.fast
def test_three_seeds(tmp_path: Path) -> None:
    play(0, 3, tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(3, LONG_UNTIL, CHUNK))
def test_seeds(first: int, tmp_path: Path) -> None:
    play(first, min(CHUNK, LONG_UNTIL - first), tmp_path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(LONG_UNTIL, DEFAULT_SEEDS, 4 * CHUNK))
def test_seeds_for_a_short_while(first: int, tmp_path: Path) -> None:
    play(first, min(4 * CHUNK, DEFAULT_SEEDS - first), tmp_path, SHORT_S)


@pytest.mark.timeout(300)
def test_seeds_whose_clients_work_on_records_only__I10(tmp_path: Path) -> None:
    play(0, CHUNK, tmp_path, work="records")


@pytest.mark.timeout(300)
def test_seeds_whose_clients_run_electors_only__I8(tmp_path: Path) -> None:
    play(0, 2 * CHUNK, tmp_path, SHORT_S, work="electors")


@pytest.mark.timeout(300)
def test_seeds_whose_clients_give_up_most_of_what_they_ask_for__C4__C10(tmp_path: Path) -> None:
    play(0, 2 * CHUNK, tmp_path, SHORT_S, work="impatient")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, LONG_SEEDS // 4, 100))
def test_many_seeds_whose_clients_give_up_most_of_what_they_ask_for__C4__C10(first: int, tmp_path: Path) -> None:
    play(first, 100, tmp_path, work="impatient")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, LONG_SEEDS // 4, 100))
def test_many_seeds_whose_clients_run_electors_only__I8(first: int, tmp_path: Path) -> None:
    play(first, 100, tmp_path, work="electors")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(0, LONG_SEEDS, COVERING_SEEDS))
def test_many_seeds_and_every_kind_of_fault_when_something_is_at_stake(first: int, tmp_path: Path) -> None:
    assert not_covered(play(first, COVERING_SEEDS, tmp_path)) == []


def _fingerprints(hash_seed: int, *seeds: int) -> list[str]:
    code = _FINGERPRINTS.format(seeds="".join(f"{seed}," for seed in seeds))
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    played = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return played.stdout.split()


@pytest.mark.timeout(300)
def test_a_seed_plays_the_same_in_every_process_and_after_others() -> None:
    one = _fingerprints(1, 5, 6)
    other = _fingerprints(2, 6, 5)
    assert len(set(one)) == 2
    assert other == one[::-1]
