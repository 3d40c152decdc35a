"""Records of real nodes that are killed: a counter that is written under a lease loses nothing that was answered. E1, E6, I9, I10.

Knows: processes and the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import tenure
from tests.support import eventually
from tests.support_cluster import NodeGroup

KEY = "counter"


class Counter:
    """Adds one to a record under a lease, again and again, each time only if nobody else wrote meanwhile."""

    def __init__(self, coordinator: tenure.Coordinator, lease: tenure.Lease) -> None:
        self._records = coordinator.records
        self._lease = lease
        self._stop = threading.Event()
        self.answered = 0
        self.unknown = 0
        self.wrong: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Counter:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                found = self._records.get(KEY, timeout=2.0)
                value, version = (int(found.value), found.version) if found else (0, 0)
                self._records.put(
                    KEY, str(value + 1).encode(), lease=self._lease, expected_version=version, timeout=2.0
                )
                self.answered += 1
            except tenure.Unavailable:
                continue
            except (tenure.Indeterminate, tenure.VersionConflictError):
                # One that was given up may have been applied, before the next read or after it.
                self.unknown += 1
            except BaseException as error:
                self.wrong.append(error)
                return


@pytest.mark.timeout(120)
def test_a_counter_loses_nothing_when_nodes_are_killed__E1_E6_I9(tmp_path: Path) -> None:
    with (
        NodeGroup(tmp_path, options=("--durability", "process")) as group,
        tenure.connect(group.endpoints) as coordinator,
    ):
        lease = coordinator.acquire("job", lease_time=600.0)
        assert lease is not None
        with Counter(coordinator, lease) as counter:
            eventually(lambda: counter.answered > 20 or counter.wrong, 30.0, "increments")
            group.leader().kill()
            before = counter.answered
            eventually(lambda: counter.answered > before + 20 or counter.wrong, 30.0, "increments under another leader")
            for node in group.nodes:
                node.kill()
            group.start()
            before = counter.answered
            eventually(
                lambda: counter.answered > before + 20 or counter.wrong, 30.0, "increments after all were killed"
            )
        assert not counter.wrong
        found = coordinator.records.get(KEY)
        assert found is not None
        assert counter.answered <= int(found.value) <= counter.answered + counter.unknown
        assert found.token == lease.token
        # Of every node the fence is the same: nobody without the lease writes it.
        for endpoint in group.endpoints.split(","):
            with tenure.connect(endpoint) as one, pytest.raises(tenure.FencedError):
                one.records.put(KEY, b"0")
        lease.release()
