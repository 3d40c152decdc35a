"""The tests of the table are themselves tested: a model that is wrong in one rule must be found out."""

from __future__ import annotations

import random

import pytest

from cluster._table import LeaseTable
from tests.table import mutants, mutants_candidates, mutants_records
from tests.table.model import Model
from tests.table.scripts import Author, Machine, Stage, perform

SCRIPTS = 60
WRITES_MAX = 3


def objection_to(make: type[Model], seed: int, kind: tuple[int, int, int], *, beside_the_table: bool) -> str:
    """What one script has against it; empty if nothing."""
    records, candidates, sweep_max = kind
    rng = random.Random(seed)
    machines: list[Machine] = [make(sweep_max=sweep_max, writes_max=WRITES_MAX)]
    if beside_the_table:
        machines.insert(0, LeaseTable(sweep_max=sweep_max, writes_max=WRITES_MAX))
    author = Author(rng, names=rng.choice([1, 2, 3]), ops_max=rng.choice([1, 5]), records=records)
    author.candidates = candidates
    try:
        perform(Stage(machines, sweep_max), author, 60)
    except AssertionError as objection:
        return str(objection)
    return ""


def first_objection(make: type[Model], *, beside_the_table: bool) -> str:
    """What the first script that shows the mistake says; empty if none does. Scripts of leases alone, with records, and with candidates."""
    kinds = [(0, 0, 3), (40, 0, 1), (0, 60, 3)]
    first = kinds[1 if make in mutants_records.ALL else 2 if make in mutants_candidates.ALL else 0]
    for kind in sorted(kinds, key=lambda kind: kind != first):
        for seed in range(SCRIPTS):
            found = objection_to(make, seed, kind, beside_the_table=beside_the_table)
            if found:
                return found
    return ""


@pytest.mark.parametrize("mutant", mutants.ALL)
def test_the_comparison_finds_every_mutant(mutant: type[Model]) -> None:
    assert first_objection(mutant, beside_the_table=True)


@pytest.mark.parametrize("mutant", mutants.BREAKS_AN_INVARIANT)
def test_the_witness_alone_finds_what_breaks_an_invariant(mutant: type[Model]) -> None:
    objection = first_objection(mutant, beside_the_table=False)
    assert mutants.BREAKS_AN_INVARIANT[mutant] in objection


def test_the_right_model_is_not_objected_to() -> None:
    assert first_objection(Model, beside_the_table=True) == ""
    assert first_objection(Model, beside_the_table=False) == ""
