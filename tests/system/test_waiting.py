"""First come, first served, also for who waits longer than the lease lasts that it asks for.

Knows: the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import threading
from pathlib import Path

import tenure
from cluster.env import boot_clock
from tests.support import eventually
from tests.support_cluster import NodeGroup
from tests.system.support_workers import pretend_to_work

LEASE_S = 1.0
RUN_S = 0.7
WORKERS = 4


def test_contenders_take_turns_although_they_wait_for_longer_than_their_lease(tmp_path: Path) -> None:
    order: list[int] = []
    stop = threading.Event()

    def work(number: int, coordinator: tenure.Coordinator) -> None:
        while not stop.is_set():
            lease = coordinator.acquire("job", lease_time=LEASE_S, wait_time=20.0, auto_extend=True)
            assert lease is not None
            with lease:
                order.append(number)
                pretend_to_work(0.0 if stop.is_set() else RUN_S)

    with NodeGroup(tmp_path, size=1) as group:
        coordinators = [tenure.connect(group.endpoints) for _ in range(WORKERS)]
        threads = [
            threading.Thread(target=work, args=(number, coordinator)) for number, coordinator in enumerate(coordinators)
        ]
        begun = boot_clock()
        for thread in threads:
            thread.start()
        eventually(lambda: len(order) >= 3 * WORKERS, 30.0, "three rounds")
        lasted = boot_clock() - begun
        stop.set()
        for thread in threads:
            thread.join(30)
        for coordinator in coordinators:
            coordinator.close()
    rounds = [order[at : at + WORKERS] for at in range(0, 3 * WORKERS, WORKERS)]
    assert all(sorted(each) == list(range(WORKERS)) for each in rounds), order
    assert rounds[0] == rounds[1] == rounds[2], "each stands behind the others again after its turn"
    assert lasted < 3 * WORKERS * (RUN_S + 0.3)
