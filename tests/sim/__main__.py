"""``python -m tests.sim --seed N``: play seeds and say what happened."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections import Counter

from tests.sim.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds from there on")
    parser.add_argument("--seconds", type=float, default=20.0, help="simulated seconds with faults, for each seed")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--log", action="store_true", help="show the nodes' and clients' logs")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO if args.log else logging.CRITICAL + 1, format="%(name)s %(message)s")
    total: Counter[str] = Counter()
    simulated, failed, began = 0.0, [], time.perf_counter()
    for seed in range(args.seed, args.seed + args.count):
        try:
            verdict = run(seed, args.seconds, args.nodes)
        except Exception:
            failed.append(seed)
            again = f"python -m tests.sim --seed {seed} --seconds {args.seconds:g} --nodes {args.nodes} --log"
            sys.stdout.write(f"seed {seed} FAILED; again: {again}\n")
            traceback.print_exc(file=sys.stdout)
            continue
        if args.count == 1:
            sys.stdout.write(f"log {verdict.fingerprint}\n")
        simulated += verdict.seconds
        total += verdict.counts + verdict.events
    for what, count in sorted(total.items()):
        sys.stdout.write(f"{count:8} {what}\n")
    took = time.perf_counter() - began
    sys.stdout.write(f"{args.count} seeds, {simulated:.0f} simulated seconds in {took:.1f} s, {len(failed)} failed {failed or ''}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
