"""A worker of the system tests, a process of its own: contends for one name and writes down each run.

Knows: the public interface. Must not know: the other workers, what the test does to it.

Every error that is not of a known class ends it with a traceback and status 1, which its test refuses.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from pathlib import Path

import tenure
from cluster.cli.runs import RunLog


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(99)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connect")
    parser.add_argument("--join")
    parser.add_argument("--peers", default="")
    parser.add_argument("--data-dir")
    parser.add_argument("--name", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--run-s", type=float, default=0.01)
    parser.add_argument("--lease-s", type=float, default=5.0)
    parser.add_argument("--wait-s", type=float, default=2.0)
    return parser.parse_args()


def _open(args: argparse.Namespace) -> tenure.Coordinator:
    if args.connect:
        return tenure.connect(args.connect)
    return tenure.join(args.join, args.peers.split(","), data_dir=args.data_dir, durability="process")


def main() -> int:
    args = _arguments()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    log = RunLog(args.log)
    options = tenure.ElectionOptions(wait_time=args.wait_s, lease_time=args.lease_s, auto_extend=True)

    def work() -> None:
        lease = tenure.current_lease()
        assert lease is not None
        log.begin(lease.token)
        time.sleep(args.run_s)
        log.end(lease.token)

    with _open(args) as coordinator:
        elector = tenure.LeaderElector(coordinator, options)
        while not stopped.is_set():
            try:
                elector.run_if_leader(args.name, work)
            except (tenure.Unavailable, tenure.Indeterminate, tenure.LeaseLostError) as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
