"""Starts, stops, kills and replaces the workers under faults, and puts together what they wrote down.

Knows: processes, diaries. Must not know: what the workers do, what is right.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cli.support_cli import environ

ENDS_WITHIN_S = 30.0


class CrewMember:
    """A worker process, and its later lives."""

    def __init__(
        self, me: str, directory: Path, arguments: Sequence[str], extra: Mapping[str, str] | None = None
    ) -> None:
        self.me = me
        self.diaries: list[Path] = []
        self.stopped = False
        self._directory = directory
        self._arguments = [*arguments, "--me", me]
        self._environ = environ(extra)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, seed: int) -> None:
        diary = self._directory / f"{self.me}-{len(self.diaries)}.jsonl"
        diary.touch()
        self.diaries.append(diary)
        arguments = [*self._arguments, "--diary", str(diary), "--seed", str(seed)]
        with (self._directory / f"{self.me}.err").open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.worker_program", *arguments],
                cwd=self._directory,
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=errors,
                stderr=errors,
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        self.stopped = True
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        self.stopped = False
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, which ends a stopped process too."""
        self.stopped = False
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()

    def end(self) -> None:
        """SIGTERM. Fails when it does not end in time, or ended before, or not well: an error of an unknown class, a traceback."""
        assert self._process is not None
        self._process.terminate()
        try:
            status = self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.me} hangs\n{self.said()}") from None
        assert status == 0, f"{self.me} ended with {status}\n{self.said()}"

    def said(self) -> str:
        return (self._directory / f"{self.me}.err").read_text(errors="replace")[-3000:]


@contextmanager
def at_work(crew: Sequence[CrewMember], seed: int) -> Iterator[None]:
    """Start all; none is left at the end, however the block is left."""
    try:
        for number, member in enumerate(crew):
            member.start(seed + number)
        yield
    finally:
        for member in crew:
            member.kill()


def diaries(crew: Sequence[CrewMember]) -> list[Path]:
    return [diary for member in crew for diary in member.diaries]
