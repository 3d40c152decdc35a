"""What the tests of backups have in common: a group, and a backup of it."""

from __future__ import annotations

from cluster._table import LeaseTable
from cluster.backup import Backup
from cluster.codec import pack
from cluster.server.batcher import batch_of

MEMBERS = ("127.0.0.1:7101", "127.0.0.1:7102", "127.0.0.1:7103")
GROUP = ("--listen", MEMBERS[0], "--peers", ",".join(MEMBERS))


def state_with_a_lease(lease_ms: int = 6_000) -> bytes:
    table = LeaseTable()
    table.apply(batch_of(pack([8]), 1, 0))
    table.apply(batch_of(pack([11, b"c" * 16, 1_700_000_000_000]), 1, 10))
    table.apply(batch_of(pack([1, b"a" * 16, b"job", lease_ms, 1, 0, 0, b"host:1", b""]), 1, 20))
    return table.snapshot()


def backup(state: bytes | None = None) -> Backup:
    return Backup(b"b" * 16, 1_700_000_000_000, MEMBERS[1], 12, 3, MEMBERS, state_with_a_lease() if state is None else state)
