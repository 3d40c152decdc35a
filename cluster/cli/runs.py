"""What workers write down of their runs, and the verdict over all of it.

Knows: one line a beginning, one line an end, on the clock that all processes of this machine share. Must not know: leases, processes.

A run's interval lies inside its lease: it begins after the grant came and ends before the release is sent. So two runs that overlap
were two holders at the same time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from cluster.env import boot_clock


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one worker. ``end`` is None while it runs, or if its worker died in it. Times are boot-clock seconds."""

    worker: int
    token: int
    start: float
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Pairs of runs that overlapped, and pairs in the order of time whose token did not rise."""

    overlaps: tuple[tuple[Run, Run], ...]
    falls: tuple[tuple[Run, Run], ...]

    @property
    def good(self) -> bool:
        return not self.overlaps and not self.falls


class RunLog:
    """A worker's own file. Every line is one write, so that a kill leaves whole lines."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def begin(self, token: int) -> None:
        self._write("begin", token)

    def end(self, token: int) -> None:
        self._write("end", token)

    def _write(self, what: str, token: int) -> None:
        os.write(self._fd, f"{what} {token} {boot_clock()!r}\n".encode())

    def close(self) -> None:
        os.close(self._fd)


def read_runs(path: Path, worker: int) -> list[Run]:
    """The runs in a worker's file, in order."""
    runs: list[Run] = []
    text = path.read_text() if path.exists() else ""
    for line in text.splitlines():
        what, token, at = line.split()
        if what == "begin":
            runs.append(Run(worker, int(token), float(at)))
        else:
            runs[-1] = replace(runs[-1], end=float(at))
    return runs


def judge(runs: Iterable[Run]) -> Verdict:
    """Look for two holders at the same time, and for tokens that did not rise.

    A run without an end counts as going on for ever; of a worker that was killed, put in the time at which it was certainly dead.
    """
    overlaps = []
    falls = []
    latest: Run | None = None
    before: Run | None = None
    for run in sorted(runs, key=lambda each: each.start):
        if latest is not None and (latest.end is None or run.start < latest.end):
            overlaps.append((latest, run))
        if before is not None and run.token <= before.token:
            falls.append((before, run))
        if latest is None or (latest.end is not None and (run.end is None or run.end > latest.end)):
            latest = run
        before = run
    return Verdict(tuple(overlaps), tuple(falls))
