"""``node``, ``status``, ``leases`` and ``revoke`` as operators use them (E13).

Knows: the command line, processes. Must not know: the product's inside.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tenure as api
from tests.cli.support_cli import fill, is_one_line, start, tenure
from tests.support import eventually
from tests.support_cluster import NodeGroup, free_ports


@contextmanager
def running(
    arguments: list[str], directory: Path, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A node process that has said that it serves."""
    process = start(["node", *arguments], directory, env=env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(r"tenure: node \S+ serves\n", line), (line, process.communicate())
        yield process
    finally:
        process.kill()
        process.communicate()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def addresses(directory: Path) -> list[str]:
    (port,) = free_ports(1)
    found = [f"127.0.0.1:{port}", f"localhost:{port}", f"unix:{directory}/socket"]
    return [*found, f"[::1]:{port}"] if has_ipv6() else found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_node_stops_cleanly(tmp_path: Path, number: int) -> None:
    (port,) = free_ports(1)
    with running(["--listen", f"127.0.0.1:{port}", "--single"], tmp_path) as process:
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert (tmp_path / "tenure-data" / f"127.0.0.1:{port}").is_dir()


def test_every_form_of_address_works(tmp_path: Path) -> None:
    for at, address in enumerate(addresses(tmp_path)):
        with running(["--listen", address, "--single", "--data-dir", f"data-{at}"], tmp_path):
            result = tenure(["status", "--connect", address, "--json"], tmp_path)
            assert result.returncode == 0, (address, result.stderr)
            assert json.loads(result.stdout)["leader"] == address


def test_options_come_from_the_environment(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    env = {
        "TENURE_LISTEN": f"127.0.0.1:{port}",
        "TENURE_SINGLE": "1",
        "TENURE_EPHEMERAL": "yes",
        "TENURE_LOG_FORMAT": "json",
    }
    with running([], tmp_path, env) as process:
        process.terminate()
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
        assert process.wait(10) == 0
    assert lines
    assert {"time", "level", "logger", "event"} <= set(lines[0])
    assert not list(tmp_path.iterdir()), "ephemeral keeps nothing"


def test_a_secret_lets_in_who_knows_it(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    (tmp_path / "secret").write_text("correct horse battery staple")
    (tmp_path / "other").write_text("incorrect horse battery staple")
    node = ["--listen", address, "--single", "--secret-file", "secret"]
    with running(node, tmp_path) as process:
        good = tenure(["status", "--connect", address, "--secret-file", "secret"], tmp_path)
        assert good.returncode == 0, good.stderr
        for more in ([], ["--secret-file", "other"]):
            bad = tenure(["status", "--connect", address, "--timeout", "1", *more], tmp_path)
            assert bad.returncode == 1
            assert is_one_line(bad.stderr), bad.stderr
            assert "secret" in bad.stderr
            assert "horse" not in bad.stderr
        process.terminate()
        assert process.stderr is not None
        assert "horse" not in process.stderr.read()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeGroup]:
    with NodeGroup(tmp_path_factory.mktemp("group")) as group:
        yield group


@pytest.mark.parametrize("told", ["--single", "--peers"])
def test_a_member_that_is_told_of_other_members_goes_by_its_own_log__I1(tmp_path: Path, told: str) -> None:
    with NodeGroup(tmp_path) as group:
        node = group.nodes[0]
        node.kill()
        (port,) = free_ports(1)
        peers = [] if told == "--single" else [f"{group.nodes[1].address},127.0.0.1:{port}"]
        process = start(["node", "--listen", node.address, "--data-dir", str(node.data_dir), told, *peers], tmp_path)
        try:
            assert process.stderr is not None
            said = next(line for line in iter(process.stderr.readline, "") if "raft.members_kept" in line)
            assert all(member.address in said for member in group.nodes), said
            members = {member.address for member in group.nodes}

            def has_its_place() -> bool:
                found = json.loads(tenure(["status", "--connect", node.address, "--json"], tmp_path).stdout or "{}")
                return bool(found) and found["has_quorum"] and {each["node_id"] for each in found["members"]} == members

            eventually(has_its_place, 20.0, "it is a member of its group as before")
        finally:
            process.terminate()
            process.communicate(timeout=20)


def test_a_node_that_comes_back_empty_with_another_list_takes_its_groups__I1(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group:
        node = group.nodes[0]
        node.kill()
        (port,) = free_ports(1)
        peers = ",".join([*(member.address for member in group.nodes), f"127.0.0.1:{port}"])
        process = start(["node", "--listen", node.address, "--ephemeral", "--peers", peers], tmp_path)
        try:
            members = {member.address for member in group.nodes}

            def has_its_place() -> bool:
                found = json.loads(tenure(["status", "--connect", node.address, "--json"], tmp_path).stdout or "{}")
                return bool(found) and found["has_quorum"] and {each["node_id"] for each in found["members"]} == members

            eventually(has_its_place, 30.0, "it counts the members of its group, and nobody else")
        finally:
            process.terminate()
            process.communicate(timeout=20)


def test_a_node_that_waits_for_its_group_says_for_whom(tmp_path: Path) -> None:
    one, two, three = (f"127.0.0.1:{port}" for port in free_ports(3))
    process = start(["node", "--listen", one, "--ephemeral", "--peers", f"{one},{two},{three}"], tmp_path)
    try:
        assert process.stderr is not None
        line = next(line for line in iter(process.stderr.readline, "") if "node.waits" in line)
        assert f"for={two},{three}" in line
    finally:
        process.terminate()
        process.communicate(timeout=10)


def test_status_shows_members_leader_and_quorum(group: NodeGroup, tmp_path: Path) -> None:
    text = tenure(["status", "--connect", group.endpoints], tmp_path)
    assert text.returncode == 0, text.stderr
    leader = group.leader().address
    assert f"raft leader   {leader}" in text.stdout
    assert "quorum        yes" in text.stdout
    assert all(node.address in text.stdout for node in group.nodes)
    found = json.loads(tenure(["status", "--connect", group.endpoints, "--json"], tmp_path).stdout)
    assert found["leader"] == leader
    assert found["has_quorum"] is True
    assert {member["node_id"] for member in found["members"]} == {node.address for node in group.nodes}


def test_leases_shows_who_holds_what(group: NodeGroup, tmp_path: Path) -> None:
    with api.connect(group.endpoints) as coordinator:
        lease = coordinator.acquire(
            "nightly/a", lease_time=100.0, node_id="host-a:1", metadata={"worker_version": "1.4.2"}
        )
        other = coordinator.acquire("weekly", lease_time=100.0)
        assert lease is not None
        assert other is not None
        text = tenure(["leases", "--connect", group.endpoints, "--prefix", "nightly/"], tmp_path)
        assert text.returncode == 0, text.stderr
        head, row, foot = text.stdout.splitlines()
        assert head.split()[:4] == ["name", "slot", "holder", "token"]
        assert row.split()[:4] == ["nightly/a", "0", "host-a:1", str(lease.token)]
        assert (head.split()[-1], row.split()[-1]) == ("version", "1.4.2")
        assert foot == "1 lease"
        found = json.loads(tenure(["leases", "--connect", group.endpoints, "--json"], tmp_path).stdout)["leases"]
        assert {(each["name"], each["token"]) for each in found} >= {
            ("nightly/a", lease.token),
            ("weekly", other.token),
        }


def test_leases_watch_tells_what_happens_until_interrupted(group: NodeGroup, tmp_path: Path) -> None:
    command = ["leases", "--connect", group.endpoints, "--prefix", "watched", "--watch", "--json"]
    watching = start(command, tmp_path)
    try:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline()) == {"leases": []}
        with api.connect(group.endpoints) as coordinator:
            lease = coordinator.acquire("watched", lease_time=5.0, node_id="host-a:1")
            assert lease is not None
            lease.release()
        granted, released = (json.loads(watching.stdout.readline()) for _ in range(2))
        what = {"name": "watched", "slot": 0, "token": lease.token, "node_id": "host-a:1"}
        assert granted == {"sequence": granted["sequence"], "kind": "granted", "reason": "", **what}
        assert released == {"sequence": released["sequence"], "kind": "released", "reason": "completed", **what}
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 130
        assert watching.stderr is not None
        assert watching.stderr.read() == ""
    finally:
        watching.kill()
        watching.communicate()
    again = start([*command[:-1], "--after", str(granted["sequence"] - 1)], tmp_path)
    try:
        assert again.stdout is not None
        text = f"watched slot=0 token={lease.token} holder=host-a:1\n"
        assert again.stdout.readline() == f"{granted['sequence']} granted {text}"
        assert again.stdout.readline() == f"{released['sequence']} released (completed) {text}"
    finally:
        again.kill()
        again.communicate()


def test_leases_watch_says_what_it_cannot_tell(group: NodeGroup, tmp_path: Path) -> None:
    watching = start(["leases", "--connect", group.endpoints, "--prefix", "gap", "--watch", "--after", "5"], tmp_path)
    try:
        assert watching.stdout is not None
        assert "gap: events after 5 are not known any more" in watching.stdout.readline()
        assert watching.stdout.readline().startswith("name")
    finally:
        watching.kill()
        watching.communicate()


def test_revoke_marks_or_frees(group: NodeGroup, tmp_path: Path) -> None:
    with api.connect(group.endpoints) as coordinator:
        lease = coordinator.acquire("revoked", lease_time=100.0)
        assert lease is not None
        marked = tenure(["revoke", "revoked", "--connect", group.endpoints, "--json"], tmp_path)
        assert json.loads(marked.stdout) == {"name": "revoked", "revoked": 1}
        eventually(lambda: lease.confidence == "lost", 5.0, "its holder is told")
        assert coordinator.acquire("revoked", lease_time=1.0) is None
        freed = tenure(["revoke", "revoked", "--connect", group.endpoints, "--force"], tmp_path)
        assert freed.stdout == "1 lease of revoked revoked\n"
        again = coordinator.acquire("revoked", lease_time=1.0)
        assert again is not None
        again.release()


def test_status_without_a_majority_is_69(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group:
        alive, *others = group.nodes
        for node in others:
            node.kill()

        def unavailable() -> bool:
            result = tenure(["status", "--connect", alive.address, "--timeout", "2"], tmp_path)
            return result.returncode == 69

        eventually(unavailable, 15.0, "the node alone says that it has no majority")
        text = tenure(["status", "--connect", alive.address, "--timeout", "2"], tmp_path)
        assert "quorum        no" in text.stdout or is_one_line(text.stderr)


def test_whoever_reads_a_nodes_log_and_stops_does_not_stop_the_node(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    read, write = os.pipe()
    fill(write)
    arguments = ["node", "--listen", f"127.0.0.1:{port}", "--single", "--log-level", "debug"]
    process = start(arguments, tmp_path, stderr=write)
    os.close(write)
    try:
        assert process.stdout is not None
        assert re.fullmatch(r"tenure: node \S+ serves\n", process.stdout.readline())
        for number in range(5):
            # Each connection has its lines.
            with api.connect(f"127.0.0.1:{port}") as coordinator:
                assert coordinator.acquire(f"job-{number}", lease_time=60) is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.communicate()
        os.close(read)
