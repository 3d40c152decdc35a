"""All nodes die at once under load: whatever was acknowledged is there afterwards, and tokens go on upwards.

Knows: processes and the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tenure
from tests.support import eventually
from tests.support_cluster import NodeGroup

LOADERS = 4


@pytest.mark.timeout(120)
@pytest.mark.parametrize("durability", ["process", "fsync"])
def test_all_nodes_killed_at_once_under_load__I2_I9(tmp_path: Path, durability: str) -> None:
    acknowledged: dict[str, int] = {}
    stop = threading.Event()
    unknown: list[BaseException] = []

    def load(number: int, coordinator: tenure.Coordinator) -> None:
        turn = 0
        while not stop.is_set():
            name = f"load-{number}-{turn}"
            turn += 1
            try:
                lease = coordinator.acquire(name, lease_time=600.0, timeout=1.0)
            except (tenure.Unavailable, tenure.Indeterminate):
                continue
            except BaseException as error:
                unknown.append(error)
                return
            if lease is not None:
                acknowledged[name] = lease.token

    with (
        NodeGroup(tmp_path, options=("--durability", durability)) as group,
        tenure.connect(group.endpoints) as coordinator,
    ):
        threads = [threading.Thread(target=load, args=(number, coordinator)) for number in range(LOADERS)]
        for thread in threads:
            thread.start()
        eventually(lambda: len(acknowledged) > 300 or unknown, 30.0, "acknowledged grants")
        for node in group.nodes:
            node.kill()
        before = dict(acknowledged)
        group.start()
        eventually(lambda: len(acknowledged) > len(before) + 50 or unknown, 30.0, "grants after the restart")
        stop.set()
        for thread in threads:
            thread.join()
        assert not unknown
        with tenure.connect(group.endpoints) as fresh:
            found = {lease.name: lease.token for lease in fresh.leases("load-")}
        missing = {name: token for name, token in acknowledged.items() if found.get(name) != token}
        assert not missing, f"acknowledged and gone: {sorted(missing.items())[:5]} of {len(missing)}"
        newer = [token for name, token in acknowledged.items() if name not in before]
        assert min(newer) > max(before.values()), "tokens go on upwards"
        assert len(set(found.values())) == len(found)
