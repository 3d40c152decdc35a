"""``python -m tests.sim --seed N``: play seeds and say what happened.

Knows: the command line. Must not know: how seeds are played, what is checked.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from contextlib import closing, suppress
from math import inf
from pathlib import Path

from tests.sim.campaign import SEED_LIMIT_S, Campaign, conduct, outcomes
from tests.sim.rounds import WORKS

WORKERS = 2


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds from there on")
    parser.add_argument("--hours", type=float, default=0.0, help="instead of --count: go on for so long")
    parser.add_argument(
        "--workers", type=int, default=None, help=f"processes; 0: this one; with --hours {WORKERS}, else 0"
    )
    parser.add_argument(
        "--results", type=Path, help="outcomes are appended to this file, and seeds that are in it not played again"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="simulated seconds with faults, for each seed")
    parser.add_argument(
        "--limit", type=float, default=SEED_LIMIT_S, help="a seed that takes a process longer, in seconds, hangs"
    )
    parser.add_argument("--nodes", type=int, default=0, help="0: as the seed says")
    parser.add_argument("--work", choices=sorted(WORKS), default="all", help="what the clients do")
    parser.add_argument(
        "--history", default="", metavar="FILE", help="where a failed seed's history goes; {seed} is its number"
    )
    parser.add_argument("--log", action="store_true", help="show the nodes' and clients' logs")
    args = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO if args.log else logging.CRITICAL + 1, format="%(name)s %(message)s")
    campaign = Campaign(args.results)
    workers = args.workers if args.workers is not None else WORKERS if args.hours else 0
    seeds = campaign.seeds(args.seed, None if args.hours else args.count)
    each = {"seconds": args.seconds, "nodes": args.nodes, "history": args.history, "work": args.work}
    jobs = ({"seed": seed, **each} for seed in seeds)
    until = time.monotonic() + args.hours * 3600 if args.hours else inf
    # Whoever interrupts it wants to know how far it came.
    with closing(outcomes(jobs, workers, args.limit)) as found, suppress(KeyboardInterrupt):
        conduct(campaign, found, args.seconds, args.nodes, args.work, until)
    if len(campaign.played) == 1:
        sys.stdout.write(f"log {campaign.fingerprint}\n")
    sys.stdout.write(campaign.summary())
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
