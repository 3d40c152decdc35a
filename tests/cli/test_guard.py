"""The guard: whatever happens to ``lock``, nothing of the command's process group outlives the deadline.

Knows: the guard's program and lines. Must not know: leases, nodes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cluster.cli import guard as guard_program
from cluster.env import boot_clock
from tests.cli.support_cli import fill
from tests.support import eventually

pytestmark = pytest.mark.core

# A shell that does not hear TERM, and says when it is ready not to.
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
HEARS = "trap 'echo heard; exit 3' TERM; echo ready; while :; do sleep 0.05; done"


class Guarded:
    """A guard with a command, and this test in the place of ``lock``."""

    def __init__(
        self,
        directory: Path,
        *command: str,
        lasts: float = 30.0,
        term_lead: float = 0.4,
        kill_lead: float = 0.1,
        grace: float = 0.3,
        stderr: int | None = None,
        program: Sequence[str] = (sys.executable,),
    ) -> None:
        self.output = directory / "output"
        control_read, self.control = os.pipe()
        self.status, status_write = os.pipe()
        self.deadline = boot_clock() + lasts
        numbers = (control_read, status_write, self.deadline, term_lead, kill_lead, grace)
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*program, "-I", "-S", guard_program.__file__, *map(repr, numbers), *command],
                pass_fds=(control_read, status_write),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if stderr is None else stderr,
                start_new_session=True,
            )
        os.close(control_read)
        os.close(status_write)
        self._text = b""

    def say(self, line: str) -> None:
        os.write(self.control, line.encode() + b"\n")

    def let_go(self) -> None:
        """What the system does when ``lock`` is killed."""
        os.close(self.control)
        self.control = -1

    def ready(self) -> None:
        eventually(lambda: b"ready" in self.output.read_bytes(), 5.0, "the command runs")

    def report(self, word: str) -> str:
        """Read reports until one begins with ``word``; returns the rest of it."""
        while True:
            for line in self._text.decode().splitlines():
                if line.startswith(word):
                    return line[len(word) + 1 :]
            data = os.read(self.status, 4096)
            assert data, f"no {word!r} in {self._text!r}"
            self._text += data

    @property
    def pid(self) -> int:
        return int(self.report("started"))

    def close(self) -> None:
        if self.control >= 0:
            os.close(self.control)
        os.close(self.status)
        self.process.kill()
        self.process.wait()
        if b"started" in self._text:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


Make = Callable[..., Guarded]


def group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Make]:
    made: list[Guarded] = []

    def make(*command: str, **options: Any) -> Guarded:
        made.append(Guarded(tmp_path, *command, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize(
    ("command", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)],
)
def test_the_commands_status_is_reported(guarded: Make, command: str, code: int) -> None:
    assert guarded("sh", "-c", command).report("exited") == str(code)


def test_a_program_that_is_not_there_is_reported(guarded: Make) -> None:
    assert guarded("/no/such/program").report("failed") == "2"


def test_term_then_kill_before_the_deadline__I8(guarded: Make) -> None:
    run = guarded("sh", "-c", DEAF, lasts=1.0)
    pid = run.pid
    run.ready()
    assert run.report("ending") == "lease"
    assert run.report("exited") == "137"
    assert boot_clock() < run.deadline, "dead before the deadline"
    assert not group_lives(pid)


def test_a_command_that_hears_term_ends_by_itself(guarded: Make) -> None:
    run = guarded("sh", "-c", HEARS, lasts=1.0)
    run.ready()
    assert run.report("exited") == "3"
    assert b"heard" in run.output.read_bytes()
    assert boot_clock() < run.deadline - 0.1, "it was not the KILL"


def test_the_deadline_can_be_moved_on(guarded: Make) -> None:
    run = guarded("sh", "-c", "sleep 0.9; exit 5", lasts=0.6)
    run.say(f"deadline {boot_clock() + 30!r}")
    assert run.report("exited") == "5"


def test_the_end_of_lock_is_the_end_of_the_command(guarded: Make) -> None:
    run = guarded("sh", "-c", DEAF, grace=0.2)
    pid = run.pid
    run.ready()
    run.let_go()
    assert run.report("ending") == "orphaned"
    assert run.report("exited") == "137"
    assert not group_lives(pid)
    assert b"lock is gone" in run.output.read_bytes()


def test_grandchildren_end_too(guarded: Make) -> None:
    run = guarded("sh", "-c", f"({DEAF}) & (sleep 100) & wait", grace=0.2)
    pid = run.pid
    run.ready()
    run.let_go()
    run.report("exited")
    assert not group_lives(pid)


def test_what_the_command_leaves_behind_ends_before_the_end_is_reported(guarded: Make) -> None:
    run = guarded("sh", "-c", f"({DEAF}) & exit 4", grace=0.2)
    pid = run.pid
    assert run.report("ending") == "leftovers"
    assert run.report("exited") == "4"
    assert not group_lives(pid)


def test_a_stopped_command_ends_too(guarded: Make) -> None:
    run = guarded("sh", "-c", "kill -STOP $$; exit 1", lasts=0.8)
    assert run.report("exited") == "143"
    assert boot_clock() < run.deadline


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_signals_are_passed_on_without_a_kill(guarded: Make, number: int) -> None:
    run = guarded("sh", "-c", f"trap 'echo got; exit 6' {int(number)}; echo ready; while :; do sleep 0.05; done")
    run.ready()
    run.say(f"signal {int(number)}")
    assert run.report("exited") == "6"


def test_end_kills_when_the_grace_is_over(guarded: Make) -> None:
    run = guarded("sh", "-c", DEAF, grace=0.2)
    run.ready()
    begun = time.monotonic()
    run.say("end 15")
    assert run.report("exited") == "137"
    assert 0.15 < time.monotonic() - begun < 3.0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a child that its parent died")
def test_the_command_dies_with_its_guard(guarded: Make) -> None:
    run = guarded("sleep", "100")
    pid = run.pid
    run.process.kill()
    eventually(lambda: not group_lives(pid), 5.0, "the command died with its guard")


# A member of the group that nothing but the guard ends, and a leader that would end by the death of its guard alone.
FAMILY = f"({DEAF}) & wait"


def ends_in_time(run: Guarded) -> None:
    """``lock`` is killed: its command is dead before the deadline, and all of it, and the guard does not stay either."""
    pid = run.pid
    run.ready()
    run.let_go()
    assert run.report("ending") == "orphaned"
    assert run.report("exited") == "143"
    assert boot_clock() < run.deadline, "dead before the deadline"
    assert not group_lives(pid)
    assert run.process.wait(10) == 0


def test_a_stderr_whose_reader_is_gone_does_not_keep_the_guard_from_its_work__I8(guarded: Make) -> None:
    read, write = os.pipe()
    run = guarded("sh", "-c", FAMILY, grace=0.2, stderr=write)
    os.close(write)
    os.close(read)
    ends_in_time(run)


def test_nor_does_a_stderr_that_nobody_reads__I8(guarded: Make) -> None:
    read, write = os.pipe()
    run = guarded("sh", "-c", FAMILY, grace=0.2, stderr=write)
    fill(write)
    try:
        ends_in_time(run)
    finally:
        os.close(read)
        os.close(write)


def test_nor_does_a_stderr_that_is_closed__I8(guarded: Make) -> None:
    program = ("sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable)
    ends_in_time(guarded("sh", "-c", FAMILY, grace=0.2, program=program))


def test_a_guard_that_breaks_kills_the_command_first__I8(guarded: Make) -> None:
    run = guarded("sh", "-c", FAMILY)
    pid = run.pid
    run.ready()
    run.say("deadline soon")
    assert run.report("exited") == "137"
    assert not group_lives(pid)
    assert run.process.wait(10) == 0
    assert b"the guard broke" in run.output.read_bytes()


def test_when_it_is_time_to_end_nothing_is_started__I8(guarded: Make) -> None:
    run = guarded("sh", "-c", "echo ran", lasts=0.0)
    assert run.report("late") == ""
    assert run.process.wait(10) == 1
    assert run.output.read_bytes() == b""
