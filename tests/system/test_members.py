"""Nodes come and go under load, in real processes (E11): no quorum is lost, no lease, and tokens rise.

Knows: what an operator does, by the library and by the command line. Must not know: how members are changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tenure
from cluster.client import Coordinator, connect
from tests.support import eventually
from tests.support_cluster import READY_WITHIN_S, ROOT, NodeGroup, NodeProcess, free_ports

OPTIONS = ("--durability", "process")


class Load:
    """One lease that is held all the time, and others that come and go."""

    def __init__(self, endpoints: str) -> None:
        self.coordinator = tenure.connect(endpoints, timeout=READY_WITHIN_S)
        self.tokens: list[int] = []
        self.errors: list[str] = []
        self._stop = threading.Event()
        self.lease = self.coordinator.acquire("held", lease_time=5.0, auto_extend=True)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                lease = self.coordinator.acquire("job", lease_time=30.0)
                assert lease is not None, "nobody else wants it"
                self.tokens.append(lease.token)
                assert lease.release()
            except Exception as error:
                self.errors.append(f"{type(error).__name__}: {error}")
            self._stop.wait(0.005)

    def check(self) -> None:
        """The load went on, and nothing was lost."""
        before = len(self.tokens)
        eventually(lambda: len(self.tokens) > before + 5 or self.errors, READY_WITHIN_S, "the load goes on")
        assert not self.errors
        assert self.tokens == sorted(set(self.tokens))
        assert self.lease is not None
        self.lease.check()

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.lease is not None:
            self.lease.release()
        self.coordinator.close()


@contextmanager
def operator(group: NodeGroup) -> Iterator[Coordinator]:
    with connect(group.endpoints, timeout=READY_WITHIN_S, role="admin") as coordinator:
        yield coordinator


def start_newcomer(group: NodeGroup, directory: Path) -> NodeProcess:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    node = NodeProcess(address, [each.address for each in group.nodes], directory, OPTIONS)
    node.start()
    return node


def grow(group: NodeGroup, directory: Path) -> NodeProcess:
    node = start_newcomer(group, directory)
    with operator(group) as coordinator:
        coordinator.members.add(node.address)
    group.nodes.append(node)
    return node


def all_count(group: NodeGroup) -> None:
    """The members are the group's nodes, and each counts: a raft leader that has just been elected learns it with their first answers."""
    with operator(group) as coordinator:

        def counted() -> list[str]:
            return [member.node_id for member in coordinator.members.list() if member.voter]

        eventually(lambda: counted() == addresses(group), READY_WITHIN_S, "every node counts, and no other")


def addresses(group: NodeGroup) -> list[str]:
    return sorted(node.address for node in group.nodes)


def test_grow_from_one_to_five_lose_one_and_remove_it__E11(tmp_path: Path) -> None:
    with NodeGroup(tmp_path, 1, OPTIONS) as group:
        with Load(group.endpoints) as load:
            for size in (2, 3, 4, 5):
                grow(group, tmp_path)
                all_count(group)
                assert len(group.nodes) == size
                load.check()
            dead = group.leader()
            dead.kill()
            group.wait_ready()
            with operator(group) as coordinator:
                coordinator.members.remove(dead.address)
            group.nodes.remove(dead)
            all_count(group)
            load.check()
            # It comes back with its data, is told, and stops.
            dead.start()
            eventually(lambda: not dead.alive, READY_WITHIN_S, "the removed node stops")
            assert "was removed from its raft group" in dead.log()
            dead.kill()
            load.check()
        # All at once, each with the list it was started with: the members are those of the log.
        for node in group.nodes:
            node.kill()
        group.start()
        all_count(group)


def test_all_nodes_are_replaced_one_by_one__E11(tmp_path: Path) -> None:
    with NodeGroup(tmp_path, 3, OPTIONS) as group, Load(group.endpoints) as load:
        for old in list(group.nodes):
            grow(group, tmp_path)
            with operator(group) as coordinator:
                coordinator.members.remove(old.address)
            group.nodes.remove(old)
            eventually(lambda old=old: not old.alive, READY_WITHIN_S, "the removed node stops")  # type: ignore[misc]
            assert f"node {old.address} was removed from its raft group" in old.log()
            old.kill()
            all_count(group)
            load.check()
        # The load's client was told of none of these when it began.
        leader = group.leader()
        leader.kill()
        load.check()


def run(group: NodeGroup, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cluster", *args, "--connect", group.endpoints]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, cwd=ROOT, check=False)


def test_the_command_line_adds_removes_and_transfers(tmp_path: Path) -> None:
    with NodeGroup(tmp_path, 1, OPTIONS) as group:
        first = group.nodes[0].address
        newcomer = start_newcomer(group, tmp_path)
        try:
            done = run(group, "members", "add", newcomer.address)
            assert (done.returncode, done.stderr) == (0, "")
            assert f"{newcomer.address} was added" in done.stdout
            done = run(group, "members", "list", "--json")
            members = json.loads(done.stdout)["members"]
            assert sorted(member["node_id"] for member in members) == sorted((first, newcomer.address))
            assert all(member["voter"] and member["connected"] for member in members)
            heading, *rows = (line.split() for line in run(group, "members", "list").stdout.splitlines() if line)
            assert heading == ["member", "role", "weight", "counts", "connected", "match", "lag"]
            assert {row[2] for row in rows if row[0] in (first, newcomer.address)} == {"1"}
            done = run(group, "members", "add", first)
            assert done.returncode == 2
            assert f"{first} is a member already" in done.stderr
            done = run(group, "transfer", newcomer.address, "--json")
            assert json.loads(done.stdout) == {"leader": newcomer.address}
            done = run(group, "members", "remove", newcomer.address)
            assert (done.returncode, done.stderr) == (0, "")
            assert "counts" in done.stdout
            eventually(lambda: not newcomer.alive, READY_WITHIN_S, "the removed node stops")
            done = run(group, "members", "remove", first)
            assert done.returncode == 2
            assert f"members remove {first}: {first} is the last member. a raft group cannot be empty" in done.stderr
            assert run(group, "transfer").returncode == 2
            group.nodes[0].stop()
            offline = ["recover", "--listen", first, "--single", "--data-dir", str(group.nodes[0].data_dir), "--json"]
            done = subprocess.run(
                [sys.executable, "-m", "cluster", *offline], capture_output=True, text=True, timeout=90, cwd=ROOT, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), "entries that name the members are no commands of the table"
        finally:
            newcomer.kill()


def test_changes_need_the_admin_role_and_say_what_is_wrong(tmp_path: Path) -> None:
    with NodeGroup(tmp_path, 1, OPTIONS) as group:
        with tenure.connect(group.endpoints, timeout=READY_WITHIN_S) as coordinator:
            for ask in (coordinator.members.add, coordinator.members.remove, coordinator.transfer_leadership):
                with pytest.raises(tenure.UsageError, match="admin role"):
                    ask("127.0.0.1:1")
            with pytest.raises(tenure.UsageError, match="has no port"):
                coordinator.members.add("nonsense")
        with operator(group) as coordinator, pytest.raises(tenure.UsageError, match=r"127\.0\.0\.1:1 is not a member"):
            coordinator.members.remove("127.0.0.1:1")
