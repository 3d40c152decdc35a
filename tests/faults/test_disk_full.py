"""The raft leader's disk is full: it ends with a clear error, the others go on, and it is back when there is space again.

Knows: a small disk, the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import tenure
from tests.faults.support_group import caught_up
from tests.faults.support_machine import small_disk
from tests.support import eventually
from tests.support_cluster import NodeGroup

# Two segments of the journal, of which each has its full size from the beginning, and no third one.
DISK_BYTES = 20 << 20
METADATA = {"note": "m" * 4000}
LEASES_AT_ONCE = 400
ROUNDS_MAX = 30


async def _grants(coordinator: tenure.Coordinator, turn: int) -> dict[str, int]:
    """Many grants at once; those that were acknowledged."""
    names = [f"load-{turn}-{number}" for number in range(LEASES_AT_ONCE)]
    asked = (coordinator.aio.acquire(name, lease_time=3600.0, metadata=METADATA) for name in names)
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, tenure.CoordinationError):
            raise each
    return {lease.name: lease.token for lease in found if lease is not None and not isinstance(lease, BaseException)}


def test_a_leader_whose_disk_is_full__E7_I9(tmp_path: Path) -> None:
    with ExitStack() as stack:
        group = NodeGroup(tmp_path)
        disks = {node: stack.enter_context(small_disk(node.data_dir, DISK_BYTES)) for node in group.nodes}
        for node, disk in disks.items():
            node.prefix = disk.prefix
        stack.enter_context(group)
        coordinator = stack.enter_context(tenure.connect(group.endpoints, timeout=20.0))
        acknowledged = asyncio.run(_grants(coordinator, 0))
        assert acknowledged
        full = group.leader()
        disks[full].fill()
        turns = iter(range(1, ROUNDS_MAX))
        while full.alive:
            acknowledged |= asyncio.run(_grants(coordinator, next(turns)))
        said = full.log()
        assert "No space left on device" in said.splitlines()[-1]
        assert said.splitlines()[-1].startswith("tenure: ")
        assert "Traceback" not in said

        after = coordinator.acquire("after", lease_time=3600.0)
        assert after is not None, "the others go on"
        assert after.token > max(acknowledged.values())
        disks[full].empty()
        full.start()
        eventually(lambda: caught_up(group, full), 60.0, f"it has caught up\n{group.logs()}")
        found = {lease.name: lease.token for lease in coordinator.leases("load-")}
        assert acknowledged.items() <= found.items(), "nothing acknowledged is gone"
        coordinator.close(limit=0.1)
