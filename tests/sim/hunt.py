"""``python -m tests.sim.hunt [NAME …]``: which seed is the first to show each mutant.

Knows: the mutants, how to play seeds on both cores. Must not know: what is checked.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from itertools import pairwise
from multiprocessing import Pool

from tests.sim import mutants, mutants_raft
from tests.sim.run import run

SEEDS_MAX = 500
ROUNDS = (0, 8, 40, 150, SEEDS_MAX)
"""All mutants get their first seeds before any gets more."""
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
    name, seeds, first = job
    return name, first_seed(name, seeds, first)


def _quiet() -> None:
    logging.basicConfig(level=logging.CRITICAL + 1)


def hunt(names: list[str], seeds: int, cores: int) -> Iterator[tuple[str, tuple[int, str] | None]]:
    """Each mutant once: as soon as it is found, or at the end."""
    with Pool(cores, _quiet) as pool:
        left = names
        for begin, end in pairwise(ROUNDS):
            jobs = [(name, min(end, seeds) - begin, begin) for name in left if seeds > begin]
            missed = []
            for name, found in pool.imap_unordered(_hunt, jobs):
                if found is None:
                    missed.append(name)
                else:
                    yield name, found
            left = missed or ([] if jobs else left)
    for name in left:
        yield name, None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.hunt", description=__doc__)
    parser.add_argument("names", nargs="*", help="mutants; parts of their names are enough")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    parser.add_argument("--cores", type=int, default=2)
    args = parser.parse_args()
    names = [name for name in ALL if not args.names or any(part in name for part in args.names)]
    missed = 0
    for name, found in hunt(names, args.seeds, args.cores):
        missed += found is None
        sys.stdout.write(f"{name:50} {'not found' if found is None else f'seed {found[0]}: {found[1][:220]}'}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
