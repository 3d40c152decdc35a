"""One worker of the demo: contends for a job, and writes down each run.

Knows: the client, its own log. Must not know: the other workers, what the demo does to it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from cluster.cli.leash import hold
from cluster.cli.runs import RunLog
from cluster.client import Lease, connect
from cluster.errors import CoordinationError

_LOOK_S = 0.02


class Worker:
    """A run is finished when TERM comes; waiting for a turn is not."""

    def __init__(self) -> None:
        self.stopped = False
        self._working = False

    def stop(self, _number: int, _frame: object) -> None:
        self.stopped = True
        if not self._working:
            sys.exit(0)

    def work(self, lease: Lease, log: RunLog, run_s: float) -> None:
        self._working = True
        with lease:
            log.begin(lease.token)
            until = time.monotonic() + run_s
            while time.monotonic() < until and lease.confidence != "lost":
                # The work of the demo is to take time.
                time.sleep(_LOOK_S)
            log.end(lease.token)
        self._working = False


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connect", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--log", required=True, type=Path)
    parser.add_argument("--lease", required=True, type=float)
    parser.add_argument("--run", required=True, type=float)
    parser.add_argument("--wait", required=True, type=float)
    args = parser.parse_args()
    worker = Worker()
    signal.signal(signal.SIGTERM, worker.stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hold()
    log = RunLog(args.log)
    with connect(args.connect) as coordinator:
        while not worker.stopped:
            try:
                lease = coordinator.acquire(args.name, lease_time=args.lease, wait_time=args.wait, auto_extend=True)
                if lease is not None:
                    worker.work(lease, log, args.run)
            except CoordinationError as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
