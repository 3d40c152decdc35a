"""A lease that is over is over for whoever asks, also in a raft group in which nothing happens that would say so (E16, I7).

Knows: a node of one process, and how to keep it from sweeping. Must not know: how expiry is stored.
"""

from __future__ import annotations

import pytest

from cluster.client import Coordinator, IoThread
from cluster.local import LocalDoor, LocalNode
from cluster.server.server import Server
from tests.support import eventually

pytestmark = pytest.mark.core


def test_a_lease_that_nobody_swept_is_free_by_the_stamp_that_a_batch_would_get__E16_I7(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "_arm_sweep", lambda self: None)
    io = IoThread()

    async def make() -> LocalNode:
        return LocalNode(io.env)

    node = io.run(make())
    with Coordinator(LocalDoor(node), io=io, at_close=node.close) as coordinator:
        for name in ("job", "other"):
            assert coordinator.acquire(name, lease_time=1.5) is not None
        assert coordinator.acquire("job") is None, "it is held"
        applied_ms = node.server.table.time_ms
        eventually(lambda: coordinator.state("job").leader is None, 10.0, "it is shown as free")
        assert [lease.name for lease in coordinator.leases()] == []
        assert node.server.table.time_ms == applied_ms, "nothing was applied meanwhile: it was told from memory"
        assert coordinator.state("other", consistent=True).leader is None
        after = coordinator.acquire("job")
        assert after is not None
        assert after.release()
