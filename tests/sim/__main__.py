"""``python -m tests.sim --seed N``: play seeds and say what happened.

Knows: how to play many seeds, on several cores. Must not know: what is checked.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

from tests.sim.coverage import NOT_MADE, not_covered, summary
from tests.sim.run import Verdict, run

CORES = 2


class Outcome(NamedTuple):
    seed: int
    verdict: Verdict | None
    failure: str


def play(seed: int, seconds: float, nodes: int, history: str) -> Outcome:
    """One seed; what went wrong is text."""
    try:
        return Outcome(
            seed, run(seed, seconds, nodes, history=Path(history.format(seed=seed)) if history else None), ""
        )
    except Exception:
        return Outcome(seed, None, traceback.format_exc())


def command(seed: int, seconds: float = 20.0, nodes: int = 0) -> str:
    """What plays this seed again."""
    return f"python -m tests.sim --seed {seed} --seconds {seconds:g} --nodes {nodes} --log"


def _quiet() -> None:
    logging.basicConfig(level=logging.CRITICAL + 1)


def _outcomes(args: argparse.Namespace) -> Iterator[Outcome]:
    work = partial(play, seconds=args.seconds, nodes=args.nodes, history=args.history)
    if not args.hours:
        yield from map(work, range(args.seed, args.seed + args.count))
        return
    until = time.monotonic() + args.hours * 3600
    with Pool(CORES, _quiet) as pool:
        for start in count(args.seed, CORES * 8):
            yield from pool.imap(work, range(start, start + CORES * 8))
            if time.monotonic() >= until:
                return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds from there on")
    parser.add_argument("--hours", type=float, default=0.0, help="instead of --count: go on for so long, on two cores")
    parser.add_argument("--seconds", type=float, default=20.0, help="simulated seconds with faults, for each seed")
    parser.add_argument("--nodes", type=int, default=0, help="0: as the seed says")
    parser.add_argument(
        "--history", default="", metavar="FILE", help="where a failed seed's history goes; {seed} is its number"
    )
    parser.add_argument("--log", action="store_true", help="show the nodes' and clients' logs")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO if args.log else logging.CRITICAL + 1, format="%(name)s %(message)s")
    total: Counter[str] = Counter()
    simulated, played, failed, began = 0.0, 0, [], time.perf_counter()
    for seed, verdict, failure in _outcomes(args):
        played += 1
        if verdict is None:
            failed.append(seed)
            sys.stdout.write(f"seed {seed} FAILED; again: {command(seed, args.seconds, args.nodes)}\n{failure}")
            sys.stdout.flush()
            continue
        if args.count == 1 and not args.hours:
            sys.stdout.write(f"log {verdict.fingerprint}\n")
        simulated += verdict.seconds
        total += verdict.counts
    for what, number in summary(total):
        sys.stdout.write(f"{number:8} {what}\n")
    sys.stdout.write("".join(f"not covered: {what}\n" for what in [*not_covered(total), *NOT_MADE]))
    took = time.perf_counter() - began
    sys.stdout.write(
        f"{played} seeds, {simulated:.0f} simulated seconds in {took:.1f} s, {len(failed)} failed {failed or ''}\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
