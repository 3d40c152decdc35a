"""Bad input: one clear line on stderr that says what to do, status 2 (the call is wrong) or 1, and never a traceback (E13, B6).

Knows: the command line. Must not know: the product's inside.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.cli.main import run
from tests.cli.support_cli import is_one_line, start, tenure
from tests.support import eventually
from tests.support_cluster import NodeGroup, NodeProcess, free_ports

NOWHERE = ("--connect", "127.0.0.1:1")

REFUSAL = "the two sides belong to different clusters"

# What is typed, and a word that the complaint must hold.
WRONG: list[tuple[list[str], str]] = [
    (["lokc"], "did you mean 'lock'"),
    (["status"], "TENURE_CONNECT"),
    (["status", *NOWHERE, "--jsno"], "--jsno"),
    (["status", *NOWHERE, "surplus"], "surplus"),
    (["status", "--connect"], "--connect"),
    (["status", "--connect", ""], "names no address"),
    (["status", "--connect", "localhost"], "has no port"),
    (["status", "--connect", "127.0.0.1:http"], "port"),
    (["status", "--connect", "127.0.0.1:70000"], "65535"),
    (["status", "--connect", "::1:7101"], "brackets"),
    (["status", "--connect", "[::1]"], "port"),
    (["status", "--connect", "unix:"], "path"),
    (["status", *NOWHERE, "--timeout", "0"], "seconds"),
    (["status", *NOWHERE, "--log-format", "xml"], "text or json"),
    (["status", *NOWHERE, "--secret-file", "/no/such/file"], "/no/such/file"),
    (["leases", *NOWHERE, "--watch", "--after", "-1"], "after"),
    (["leases", *NOWHERE, "--after", "7"], "--watch"),
    (["leases", *NOWHERE, "--prefix", "/"], "prefix"),
    (["lock"], "NAME"),
    (["lock", "name", *NOWHERE], "after --"),
    (["lock", "name", *NOWHERE, "./backup.sh", "--full"], "after --"),
    (["lock", "name", *NOWHERE, "--unheard-of"], "--unheard-of"),
    (["lock", "x", *NOWHERE, "--wait", "2592001", "--", "true"], "2592000"),
    (["lock", "x", *NOWHERE, "--lease-time", "0.09", "--", "true"], "0.1"),
    (["status", "--connect", "a:1;b:2"], "separate addresses by commas"),
    (["status", "--connect", "a:1 b:2"], "separate addresses by commas"),
    (["node", "--listen", "a:1,b:2", "--single"], "looks like several"),
    (["status", *NOWHERE, "--tls-cert", "c.pem"], "--tls-key and --tls-ca missing"),
    (["status", *NOWHERE, "--tls-cert", "/no/c.pem", "--tls-key", "k", "--tls-ca", "a"], "/no/c.pem"),
    (["node", "--listen", "127.0.0.1:1", "--single", "--tls-ca", "a.pem"], "--tls-cert and --tls-key missing"),
    (["node", "--listen", "127.0.0.1:1", "--single", "--tls-cert", "/no/c", "--tls-key", "k", "--tls-ca", "a"], "/no/c"),
    (["lock", "name", *NOWHERE, "--"], "after --"),
    (["lock", "bad name", *NOWHERE, "--", "true"], "A-Z a-z 0-9"),
    (["lock", "", *NOWHERE, "--", "true"], "1 to 255"),
    (["lock", "x" * 256, *NOWHERE, "--", "true"], "1 to 255"),
    (["lock", "x", *NOWHERE, "--lease-time", "0", "--", "true"], "seconds"),
    (["lock", "x", *NOWHERE, "--lease-time", "-5", "--", "true"], "seconds"),
    (["lock", "x", *NOWHERE, "--lease-time", "nan", "--", "true"], "finite"),
    (["lock", "x", *NOWHERE, "--lease-time", "1e12", "--", "true"], "604800"),
    (["lock", "x", *NOWHERE, "--lease-time", "1h", "--", "true"], "number of seconds"),
    (["lock", "x", *NOWHERE, "--wait", "inf", "--", "true"], "finite"),
    (["lock", "x", *NOWHERE, "--max-leaders", "0", "--", "true"], "between 1 and"),
    (["lock", "x", *NOWHERE, "--max-leaders", "two", "--", "true"], "whole number"),
    (["node"], "--listen"),
    (["node", "--listen", "127.0.0.1:0"], "peers"),
    (["node", "--listen", "7101", "--single"], "has no port"),
    (["node", "--listen", "127.0.0.1:7101", "--peers", "nonsense"], "nonsense"),
    (["node", "--listen", "127.0.0.1:7101", "--peers", "127.0.0.1:7101"], "peers"),
    (["node", "--listen", "127.0.0.1:7101", "--single", "--peers", "127.0.0.1:7102"], "exclude"),
    (["node", "--listen", "127.0.0.1:7101", "--single", "--durability", "sometimes"], "fsync or process"),
    (["node", "--listen", "127.0.0.1:7101", "--single", "--ephemeral", "--data-dir", "d"], "exclude"),
    (["node", "--listen", "127.0.0.1:7101", "--single", "--election-timeout", "0"], "seconds"),
    (["node", "--listen", "0.0.0.0:7101", "--single"], "secret"),
    (["demo", "--workers", "1"], "between 2 and"),
    (["demo", "--", "true"], "--"),
    (["revoke", "x", *NOWHERE, "--slot", "-1"], "slot"),
    (["revoke", "/", *NOWHERE], "begin with a letter or digit"),
]


IDS = [" ".join(arguments)[:60] for arguments, _ in WRONG]


@pytest.fixture
def own_process() -> Iterator[None]:
    """The command line sets up logging and signals for its process, which is this one here."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    found = {number: signal.getsignal(number) for number in signals}
    for number, handler in signals.items():
        signal.signal(number, handler)
    assert found == signals, "a command that ended leaves the signals as they were"


@pytest.mark.fast
@pytest.mark.usefixtures("own_process")
@pytest.mark.parametrize(("arguments", "word"), WRONG, ids=IDS)
def test_a_wrong_call_is_one_line_and_status_2(
    arguments: list[str],
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(variable)
    status = run(arguments, prog="tenure")
    out, err = capsys.readouterr()
    assert status == 2, (out, err)
    assert is_one_line(err), err
    assert word in err
    assert out == ""
    assert not list(tmp_path.iterdir()), "nothing was made"


@pytest.mark.parametrize(("arguments", "word"), [WRONG[1], WRONG[20], WRONG[31]])
def test_the_same_as_a_process(arguments: list[str], word: str, tmp_path: Path) -> None:
    result = tenure(arguments, tmp_path)
    assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
    assert is_one_line(result.stderr), result.stderr
    assert word in result.stderr
    assert result.stdout == ""


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    result = tenure(["leases"], tmp_path, env={"TENURE_CONNECT": "127.0.0.1:1", "TENURE_WATCH": "maybe"})
    assert result.returncode == 2
    assert is_one_line(result.stderr)
    assert "TENURE_WATCH" in result.stderr


def test_no_argument_at_all_shows_the_help(tmp_path: Path) -> None:
    result = tenure([], tmp_path)
    assert result.returncode == 2
    assert "commands:" in result.stdout


@pytest.mark.parametrize("command", ["status", "leases"])
def test_nobody_there_is_69(command: str, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    result = tenure([command, "--connect", f"127.0.0.1:{port}", "--timeout", "0.5"], tmp_path)
    assert result.returncode == 69
    assert is_one_line(result.stderr), result.stderr
    assert str(port) in result.stderr


def test_a_host_that_does_not_resolve_is_said(tmp_path: Path) -> None:
    result = tenure(["status", "--connect", "no-such-host.invalid:7101", "--timeout", "0.5"], tmp_path)
    assert result.returncode == 69
    assert is_one_line(result.stderr)
    assert "no-such-host.invalid" in result.stderr


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        result = tenure(["node", "--listen", address, "--single", "--log-level", "error"], tmp_path)
    assert result.returncode in (1, 2)
    assert is_one_line(result.stderr), result.stderr
    assert address in result.stderr


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_data_directory_that_cannot_be_used_is_said(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    (port,) = free_ports(1)
    result = tenure(
        ["node", "--listen", f"127.0.0.1:{port}", "--single", "--data-dir", where, "--log-level", "error"], tmp_path
    )
    assert result.returncode in (1, 2)
    assert is_one_line(result.stderr), result.stderr
    assert where in result.stderr


def test_a_data_directory_in_use_is_said(tmp_path: Path) -> None:
    with NodeGroup(tmp_path, size=1) as group:
        (port,) = free_ports(1)
        directory = str(group.nodes[0].data_dir)
        result = tenure(
            ["node", "--listen", f"127.0.0.1:{port}", "--single", "--data-dir", directory, "--log-level", "error"],
            tmp_path,
        )
    assert result.returncode in (1, 2)
    assert is_one_line(result.stderr), result.stderr
    assert directory in result.stderr


@pytest.mark.parametrize("pattern", ["meta", "journal-*"])
def test_a_damaged_file_is_said_with_its_path(pattern: str, tmp_path: Path) -> None:
    """A journal damaged further back, in a raft group that goes on: ``tests/system/test_damaged_journal.py``."""
    with NodeGroup(tmp_path, size=1) as group:
        node = group.nodes[0]
        node.stop()
    (file,) = node.data_dir.glob(pattern)
    file.write_bytes(b"\xff" * file.stat().st_size)
    result = tenure([*node.command(), "--log-level", "error"], tmp_path)
    assert result.returncode == 1
    assert is_one_line(result.stderr), result.stderr
    assert f"{file} is damaged at offset 0: " in result.stderr


def test_a_peer_of_another_cluster_is_refused_on_both_sides__E4(tmp_path: Path) -> None:
    """A node comes back under the address of a member, with the data of another cluster."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with NodeGroup(tmp_path / "one") as group:
        for node in group.nodes:
            node.stop()
        other = NodeGroup(tmp_path / "two")
        other.nodes = [NodeProcess(node.address, node.peers, tmp_path / "two", node.options) for node in group.nodes]
        stranger, *rest = other.nodes

        def knows_its_cluster() -> bool:
            # While it knows of no raft leader, or has just learned of one, another node may answer for it.
            seen = stranger.status()
            return seen is not None and seen.node_id == stranger.address and bool(seen.cluster_id)

        with other:
            eventually(knows_its_cluster, 10.0, "a member of the other cluster knows its id")
        for address in (node.address for node in rest):
            group.node(address).start()
        group.wait_ready()
        process = start([*stranger.command(), "--log-format", "json"], tmp_path)
        try:
            leader = group.leader()
            eventually(lambda: REFUSAL in leader.log(), 10.0, "the leader says whom it refused, and why")
            assert process.poll() is None or process.returncode in (1, 2)
        finally:
            process.kill()
            said = process.communicate()[1]
        assert "Traceback" not in said
        assert REFUSAL in said
        status = leader.status()
        assert status is not None
        assert status.has_quorum, "the running cluster is unharmed"
