"""A holder is stopped between looking at its lease and writing, for longer than its lease lasts.

Knows: processes, counters, the public interface. Must not know: the product's inside.

The write of a process that was stopped cannot be helped by any lease: the counter without a gate loses an increment, here every time.
The one behind the gate does not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import tenure
from tests.cli.support_cli import environ
from tests.faults.program_action import FORMS
from tests.faults.program_holder import RECORD
from tests.faults.support_store import Store
from tests.history.counter import lost_increments
from tests.support_cluster import NodeGroup

LEASE_S = 2.5
NAME = "job"


class Holder:
    """A process of ``program_holder`` or ``program_action``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def says(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the holder ended before it had said anything"
        found: dict[str, Any] = json.loads(line)
        return found

    def stop(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Its next statement is under way before anything of its process has run."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        os.kill(self.process.pid, signal.SIGCONT)


@contextmanager
def holder(program: str, arguments: Sequence[object], errors: Path) -> Iterator[Holder]:
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-m", f"tests.faults.{program}", *map(str, arguments)],
            env=environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        try:
            yield Holder(process)
        finally:
            process.kill()


def test_a_holder_stopped_past_its_lease__B2_A6_C1_I4_I8_I10(tmp_path: Path) -> None:
    plain, fenced = Store("plain", fenced=False), Store("fenced", fenced=True)
    with (
        NodeGroup(tmp_path) as group,
        tenure.connect(group.endpoints) as coordinator,
        plain.running(),
        fenced.running(),
        holder(
            "program_holder", [group.endpoints, NAME, LEASE_S, plain.port, fenced.port], tmp_path / "holder.err"
        ) as stale,
    ):
        before = stale.says()
        assert before["confidence"] != "lost"
        assert before["values"] == [0, 0]
        stale.stop()
        successor = coordinator.acquire(NAME, lease_time=60.0, wait_time=30.0)
        assert successor is not None
        assert successor.token > before["token"]
        for store in (plain, fenced):
            value = store.answer("read", "successor", successor.token)
            assert store.answer("write", "successor", successor.token, value + 1)
        found = coordinator.records.get(RECORD)
        assert found is not None
        assert found.value == b"first"
        written = coordinator.records.put(RECORD, b"second", lease=successor)
        stale.go_on()
        after = stale.says()
        assert after["confidence"] == "lost", "its first statement finds the lease lost"
        assert after["check_refused"], "check() raises"
        assert after["put_refused"]
        assert coordinator.records.get(RECORD) == written, "its write of the record changes nothing"
        assert not after["released"], "its release frees nothing"
        assert after["took"] == [True, False], "the gate refuses what nothing else could"
        state = coordinator.state(NAME, consistent=True)
        assert state.leader is not None
        assert state.leader.token == successor.token
        assert successor.confidence == "held"
        assert successor.release(), "the successor is unharmed"
    lost = lost_increments(plain.events)
    assert len(lost) == 1, "a counter that trusts in the lease alone loses an increment"
    assert f"under token {before['token']}" in lost[0]
    assert not lost_increments(fenced.events)


def test_check_is_the_first_statement_of_an_action_that_was_stopped_past_its_lease__A6_B2_I8(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group, tenure.connect(group.endpoints) as coordinator, ExitStack() as stack:
        tokens: dict[str, int] = {}
        stale: dict[str, Holder] = {}
        for form in FORMS:
            arguments = [group.endpoints, form, LEASE_S, form]
            stale[form] = stack.enter_context(holder("program_action", arguments, tmp_path / f"{form}.err"))
            tokens[form] = stale[form].says()["token"]
        for action in stale.values():
            action.stop()
        for form, action in stale.items():
            successor = coordinator.acquire(form, lease_time=60.0, wait_time=30.0)
            assert successor is not None
            assert successor.token > tokens[form]
            action.go_on()
            assert action.says() == {"check": "raised"}
            assert action.says() == {"outcome": "LeaseLost"}
            state = coordinator.state(form, consistent=True)
            assert state.leader is not None
            assert state.leader.token == successor.token
            assert successor.release(), "the successor is unharmed"
