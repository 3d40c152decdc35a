"""A worker under faults, a process of its own: contends for one name, holds, and writes down what it saw.

Knows: the public interface, its diary, a counter. Must not know: which faults there are, what the others do.

What it does while it holds: ``mutex``: look at its lease again and again; ``counter``: increment a counter in a store. An error of an
unknown class ends it with a traceback and status 1, which its test refuses.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
from pathlib import Path

import tenure
from tests.faults.support_diary import Diary
from tests.faults.support_store import StoreClient


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(99)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connect", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--me", required=True)
    parser.add_argument("--work", choices=("mutex", "counter"), required=True)
    parser.add_argument("--store", type=int, default=0)
    parser.add_argument("--diary", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    return parser.parse_args()


class Worker:
    """One life of a worker."""

    def __init__(self, args: argparse.Namespace, coordinator: tenure.Coordinator, diary: Diary) -> None:
        self.stopped = threading.Event()
        self._args = args
        self._coordinator = coordinator
        self._diary = diary
        self._rng = random.Random(args.seed)
        self._store = StoreClient(args.store, args.me) if args.work == "counter" else None

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                self._one_round()
            except (tenure.Unavailable, tenure.Indeterminate, tenure.LeaseLostError) as error:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
            self._pause(self._rng.expovariate(1 / 0.02))

    def _pause(self, seconds: float) -> None:
        self.stopped.wait(seconds)

    def _one_round(self) -> None:
        if self._rng.random() < 0.1:
            self._read()
            return
        lease_s = self._rng.choice([0.5, 1.0, 2.0])
        lease = self._acquire(lease_s, auto_extend=self._rng.random() < 0.4)
        if lease is None:
            return
        if self._store is None:
            self._look_on(lease, lease_s)
        else:
            self._increment(lease, self._store)
        self._release(lease)

    def _look_on(self, lease: tenure.Lease, lease_s: float) -> None:
        for _ in range(self._rng.randint(1, 6)):
            if not self._diary.look_at(self._args.me, lease):
                return
            if self._rng.random() < 0.2:
                self._extend(lease, self._rng.choice([None, 2 * lease_s]))
            self._pause(self._rng.expovariate(1 / 0.02))

    def _increment(self, lease: tenure.Lease, store: StoreClient) -> None:
        value = store.read(lease.token)
        self._pause(self._rng.expovariate(1 / 0.01))
        if value is not None and self._diary.look_at(self._args.me, lease):
            # Here lies the gap: between this look and the write the process may be stopped for as long as it takes.
            self._pause(self._rng.choice([0.0, 0.0, 0.0, 0.1]))
            store.write(lease.token, value + 1)

    # The verbs, written down.

    def _acquire(self, lease_s: float, auto_extend: bool) -> tenure.Lease | None:
        name, wait_s = self._args.name, self._rng.choice([0.0, 0.3, 2.0])
        number = self._diary.call(self._args.me, "acquire", [name], max_leaders=1, wait=wait_s, lease=lease_s)
        try:
            lease = self._coordinator.acquire(
                name,
                lease_time=lease_s,
                wait_time=wait_s,
                auto_extend=auto_extend,
                node_id=self._args.me,
                timeout=3.0,
            )
        except tenure.CoordinationError as error:
            self._diary.returned(number, _result(error))
            raise
        grants = [] if lease is None else [[lease.name, lease.slot, lease.token]]
        self._diary.returned(number, "no" if lease is None else "ok", grants=grants)
        return lease

    def _extend(self, lease: tenure.Lease, lease_s: float | None) -> None:
        number = self._diary.call(self._args.me, "extend", [lease.name], token=lease.token)
        outcome = lease.extend(lease_s)
        found = {tenure.Extended: "ok", tenure.NotHeld: "no"}.get(type(outcome), "unknown")
        self._diary.returned(number, found)

    def _release(self, lease: tenure.Lease) -> None:
        number = self._diary.call(self._args.me, "release", [lease.name], token=lease.token, min_lease=False)
        try:
            freed = lease.release()
        except tenure.CoordinationError as error:
            self._diary.returned(number, _result(error))
            raise
        self._diary.returned(number, "ok" if freed else "no")

    def _read(self) -> None:
        number = self._diary.call(self._args.me, "read", [self._args.name])
        try:
            state = self._coordinator.group_state(self._args.name, consistent=True, timeout=3.0)
        except tenure.CoordinationError as error:
            self._diary.returned(number, _result(error))
            raise
        self._diary.returned(number, "ok", slots=[[leader.slot, leader.token] for leader in state.leaders])


def _result(error: tenure.CoordinationError) -> str:
    return "fail" if isinstance(error, tenure.Unavailable) else "unknown"


def _connect(endpoints: str) -> tenure.Coordinator:
    """As soon as any node answers: it may start while none does."""
    while True:
        try:
            return tenure.connect(endpoints, timeout=3.0)
        except tenure.Unavailable as error:
            sys.stderr.write(f"{error}\n")


def main() -> None:
    args = _arguments()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    diary = Diary(args.diary)
    with _connect(args.connect) as coordinator:
        worker = Worker(args, coordinator, diary)
        signal.signal(signal.SIGTERM, lambda *_: worker.stopped.set())
        worker.run()
    diary.close()


if __name__ == "__main__":
    main()
