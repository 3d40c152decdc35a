"""Starts and stops the worker processes of the system tests, and judges what they wrote down.

Knows: processes, their logs. Must not know: what the workers do.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cluster.cli.runs import Run, judge, read_runs
from cluster.env import boot_clock
from tests.cli.support_cli import environ
from tests.support import eventually

ROOT = Path(__file__).resolve().parent.parent.parent
ENDS_WITHIN_S = 10.0


class Worker:
    """One worker process."""

    def __init__(self, number: int, directory: Path, arguments: Sequence[str]) -> None:
        self.number = number
        self.log = directory / f"worker-{number}.runs"
        self.errors = directory / f"worker-{number}.err"
        self._arguments = [*arguments, "--log", str(self.log)]
        self._dead_at: float | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.system.worker_program", *self._arguments],
                cwd=self.log.parent,
                env=environ(),
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
            )

    def kill(self) -> float:
        """SIGKILL; returns when it was sent. A run that this cut short counts as ended when the process was certainly dead."""
        assert self.process is not None
        at = boot_clock()
        self.process.kill()
        self.process.wait()
        self._dead_at = boot_clock()
        self.close()
        return at

    def end(self) -> None:
        """SIGTERM. Fails when the worker does not end in time, or did not end well: an error of an unknown class, a traceback."""
        assert self.process is not None
        self.process.terminate()
        try:
            status = self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"worker {self.number} hangs\n{self.said()}") from None
        assert status == 0, f"worker {self.number} ended with {status}\n{self.said()}"

    def runs(self) -> list[Run]:
        """Its runs so far. Of the runs that a kill cut short, only those before it are known to have ended then."""
        runs = read_runs(self.log, self.number)
        cut = [at for at, run in enumerate(runs) if run.end is None]
        if cut and self._dead_at is not None:
            runs[cut[0]] = replace(runs[cut[0]], end=self._dead_at)
        return runs

    def said(self) -> str:
        return self.errors.read_text(errors="replace")[-3000:] if self.errors.exists() else ""

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            if self.process.stdin is not None:
                self.process.stdin.close()


@contextmanager
def working(workers: Sequence[Worker]) -> Iterator[None]:
    """Start the workers; none is left at the end, however the block is left."""
    try:
        for worker in workers:
            worker.start()
        yield
    finally:
        for worker in workers:
            worker.close()


def pretend_to_work(seconds: float) -> None:
    """What the job of a worker does."""
    time.sleep(seconds)


def all_runs(workers: Sequence[Worker]) -> list[Run]:
    return sorted((run for worker in workers for run in worker.runs()), key=lambda run: run.start)


def next_run_after(workers: Sequence[Worker], moment: float, within_s: float) -> Run:
    """The first run that began after ``moment``, as soon as there is one."""
    found: list[Run] = []

    def look() -> bool:
        found[:] = [run for run in all_runs(workers) if run.start > moment]
        return bool(found)

    eventually(look, within_s, "a run after the kill; workers said:\n" + "\n".join(worker.said() for worker in workers))
    return found[0]


def assert_exclusive(workers: Sequence[Worker]) -> list[Run]:
    """No two runs overlapped and tokens only rose (I1, I2). Returns the runs."""
    runs = all_runs(workers)
    verdict = judge(runs)
    assert runs
    assert not verdict.overlaps, f"two holders at the same time: {verdict.overlaps[:3]} of {len(verdict.overlaps)}"
    assert not verdict.falls, f"tokens fell: {verdict.falls[:3]} of {len(verdict.falls)}"
    return runs
