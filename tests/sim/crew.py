"""Child processes that do jobs, and are not trusted: one may die or hang, and the others go on.

Knows: processes, one line of JSON for each job and each answer. Must not know: what the jobs are.

``multiprocessing.Pool`` waits for ever for the answer of a worker that was killed. Here each answer has a time limit and each death is
noticed; what the child was at is reported with the reason, and a new child takes its place.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LAST_WORDS_BYTES = 2_000

Job = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """``answer`` of the child to ``job``; or, if there is none, what became of the child."""

    job: Job
    answer: Any = None
    trouble: str = ""


class _Child:
    """One process, started when there is something to do."""

    def __init__(self, command: Sequence[str], limit_s: float) -> None:
        self._command = command
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        self._unread = b""

    def do(self, job: Job) -> Done:
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return Done(job, trouble=self._end("it was dead already"))
        line = self._line(process)
        if line is None:
            return Done(job, trouble=self._end(f"no answer for {self._limit_s:g} s"))
        if not line:
            process.wait()
            return Done(job, trouble=self._end("it died"))
        return Done(job, json.loads(line))

    def _start(self) -> subprocess.Popen[bytes]:
        self._errors.seek(0)
        self._errors.truncate()
        self._unread = b""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )
        return self._process

    def _line(self, process: subprocess.Popen[bytes]) -> bytes | None:
        """One line; empty: the process is gone; None: it took too long."""
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        while b"\n" not in self._unread:
            # Each piece starts the limit anew; an answer is written in one go.
            if not select.select([descriptor], [], [], self._limit_s)[0]:
                return None
            data = os.read(descriptor, 1 << 20)
            if not data:
                return b""
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _end(self, why: str) -> str:
        """End it, and say what is known."""
        assert self._process is not None
        status = self._process.poll()
        self.kill()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - LAST_WORDS_BYTES))
        words = self._errors.read().decode(errors="replace").strip()
        return f"{why} (status {status}){': ' if words else ''}{words}"

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    # What it had not read yet is wanted by nobody any more.
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()

    def close(self) -> None:
        self.kill()
        self._errors.close()


class Crew:
    """``size`` children that run ``command``; each job's answer must come within ``limit_s``."""

    def __init__(self, command: Sequence[str], size: int, limit_s: float) -> None:
        self._children = [_Child(command, limit_s) for _ in range(size)]
        self._lock = threading.Lock()
        self._over = False

    def run(self, jobs: Iterable[Job]) -> Generator[Done, None, None]:
        """Each job once, in the order in which they are done. Jobs are taken when a child is free. When it is left, the children end."""
        source = iter(jobs)
        results: queue.Queue[Done | BaseException | None] = queue.Queue()
        threads = [
            threading.Thread(target=self._work, args=(child, source, results), daemon=True) for child in self._children
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        try:
            while running:
                result = results.get()
                if result is None:
                    running -= 1
                elif isinstance(result, BaseException):
                    raise result
                else:
                    yield result
        finally:
            self._over = True
            for child, thread in zip(self._children, threads, strict=True):
                # One that was about to start a child may still do so.
                while thread.is_alive():
                    child.kill()
                    thread.join(0.1)
                child.close()

    def _work(self, child: _Child, jobs: Iterator[Job], results: queue.Queue[Done | BaseException | None]) -> None:
        try:
            while not self._over:
                with self._lock:
                    job = next(jobs, None)
                if job is None:
                    break
                results.put(child.do(job))
        except BaseException as error:
            if not self._over:
                results.put(error)
        results.put(None)


def command_of(module: str, function: str) -> list[str]:
    """What runs a child that does this."""
    return [sys.executable, "-c", f"from tests.sim import crew; from {module} import {function} as do; crew.serve(do)"]


def serve(do: Callable[[Job], Any]) -> None:
    """The child's side: answer jobs until there are no more."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    sys.stdout = sys.stderr
    for line in sys.stdin:
        answers.write(json.dumps(do(json.loads(line))) + "\n")
        answers.flush()
