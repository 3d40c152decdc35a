"""A holder whose test says when it goes on: takes the name, writes a record, reads the counters, checks its lease; and after a line on its
standard input writes again, whatever it finds.

Knows: the public interface, the counters. Must not know: what happens to it in between.

Arguments: ENDPOINTS NAME LEASE_S PLAIN_PORT FENCED_PORT. Says one JSON object before it stops to wait, and one at its end.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import tenure
from tests.faults.support_store import StoreClient

RECORD = "checkpoint"


def _say(**found: Any) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


def _is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except (tenure.LeaseLostError, tenure.FencedError):
        return True
    return False


def main() -> None:
    endpoints, name, lease_s, plain_port, fenced_port = sys.argv[1:]
    stores = [StoreClient(int(port), f"holder:{os.getpid()}") for port in (plain_port, fenced_port)]
    with tenure.connect(endpoints) as coordinator:
        lease = coordinator.acquire(name, lease_time=float(lease_s), auto_extend=True)
        assert lease is not None
        coordinator.records.put(RECORD, b"first", lease=lease)
        values = [store.read(lease.token) or 0 for store in stores]
        lease.check()
        _say(token=lease.token, confidence=lease.confidence, values=values)
        if not sys.stdin.readline():
            return
        confidence = lease.confidence
        check = _is_refused(lease.check)
        put = _is_refused(lambda: coordinator.records.put(RECORD, b"stale", lease=lease))
        took = [store.write(lease.token, value + 1) for store, value in zip(stores, values, strict=True)]
        _say(confidence=confidence, check_refused=check, put_refused=put, took=took, released=lease.release())


if __name__ == "__main__":
    main()
