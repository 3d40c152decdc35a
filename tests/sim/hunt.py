"""``python -m tests.sim.hunt [NAME …]``: which seed is the first to show each mutant.

Knows: the mutants, how to play seeds on both cores, by what each is to be recognised. Must not know: what is checked.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from tests.sim import (
    crew,
    mutants,
    mutants_candidates,
    mutants_electors,
    mutants_impatient,
    mutants_raft,
    mutants_records,
)
from tests.sim.campaign import SEED_LIMIT_S
from tests.sim.known import FOUND_AT
from tests.sim.run import run

SEEDS_MAX = 500
ALL: dict[str, mutants.Mutant] = {
    **mutants.MUTANTS,
    **mutants_raft.MUTANTS,
    **mutants_records.MUTANTS,
    **mutants_candidates.MUTANTS,
    **mutants_electors.MUTANTS,
    **mutants_impatient.MUTANTS,
}
WORK_OF = {
    **mutants_records.WORK_OF,
    **dict.fromkeys(mutants_electors.MUTANTS, "electors"),
    **dict.fromkeys(mutants_impatient.MUTANTS, "impatient"),
    "requests of another epoch accepted": "impatient",
}


class BrokenMutant(AssertionError):
    """A mutant showed something else than the rule that it breaks: it may merely have crashed."""


def shown(name: str, seed: int) -> str | None:
    """What this seed shows under this mutant: type and text of what is raised, in one line; None: nothing."""
    try:
        with ALL[name]():
            run(seed, work=WORK_OF.get(name, "all"))
    except Exception as raised:
        return " ".join(f"{type(raised).__name__}: {raised}".split())
    return None


def is_expected(name: str, text: str) -> bool:
    """Whether this is the sign by which the mutant is known; of one that the simulation is not known to show, any violation."""
    return re.match(FOUND_AT[name][1] if name in FOUND_AT else "Violation: ", text) is not None


def first_seed(name: str, seeds: int = SEEDS_MAX, first: int = 0) -> tuple[int, str] | None:
    """The first seed that shows the mutant, and what it shows; None: none does.

    Raises:
        BrokenMutant: something else was shown.
    """
    for seed in range(first, first + seeds):
        text = shown(name, seed)
        if text is not None:
            if not is_expected(name, text):
                raise BrokenMutant(f"{name!r} shows at seed {seed} what is not its sign in tests/sim/known.py: {text}")
            return seed, text
    return None


def work(job: dict[str, Any]) -> str | None:
    """In a child: one seed under one mutant."""
    logging.disable(logging.CRITICAL)
    return shown(job["name"], job["seed"])


def hunt(names: list[str], seeds: int, cores: int) -> Iterator[tuple[str, tuple[int, str] | None]]:
    """Each mutant once: as soon as it is found, or at the end. All mutants get their first seeds before any gets more."""
    left = dict.fromkeys(names)
    jobs = ({"name": name, "seed": seed} for seed in range(seeds) for name in names if name in left)
    with closing(crew.Crew(crew.command_of("tests.sim.hunt", "work"), cores, SEED_LIMIT_S).run(jobs)) as all_done:
        for done in all_done:
            name = done.job["name"]
            if done.trouble:
                raise RuntimeError(f"seed {done.job['seed']} of {name!r}: {done.trouble}")
            found = done.answer
            if found is not None and name in left:
                del left[name]
                yield name, (done.job["seed"], found)
    for name in left:
        yield name, None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.hunt", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants; parts of their names are enough")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--cores", type=int, default=2)
    args = parser.parse_args()
    names = [name for name in ALL if not args.names or any(part in name for part in args.names)]
    wrong = 0
    for name, found in hunt(names, args.seeds, args.cores):
        good = found is not None and is_expected(name, found[1])
        wrong += not good
        what = "not found" if found is None else f"{'' if good else 'BROKEN, '}seed {found[0]}: {found[1][:220]}"
        sys.stdout.write(f"{name:50} {what}\n")
        sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
