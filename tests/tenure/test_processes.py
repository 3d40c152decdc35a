"""Signals to a process that waits for a name or works under it: the work ends, then the name is free within a second (D1, D3).

Knows: processes, signals, one node in this process. Must not know: the elector's steps.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tenure
from tests.support import eventually
from tests.support_cluster import free_ports
from tests.tenure.program_detached import FORMS as DETACHED
from tests.tenure.program_elector import FORMS

ENDS_WITHIN_S = 10.0


class Node(NamedTuple):
    address: str
    coordinator: Any


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    with tenure.join(address, single=True, ephemeral=True) as coordinator:
        yield Node(address, coordinator)


class Program:
    def __init__(
        self, node: Node, name: str, form: str, directory: Path, number_s: float = 60.0, module: str = "program_elector"
    ) -> None:
        self._said = directory / "stdout"
        self._complained = directory / "stderr"
        with self._said.open("wb") as said, self._complained.open("wb") as complained:
            arguments = [node.address, name, form, str(number_s)]
            command = [sys.executable, "-m", f"tests.tenure.{module}", *arguments]
            self.process = subprocess.Popen(command, stdout=said, stderr=complained)

    def said(self) -> list[str]:
        return self._said.read_text().split()

    def complaints(self) -> str:
        return self._complained.read_text()

    def wait_for(self, word: str) -> None:
        eventually(lambda: word in self.said() or self.process.poll() is not None, 20, f"the program says {word}")
        assert word in self.said(), self.complaints()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


@pytest.mark.parametrize(
    ("form", "number"),
    # A handler that raises in the middle of a loop is not asyncio's way to be ended by SIGTERM.
    [
        (form, number)
        for form in FORMS
        for number in (signal.SIGINT, signal.SIGTERM)
        if (form, number) != ("asyncio", signal.SIGTERM)
    ],
)
def test_a_signal_ends_the_work_and_then_frees_the_name__D1(
    node: Node, form: str, number: signal.Signals, tmp_path: Path
) -> None:
    name = f"work/{form}/{number}"
    with Program(node, name, form, tmp_path) as program:
        program.wait_for("begun")
        assert node.coordinator.acquire(name) is None
        program.process.send_signal(number)
        program.wait_for("ended")
        lease = node.coordinator.acquire(name, wait_time=1)
        assert lease is not None, "the name was not free within a second"
        assert program.process.wait(ENDS_WITHIN_S) in (143, -signal.SIGINT, 1)
        lease.release()
        assert_only_the_interrupt(program.complaints(), number)


@pytest.mark.parametrize("form", FORMS)
def test_a_signal_while_waiting_leaves_no_trace__D1__C4(node: Node, form: str, tmp_path: Path) -> None:
    name = f"wait/{form}"
    with node.coordinator.acquire(name) as lease, Program(node, name, form, tmp_path) as program:
        program.wait_for("waiting")
        eventually(lambda: node.coordinator.state(name).waiters == 1, what="it waits")
        program.process.send_signal(signal.SIGINT)
        assert program.process.wait(ENDS_WITHIN_S) in (-signal.SIGINT, 1)
        eventually(lambda: node.coordinator.state(name).waiters == 0, what="nobody waits")
        assert "begun" not in program.said()
        assert_only_the_interrupt(program.complaints(), signal.SIGINT)
        lease.release()
        node.coordinator.acquire(name).release()


def assert_only_the_interrupt(complaints: str, number: signal.Signals) -> None:
    """The program's own traceback, and none of a thread of ours."""
    assert "Exception in thread" not in complaints
    assert "Exception ignored" not in complaints
    assert complaints.count("Traceback") <= (4 if number == signal.SIGINT else 0), complaints


def test_a_killed_holder_keeps_the_name_until_its_lease_is_over__rule_4(node: Node, tmp_path: Path) -> None:
    with Program(node, "killed", "blocking", tmp_path, 1.0) as program:
        program.wait_for("begun")
        (info,) = node.coordinator.leases("killed")
        program.process.kill()
        program.process.wait()
        assert node.coordinator.acquire("killed") is None
        with node.coordinator.acquire("killed", wait_time=10) as successor:
            assert successor.token > info.token


@pytest.mark.parametrize("form", DETACHED)
def test_the_end_of_the_interpreter_lets_short_work_end_and_frees_its_name__D3(
    node: Node, form: str, tmp_path: Path
) -> None:
    name = f"exit/{form}"
    with Program(node, name, form, tmp_path, 0.2, "program_detached") as program:
        program.wait_for("waiting")
        assert program.process.wait(ENDS_WITHIN_S) == 0
        assert program.said() == ["begun", "waiting", "ended"]
        assert not program.complaints()
        # Given back, and nobody waits: a holder's lease would have lasted for seconds.
        with node.coordinator.acquire(name, wait_time=0.5) as lease:
            assert lease is not None
        assert node.coordinator.state(name, consistent=True).waiters == 0


def test_the_end_of_the_interpreter_closes_a_latch__D3(node: Node, tmp_path: Path) -> None:
    with Program(node, "exit-latch", "latch", tmp_path, 0.0, "program_detached") as program:
        assert program.process.wait(ENDS_WITHIN_S) == 0
        assert program.said() == ["waiting", "ended"]
        assert not program.complaints()
        with node.coordinator.acquire("exit-latch", wait_time=0.5) as lease:
            assert lease is not None


def test_the_end_of_the_interpreter_does_not_wait_for_ever_nor_release_under_work__D3(
    node: Node, tmp_path: Path
) -> None:
    name = "exit-long"
    with Program(node, name, "thread", tmp_path, 60.0, "program_detached") as program:
        program.wait_for("waiting")
        assert program.process.wait(ENDS_WITHIN_S) == 0
        assert program.said() == ["begun", "waiting"]
        assert program.complaints() == "client.closed_with_leases count=1: they run out by themselves\n"
        # Not renewed any more, and not given back: it ends by its time.
        assert node.coordinator.acquire(name) is None
        with node.coordinator.acquire(name, wait_time=10) as successor:
            assert successor is not None
