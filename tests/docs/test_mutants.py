"""The tables of mutants in docs/testing.md say what the hunt is told.

Knows: the two tables, the mutants and where each is known to be shown. Must not know: what a mutant does.
"""

from __future__ import annotations

import pytest

from tests.house import read
from tests.sim.hunt import WORK_OF
from tests.sim.known import ELSEWHERE, FOUND_AT

pytestmark = pytest.mark.fast

MARKS = {"all": "", "records": " †", "electors": " ‡", "impatient": " §"}


def rows(head: str) -> list[list[str]]:
    """The table that begins with this line."""
    _, found, table = read("docs/testing.md").partition(head + "\n|---|---|---|\n")
    assert found
    return [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()]


def test_the_table_of_mutants_that_are_found_is_what_is_known() -> None:
    told = [(name, seed) for name, seed, seen in rows("| mutant | seed | what is seen |") if seen]
    known = {name: f"{seed}{MARKS[WORK_OF.get(name, 'all')]}" for name, (seed, _) in FOUND_AT.items()}
    assert len(told) == len(known)
    assert dict(told) == known


def test_the_table_of_mutants_that_are_shown_elsewhere_is_what_is_known() -> None:
    told = {name: (why, test) for name, why, test in rows("| mutant | why | shown by |")}
    known = {name: (why, "`{}`: `{}`".format(*test.split("::"))) for name, (why, test) in ELSEWHERE.items()}
    assert told == known
