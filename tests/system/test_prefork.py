"""Four workers of gunicorn share one node by ``join_or_connect``; its process is killed once (issue: prefork servers).

Knows: what the workers write into their diary. Must not know: who of them is the node, but by the lock file.
"""

from __future__ import annotations

import http.client
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house import ROOT
from tests.support import eventually
from tests.support_cluster import free_ports

WORKERS = 4
STARTED_WITHIN_S = 30.0
# What is promised, and what is asked of a machine that is busy with other tests.
BACK_WITHIN_S = 2.0
BACK_WITHIN_BUSY_S = 6.0

HOOKS = """
def post_worker_init(worker):
    from tests.system import program_prefork
    program_prefork.start()
"""


class Line(NamedTuple):
    at: float
    pid: int
    word: str
    rest: str


class Gunicorn:
    """The server, its workers' diary, and who of them is the node."""

    def __init__(self, directory: Path, *, preload: bool) -> None:
        self.diary = directory / "diary"
        self.lock = directory / "node.sock.lock"
        self.log = directory / "log"
        self.http = directory / "http.sock"
        (directory / "hooks.py").write_text(HOOKS)
        (port,) = free_ports(1)
        environ = {
            **os.environ,
            # Of its own control socket.
            "HOME": str(directory),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "PREFORK_DIARY": str(self.diary),
            "PREFORK_DIRECTORY": str(directory),
            "PREFORK_LISTEN": f"127.0.0.1:{port}",
        }
        options = ["--workers", str(WORKERS), "--bind", f"unix:{self.http}", "--config", str(directory / "hooks.py")]
        command = [sys.executable, "-m", "gunicorn", *options, *(["--preload"] if preload else [])]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "tests.system.program_prefork:app"],
                cwd=directory,
                env=environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def lines(self) -> list[Line]:
        if not self.diary.exists():
            return []
        split = [line.split(" ", 3) for line in self.diary.read_text().splitlines()]
        return [Line(float(at), int(pid), word, "".join(rest)) for at, pid, word, *rest in split]

    def trying(self, since: float) -> set[int]:
        """The workers that have ended an attempt since then."""
        return {line.pid for line in self.lines() if line.word == "tried" and line.at >= since}

    def node(self) -> int:
        return int(self.lock.read_text())

    def ask(self) -> int:
        """Which worker answers a request."""
        connection = http.client.HTTPConnection("localhost", timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(10)
        connection.sock.connect(str(self.http))
        connection.request("GET", "/")
        answer = int(connection.getresponse().read())
        connection.close()
        return answer

    def shown(self) -> str:
        return self.log.read_text() + "\n".join(map(str, self.lines()[-40:]))

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture(params=[False, True], ids=["", "preload"])
def gunicorn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gunicorn]:
    # A short path: a Unix socket's has 107 bytes.
    server = Gunicorn(tmp_path_factory.mktemp("prefork"), preload=request.param)
    yield server
    server.close()


def share_a_node(gunicorn: Gunicorn, run_s: float, back_within_s: float) -> None:
    eventually(lambda: len(gunicorn.trying(0.0)) == WORKERS, STARTED_WITHIN_S, f"all try\n{gunicorn.shown()}")
    until = time.monotonic() + run_s / 2
    eventually(lambda: time.monotonic() >= until, run_s)
    node = gunicorn.node()
    killed = time.monotonic()
    os.kill(node, signal.SIGKILL)
    until = killed + run_s / 2
    eventually(lambda: time.monotonic() >= until, run_s)

    # Every worker goes on, a new one in the place of the killed too, under another node.
    since = time.monotonic()
    eventually(lambda: len(gunicorn.trying(since)) == WORKERS, STARTED_WITHIN_S, f"all try again\n{gunicorn.shown()}")
    alive = gunicorn.trying(since)
    assert node not in alive
    assert gunicorn.node() in alive
    assert {gunicorn.ask() for _ in range(20)} <= alive

    # Never two at a time, by the clock that all processes of a machine share; tokens rise.
    lines = sorted(gunicorn.lines())
    begun = [line for line in lines if line.word == "begins"]
    ended = {line.rest: line.at for line in lines if line.word == "ends"}
    assert len(begun) >= run_s / 2, gunicorn.shown()
    for earlier, later in itertools.pairwise(begun):
        end = ended.get(earlier.rest, killed if earlier.pid == node else float("inf"))
        assert end <= later.at, (earlier, later, gunicorn.shown())
        assert int(earlier.rest) < int(later.rest)
    gap = next(line.at for line in begun if line.at > killed) - killed
    assert gap <= back_within_s, (gap, gunicorn.shown())
    assert not [line for line in lines if line.word == "failed"], gunicorn.shown()


def test_workers_share_a_node_that_is_killed_once(gunicorn: Gunicorn) -> None:
    share_a_node(gunicorn, 6.0, BACK_WITHIN_BUSY_S)


@pytest.mark.long
def test_workers_share_a_node_for_a_minute(gunicorn: Gunicorn) -> None:
    share_a_node(gunicorn, 60.0, BACK_WITHIN_S)
