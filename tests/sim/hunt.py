"""``python -m tests.sim.hunt [NAME …]``: which seed is the first to show each mutant.

Knows: the mutants, how to play seeds on both cores. Must not know: what is checked.
"""

from __future__ import annotations

import argparse
import logging
import sys
from multiprocessing import Pool

from tests.sim import mutants, mutants_raft
from tests.sim.model_table import in_place
from tests.sim.run import run
from tests.table.model import Model

SEEDS_MAX = 500
ALL: dict[str, mutants.Mutant] = {**mutants.MUTANTS, **mutants_raft.MUTANTS}


def first_seed(name: str, seeds: int = SEEDS_MAX, first: int = 0) -> tuple[int, str] | None:
    """The first seed that shows the mutant, and what it shows; None: none does."""
    for seed in range(first, first + seeds):
        try:
            with ALL[name]():
                run(seed)
        except Exception as shown:
            return seed, f"{type(shown).__name__}: {shown}".partition("\n")[0]
    return None


def _hunt(job: tuple[str, int, int]) -> tuple[str, tuple[int, str] | None]:
    logging.basicConfig(level=logging.CRITICAL + 1)
    name, seeds, first = job
    return name, first_seed(name, seeds, first)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.hunt", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants; parts of their names are enough")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--clean", type=int, default=0, help="play so many seeds of the unbroken model first")
    args = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL + 1)
    for seed in range(args.clean):
        with in_place(Model):
            run(seed)
    names = [name for name in ALL if not args.names or any(part in name for part in args.names)]
    missed = 0
    with Pool(2) as pool:
        for name, found in pool.imap(_hunt, [(name, args.seeds, args.first) for name in names]):
            missed += found is None
            sys.stdout.write(f"{name:50} {'not found' if found is None else f'seed {found[0]}: {found[1][:220]}'}\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
