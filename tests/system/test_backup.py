"""A backup of real processes under load, restored into a new group; and a group that goes on with one survivor of three (E11, E15).

Knows: processes, the command line, the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import tenure
from tests.cli.support_cli import tenure as command
from tests.support import eventually
from tests.support_cluster import NodeGroup, NodeProcess

LEASE_S = 3.0


def said(arguments: Sequence[str], cwd: Path) -> Any:
    """What a command with ``--json`` says. It must succeed."""
    done = command([*arguments, "--json"], cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Load:
    """Acquires and releases, and remembers every token. Its leases are short, but for those that it is told to keep."""

    def __init__(self, coordinator: tenure.Coordinator) -> None:
        self.tokens: list[int] = []
        self.errors: list[BaseException] = []
        self._coordinator = coordinator
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(3)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        turn = 0
        while not self._stop.is_set():
            turn += 1
            try:
                lease = self._coordinator.acquire(f"load-{number}-{turn % 50}", lease_time=1.0, timeout=1.0)
                if lease is not None:
                    self.tokens.append(lease.token)
                    if turn % 2:
                        lease.release()
            except (tenure.Unavailable, tenure.Indeterminate, tenure.LeaseLostError):
                continue
            except BaseException as error:
                self.errors.append(error)
                return

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self.errors


def restore(node: NodeProcess, saved: str, cwd: Path) -> Any:
    """Give the node a new directory, made of a backup."""
    node.data_dir = node.data_dir.with_name(node.data_dir.name + "-restored")
    group = ["--listen", node.address, "--peers", ",".join(node.peers), "--data-dir", str(node.data_dir)]
    return said(["snapshot", "restore", saved, *group], cwd)


@pytest.mark.timeout(180)
def test_a_restored_group_grants_nothing_while_holders_from_before_may_run__E15_I2(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group, tenure.connect(group.endpoints) as before:
        early = before.acquire("early", lease_time=LEASE_S)
        assert early is not None
        load = Load(before)
        try:
            eventually(lambda: len(load.tokens) > 100 or load.errors, 30.0, "grants under load")
            saved = said(["snapshot", "save", "backup", "--connect", group.endpoints], tmp_path)
            assert saved["longest_lease"] == LEASE_S
            assert said(["snapshot", "inspect", "backup"], tmp_path)["backup_id"] == saved["backup_id"]
            count = len(load.tokens)
            eventually(lambda: len(load.tokens) > count + 50 or load.errors, 30.0, "grants after the backup")
            early.release()
            late = before.acquire("late", lease_time=LEASE_S)
            assert late is not None
            for node in group.nodes:
                node.kill()
        finally:
            load.end()
        made = [restore(node, "backup", tmp_path) for node in group.nodes]
        assert len({each["cluster_id"] for each in made} | {saved["cluster_id"]}) == 2
        assert made[0]["wait"] == LEASE_S
        # A holder from after the backup, as long-lived as any that the old group could have left.
        group.start()
        begun = time.monotonic()
        group.wait_ready()
        with tenure.connect(group.endpoints) as after:
            eventually(lambda: after.status().cluster_id == made[0]["cluster_id"], 20.0, "the group has its id")
            status = after.status()
            waits_s = time.monotonic() - begun
            # On a machine that is so slow that the wait is over, there is nothing to refuse.
            if status.grants_in > 0.5:
                with pytest.raises(tenure.Unavailable, match="nothing is granted yet"):
                    after.acquire("late", lease_time=1.0)
            lease = after.acquire("late", lease_time=10.0, wait_time=60.0)
            granted_s = time.monotonic() - begun
            assert lease is not None, "who waits is served when the wait is over"
            assert granted_s >= LEASE_S * 0.98, (granted_s, waits_s)
            assert late.confidence == "lost", "granted while a holder from after the backup believes"
            assert lease.token > max([*load.tokens, late.token, early.token])
            fresh = after.acquire("early", lease_time=10.0)
            assert fresh is not None
            assert fresh.token > lease.token


@pytest.mark.timeout(180)
def test_one_survivor_of_three_goes_on_alone_and_the_lost_are_refused__E11(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group, tenure.connect(group.endpoints) as before:
        held = before.acquire("job", lease_time=LEASE_S)
        assert held is not None
        # A node that was killed before it knew the id of its group would be refused for another reason.
        eventually(lambda: all(getattr(node.status(), "cluster_id", "") for node in group.nodes), 20.0, "all know their group")
        for node in group.nodes:
            node.kill()
        survivor, lost, _ = group.nodes
        call = ["recover", "--listen", survivor.address, "--single", "--data-dir", str(survivor.data_dir)]
        found = said(call, tmp_path)
        assert not found["done"]
        assert said([*call, "--yes"], tmp_path)["found"]["index"] == found["found"]["index"]
        survivor.peers = (survivor.address,)
        survivor.start()
        with tenure.connect(survivor.address, timeout=20.0) as after:
            lease = after.acquire("job", lease_time=10.0, wait_time=60.0, timeout=20.0)
            assert lease is not None
            assert lease.token > held.token
            assert held.confidence == "lost"
            lost.start()
            eventually(lambda: "different clusters" in lost.log(), 20.0, "a node of the old group is refused")
            assert lease.extend(10.0)
            assert [member["node_id"] for member in after.status().members] == [survivor.address]
