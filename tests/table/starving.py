"""A program for ``test_memory``: a table in a process that gets no more memory. Writes what was raised, in order.

Knows: the table. Must not know: how its memory is organised.
"""

from __future__ import annotations

import resource
import sys

from cluster._table import LeaseTable
from tests.table.packing import batch
from tests.table.talk import EPOCH, TICK, acquire


def address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


def limit(more: int | None) -> None:
    soft = resource.RLIM_INFINITY if more is None else address_space() + more
    resource.setrlimit(resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))


def main(more: int) -> None:
    batches = [
        batch(
            [
                operation
                for i in range(first, first + 500)
                for operation in (
                    acquire(b"n%d" % i, i, node=b"n" * (i % 256), meta=b"m" * (i % 4_097)),
                    [14, i.to_bytes(16, "big"), b"k%d" % i, b"v" * (i % 1_000), b"", 0, None, None],
                )
            ],
            0,
            1,
        )
        for first in range(0, 20_000, 500)
    ]
    table, copy = LeaseTable(), LeaseTable()
    table.apply(batch([EPOCH], 0, 1))
    limit(more)
    try:
        for data in batches:
            table.apply(data)
    except MemoryError as error:
        sys.stdout.write(f"apply: {error}\n")
    limit(None)
    snapshot = table.snapshot()
    assert table.lease_count > 0
    limit(more // 2)
    try:
        copy.restore(snapshot)
    except MemoryError as error:
        sys.stdout.write(f"restore: {error}\n")
    limit(None)
    assert copy.lease_count == 0
    copy.restore(snapshot)
    assert copy.snapshot() == snapshot
    assert copy.apply(batch([TICK], 10**6, 1)) == table.apply(batch([TICK], 10**6, 1))


if __name__ == "__main__":
    main(int(sys.argv[1]))
