"""The simulation is itself tested: with a rule of the design broken it must find a violation. All mutants: `python -m tests.sim.hunt`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.sim.hunt import ALL, first_seed
from tests.sim.known import ELSEWHERE, FOUND_AT
from tests.sim.model_table import in_place
from tests.sim.run import run
from tests.table.model import Model

QUICK = ("clock base renewed at every batch", "deadline counted from the receipt", "fsync skipped", "apply twice")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_every_mutant_is_accounted_for() -> None:
    assert set(ALL) == set(FOUND_AT) | set(ELSEWHERE)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_what_is_shown_elsewhere_is_there(name: str) -> None:
    path, _, test = ELSEWHERE[name][1].partition("::")
    module = import_module(path.removesuffix(".py").replace("/", "."))
    assert callable(getattr(module, test))


def test_the_unbroken_model_runs_clean() -> None:
    for seed in range(3):
        with in_place(Model):
            run(seed)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", QUICK)
def test_a_mutant_is_found(name: str) -> None:
    assert first_seed(name, 20, max(0, FOUND_AT[name] - 10)) is not None


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(FOUND_AT))
def test_every_mutant_is_found(name: str) -> None:
    assert first_seed(name) is not None
