"""Rules of candidates (F4, F5), each broken in the running code; see ``mutants``.

Knows: where each rule stands in the code. Must not know: how a mistake is found.
"""

from __future__ import annotations

from tests.sim.model_table import in_place
from tests.sim.mutants import Mutant
from tests.table.mutants_candidates import EveryTurnIsNow, RegisteringAgainWipesCounters, RevisionUnchecked

MUTANTS: dict[str, Mutant] = {
    "claim against another view granted": lambda: in_place(RevisionUnchecked),
    "claim before its turn granted": lambda: in_place(EveryTurnIsNow),
    "counters wiped by registering again": lambda: in_place(RegisteringAgainWipesCounters),
}
