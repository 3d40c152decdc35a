"""``python -m tests.fuzz [--seconds N] [--seed S] [TARGET …]``: give mutated bytes to the readers until one does what it must not.

Knows: the targets by name. Must not know: what they read.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.fuzz.engine import Found, fuzz
from tests.fuzz.targets import TARGETS


def _lasting(seconds: float) -> Callable[[int], bool]:
    until = time.monotonic() + seconds
    return lambda runs: time.monotonic() >= until


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the readers of bytes from strangers and disks.")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each target [10]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all if none is named")
    found = parser.parse_args()
    status = 0
    for name in found.targets or TARGETS:
        if name not in TARGETS:
            parser.error(f"there is no target {name!r}; there are {', '.join(TARGETS)}")
        try:
            report = fuzz(TARGETS[name], found.seed, _lasting(found.seconds))
        except Found as error:
            sys.stdout.write(f"{error}\n  {error.__cause__!r}\n")
            status = 1
            continue
        sys.stdout.write(f"{name}: {report.runs} inputs, {report.kept} kept, {report.features} features, nothing found\n")
        sys.stdout.flush()
    return status


if __name__ == "__main__":
    sys.exit(main())
