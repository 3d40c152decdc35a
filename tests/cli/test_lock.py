"""``lock`` against a real raft group: exit statuses, signals, and that a command is dead before the name passes on (A3).

Knows: the command line, processes. Must not know: the product's inside.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure as api
from tests.cli.support_cli import fill, is_one_line, start, tenure
from tests.support import eventually
from tests.support_cluster import NodeGroup, free_ports

STUBBORN = (sys.executable, str(Path(__file__).with_name("program_stubborn.py")))


@pytest.fixture(scope="module")
def group(tenure_group: NodeGroup) -> NodeGroup:
    tenure_group.start()
    return tenure_group


class Locks:
    """Starts ``lock`` processes; none is left."""

    def __init__(self, group: NodeGroup, directory: Path) -> None:
        self.endpoints = group.endpoints
        self._directory = directory
        self._started: list[subprocess.Popen[str]] = []

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return tenure(["lock", *arguments], self._directory, env={"TENURE_CONNECT": self.endpoints})

    def start(self, *arguments: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        process = start(["lock", *arguments], self._directory, env={"TENURE_CONNECT": self.endpoints}, stderr=stderr)
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def locks(group: NodeGroup, tmp_path: Path) -> Iterator[Locks]:
    made = Locks(group, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def coordinator(group: NodeGroup) -> Iterator[api.Coordinator]:
    with api.connect(group.endpoints) as coordinator:
        yield coordinator


def holder_token(coordinator: api.Coordinator, name: str) -> int | None:
    leader = coordinator.state(name).leader
    return None if leader is None else int(leader.token)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_the_command_runs_with_name_token_and_slot_and_its_status_comes_back(locks: Locks) -> None:
    first = locks.run("env", "--", "sh", "-c", "echo $TENURE_NAME $TENURE_TOKEN $TENURE_SLOT; exit 7")
    second = locks.run("env", "--", "sh", "-c", "echo $TENURE_NAME $TENURE_TOKEN $TENURE_SLOT")
    assert (first.returncode, second.returncode) == (7, 0), first.stderr + second.stderr
    (name, token, slot), (_, later, _) = first.stdout.split(), second.stdout.split()
    assert (name, slot) == ("env", "0")
    assert int(later) > int(token)
    assert first.stderr == second.stderr == ""


def test_the_version_of_the_command_is_shown_with_the_lease(locks: Locks, coordinator: api.Coordinator) -> None:
    locks.start("versioned", "--worker-version", "1.4.2", "--", "sleep", "60")
    eventually(lambda: [lease.worker_version for lease in coordinator.leases("versioned")] == ["1.4.2"], 20.0)
    refused = locks.run("versioned", "--worker-version", "x" * 65, "--", "true")
    assert (refused.returncode, "worker_version" in refused.stderr) == (2, True)


def test_the_lease_is_extended_for_as_long_as_the_command_runs(locks: Locks, coordinator: api.Coordinator) -> None:
    running = locks.start("long", "--lease-time", "1", "--", "sleep", "3")
    eventually(lambda: holder_token(coordinator, "long"), 10.0)
    token = holder_token(coordinator, "long")
    lease = coordinator.acquire("long", lease_time=5.0, wait_time=20.0)
    assert running.wait(10) == 0, running.communicate()
    assert lease is not None
    assert token is not None
    assert lease.token > token
    lease.release()


def test_a_signal_that_ends_the_command_is_128_plus_n(locks: Locks) -> None:
    assert locks.run("sig", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_a_second_contender_exits_75_and_names_the_holder(locks: Locks, coordinator: api.Coordinator) -> None:
    first = locks.start("busy", "--", "sleep", "100")
    eventually(lambda: holder_token(coordinator, "busy"), 10.0)
    second = locks.run("busy", "--", "echo", "ran")
    assert second.returncode == 75
    assert second.stdout == ""
    assert is_one_line(second.stderr)
    assert str(first.pid) in second.stderr, "hostname:pid of the first"
    assert str(holder_token(coordinator, "busy")) in second.stderr


def test_max_leaders_gives_each_a_slot(locks: Locks, coordinator: api.Coordinator) -> None:
    locks.start("pool", "--max-leaders", "2", "--", "sleep", "100")
    eventually(lambda: holder_token(coordinator, "pool"), 10.0)
    second = locks.run("pool", "--max-leaders", "2", "--", "sh", "-c", "echo $TENURE_SLOT")
    assert (second.returncode, second.stdout) == (0, "1\n")


def test_wait_stands_in_line(locks: Locks, coordinator: api.Coordinator, tmp_path: Path) -> None:
    locks.start("line", "--", "sh", "-c", f"sleep 1; echo first >> {tmp_path}/order")
    eventually(lambda: holder_token(coordinator, "line"), 10.0)
    second = locks.run("line", "--wait", "20", "--", "sh", "-c", f"echo second >> {tmp_path}/order")
    assert second.returncode == 0
    assert lines(tmp_path / "order") == ["first", "second"]


def test_term_ends_the_command_and_frees_the_name_within_a_second(
    locks: Locks, coordinator: api.Coordinator, tmp_path: Path
) -> None:
    first = locks.start(
        "nightly", "--lease-time", "600", "--", "sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 100; exit 0"
    )
    eventually(lambda: lines(tmp_path / "pid"), 10.0)
    first.terminate()
    lease = coordinator.acquire("nightly", lease_time=5.0, wait_time=1.0)
    assert lease is not None, "free within a second"
    lease.release()
    assert first.wait(5) == 143
    assert not group_lives(int(lines(tmp_path / "pid")[0]))


def test_term_becomes_kill_when_the_grace_is_over(locks: Locks, tmp_path: Path) -> None:
    first = locks.start("deaf", "--grace", "0.3", "--", *STUBBORN, str(tmp_path / "beats"))
    eventually(lambda: lines(tmp_path / "beats"), 10.0)
    first.terminate()
    assert first.wait(5) == 137


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1, signal.SIGQUIT])
def test_signals_are_passed_on_and_the_command_decides(locks: Locks, tmp_path: Path, number: int) -> None:
    script = f"trap 'exit 9' {int(number)}; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"
    first = locks.start(f"signal-{int(number)}", "--", "sh", "-c", script)
    eventually(lambda: lines(tmp_path / "pid"), 10.0)
    first.send_signal(number)
    assert first.wait(5) == 9


def test_interrupted_while_waiting_leaves_nothing(locks: Locks, coordinator: api.Coordinator) -> None:
    lease = coordinator.acquire("queue", lease_time=30.0)
    assert lease is not None
    waiting = locks.start("queue", "--wait", "100", "--", "echo", "ran")
    eventually(lambda: coordinator.state("queue").waiters == 1, 10.0)
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(5) == 130
    out, err = waiting.communicate()
    assert (out, "Traceback" in err) == ("", False)
    eventually(lambda: coordinator.state("queue").waiters == 0, 5.0)
    lease.release()
    again = coordinator.acquire("queue", lease_time=1.0)
    assert again is not None, "the one that gave up was not granted it"
    again.release()


def test_no_nodes_is_69(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    result = tenure(["lock", "x", "--connect", f"127.0.0.1:{port}", "--timeout", "1", "--", "echo", "ran"], tmp_path)
    assert result.returncode == 69
    assert result.stdout == ""
    assert is_one_line(result.stderr), result.stderr


@pytest.mark.parametrize(("program", "status"), [("/no/such/program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_run_locks_nothing(
    locks: Locks, coordinator: api.Coordinator, program: str, status: int
) -> None:
    result = locks.run("unrunnable", "--", program)
    assert result.returncode == status
    assert is_one_line(result.stderr)
    assert holder_token(coordinator, "unrunnable") is None


def test_what_the_command_left_running_is_gone_before_the_name_is_free(locks: Locks, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    script = f'"$0" "$1" {beats} & until [ -s {beats} ]; do sleep 0.02; done'
    first = locks.run("leftover", "--grace", "0.2", "--", "sh", "-c", script, *STUBBORN)
    assert first.returncode == 0
    count = len(lines(beats))
    assert count
    second = locks.run("leftover", "--", "true")
    assert second.returncode == 0
    assert len(lines(beats)) == count


def group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def last_beat_and_next_start(locks: Locks, tmp_path: Path, name: str, hurt: int) -> tuple[float, float, float]:
    """A stubborn command under a lease of 2 s, its ``lock`` hurt by a signal, another one waiting for the name.

    Returns the first one's last sign of life, the second one's first, and when the signal was sent, all on one clock.
    """
    beats = tmp_path / "beats"
    options = ("--lease-time", "2", "--grace", "0.3")
    first = locks.start(name, *options, "--", *STUBBORN, str(beats))
    eventually(lambda: len(lines(beats)) > 10, 10.0)
    program = "import sys, time; open(sys.argv[1], 'w').write(repr(time.monotonic()))"
    second = locks.start(name, *options, "--wait", "20", "--", sys.executable, "-c", program, str(tmp_path / "second"))
    hurt_at = time.monotonic()
    first.send_signal(hurt)
    try:
        assert second.wait(20) == 0, second.communicate()
    finally:
        if hurt == signal.SIGSTOP:
            first.send_signal(signal.SIGCONT)
    last = float(lines(beats)[-1])
    started = float((tmp_path / "second").read_text())
    if hurt == signal.SIGSTOP:
        assert first.wait(10) != 0, "a run that was cut short is no success"
    return last, started, hurt_at


def test_a_stopped_locks_command_is_dead_before_the_next_starts__A3_I8(locks: Locks, tmp_path: Path) -> None:
    last, started, _ = last_beat_and_next_start(locks, tmp_path, "stopped", signal.SIGSTOP)
    assert last < started


def test_a_killed_locks_command_dies_with_it__A3(locks: Locks, tmp_path: Path) -> None:
    last, started, hurt_at = last_beat_and_next_start(locks, tmp_path, "killed", signal.SIGKILL)
    assert last < started
    assert last - hurt_at < 1.0, "not at the deadline, but at once"


def test_a_revoked_lease_ends_the_command(locks: Locks, coordinator: api.Coordinator, tmp_path: Path) -> None:
    beats = tmp_path / "beats"
    first = locks.start("called-in", "--lease-time", "600", "--grace", "0.2", "--", *STUBBORN, str(beats))
    eventually(lambda: lines(beats), 10.0)
    result = tenure(["revoke", "called-in"], tmp_path, env={"TENURE_CONNECT": locks.endpoints})
    assert result.returncode == 0, result.stderr
    assert first.wait(10) == 137
    assert "revoked" in first.communicate()[1]
    lease = coordinator.acquire("called-in", lease_time=1.0, wait_time=5.0)
    assert lease is not None
    lease.release()


@pytest.mark.parametrize("reader", ["gone", "stopped"])
def test_a_revoked_lease_ends_the_command_whoever_reads_stderr__A3(
    locks: Locks, coordinator: api.Coordinator, tmp_path: Path, reader: str
) -> None:
    beats = tmp_path / "beats"
    read, write = os.pipe()
    if reader == "gone":
        os.close(read)
    else:
        fill(write)
    options = ("--lease-time", "600", "--grace", "0.2", "--log-level", "info")
    script = f'"$0" "$1" {beats} & wait'
    first = locks.start(f"unheard-{reader}", *options, "--", "sh", "-c", script, *STUBBORN, stderr=write)
    os.close(write)
    try:
        eventually(lambda: lines(beats), 20.0)
        result = tenure(["revoke", f"unheard-{reader}"], tmp_path, env={"TENURE_CONNECT": locks.endpoints})
        assert result.returncode == 0, result.stderr
        lease = coordinator.acquire(f"unheard-{reader}", lease_time=1.0, wait_time=15.0)
        assert lease is not None, "given back once the command was dead"
        count = len(lines(beats))
        lease.release()
        assert first.wait(15) == 143
        assert len(lines(beats)) == count
    finally:
        if reader == "stopped":
            os.close(read)


def test_without_a_majority_the_command_ends_inside_its_lease__A3(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group:
        own = Locks(group, tmp_path)
        try:
            beats = tmp_path / "beats"
            first = own.start("cut-off", "--lease-time", "3", "--grace", "0.3", "--", *STUBBORN, str(beats))
            eventually(lambda: lines(beats), 10.0)
            for node in group.nodes:
                node.pause()
            cut_at = time.monotonic()
            assert first.wait(15) == 137
            assert float(lines(beats)[-1]) < cut_at + 3.0
            assert "could not be renewed in time" in first.communicate()[1]
        finally:
            own.close()


def test_a_killed_guard_takes_the_command_along_and_the_name_is_free(
    locks: Locks, coordinator: api.Coordinator, tmp_path: Path
) -> None:
    beats = tmp_path / "beats"
    first = locks.start("guardless", "--lease-time", "600", "--", *STUBBORN, str(beats))
    eventually(lambda: lines(beats), 10.0)
    listed = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, text=True, check=True).stdout
    (guard,) = [int(pid) for parent, pid in map(str.split, listed.splitlines()) if int(parent) == first.pid]
    os.kill(guard, signal.SIGKILL)
    assert first.wait(10) == 1
    assert "guard" in first.communicate()[1]
    count = len(lines(beats))
    lease = coordinator.acquire("guardless", lease_time=1.0, wait_time=1.0)
    assert lease is not None
    lease.release()
    assert len(lines(beats)) == count
