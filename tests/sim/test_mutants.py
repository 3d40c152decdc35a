"""The simulation is itself tested: with a rule of the design broken it must find a violation. All mutants: `python -m tests.sim.hunt`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module

import pytest

from cluster.raft.adapter import Adapter
from cluster.raft.commit import Poison
from tests.sim import mutants_raft
from tests.sim.hunt import ALL, BrokenMutant, first_seed
from tests.sim.known import ELSEWHERE, FOUND_AT
from tests.sim.model_table import in_place
from tests.sim.mutants import replaced
from tests.sim.run import run
from tests.table.model import Model

QUICK = ("clock base renewed at every batch", "deadline counted from the receipt", "fsync skipped", "apply twice")
ABILITIES = {"Lifecycle", "Preference", "SnapSend", "Compaction"}
"""Pieces of the adapter that make up for no hazard."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_every_mutant_is_accounted_for() -> None:
    assert set(ALL) == set(FOUND_AT) | set(ELSEWHERE)


def test_every_mend_of_the_engine_is_left_out_in_a_mutant() -> None:
    mends = {piece.__name__ for piece in Adapter.__bases__} - ABILITIES
    assert {f"without {mend.lower()}" for mend in mends} <= set(mutants_raft.MUTANTS)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_what_is_shown_elsewhere_is_there(name: str) -> None:
    path, _, test = ELSEWHERE[name][1].partition("::")
    function, _, case = test.removesuffix("]").partition("[")
    shows = getattr(import_module(path.removesuffix(".py").replace("/", ".")), function)
    assert callable(shows)
    if case:
        assert case in [each for mark in shows.pytestmark for each in mark.kwargs.get("ids", ())]
        assert case.lower().startswith(name.replace(" and ", "").replace(" ", "") + "-"), (
            "it leaves out this piece and no other"
        )


def test_a_mutant_that_merely_crashes_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    # It breaks no rule, but names what is not there.
    crash = replaced(Poison, "_hand_over", lambda stock: lambda self, *args: self.no_longer_there(*args))
    monkeypatch.setitem(ALL, "apply twice", crash)
    with pytest.raises(BrokenMutant, match=r"'apply twice' shows at seed 0 what is not its sign .*no_longer_there"):
        first_seed("apply twice", 3)


def test_the_unbroken_model_runs_clean() -> None:
    for seed in range(3):
        with in_place(Model):
            run(seed)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_found(name: str) -> None:
    assert first_seed(name, 20, max(0, FOUND_AT[name][0] - 10)) is not None


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(FOUND_AT))
def test_every_mutant_is_found(name: str) -> None:
    assert first_seed(name) is not None
