"""The processes of the demo: nodes and workers on this machine, their files, and that nothing of them stays behind.

Knows: processes, ports, a temporary directory. Must not know: the order of events, what people are told.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import cluster
from cluster.cli.runs import Run, read_runs
from cluster.env import boot_clock


@dataclass(slots=True)
class Actor:
    """One process. ``dead_at``: boot-clock time at which it was certainly dead, after a kill."""

    label: str
    argv: list[str]
    output: Path
    process: subprocess.Popen[bytes] | None = None
    dead_at: float | None = None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Stage:
    """Three nodes and some workers, none of them started yet.

    Args:
        workers: how many.
        name: what they contend for.
        lease_s, run_s: seconds of a lease, and of a run.
    """

    def __init__(self, workers: int, name: str, lease_s: float, run_s: float) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tenure-demo-"))
        self.addresses = [f"127.0.0.1:{port}" for port in _free_ports(3)]
        self.nodes = [self._node(address) for address in self.addresses]
        self.workers = [self._worker(number, workers, name, lease_s, run_s) for number in range(1, workers + 1)]

    def _node(self, address: str) -> Actor:
        argv = ["cluster.cli.leash", "node", "--listen", address, "--peers", ",".join(self.addresses)]
        argv += ["--data-dir", str(self.directory / address.replace(":", "-")), "--log-level", "info"]
        return Actor(address, argv, self.directory / f"node-{address.rpartition(':')[2]}.log")

    def _worker(self, number: int, workers: int, name: str, lease_s: float, run_s: float) -> Actor:
        argv = ["cluster.cli.demo_worker", "--connect", ",".join(self.addresses), "--name", name]
        argv += ["--log", str(self._runs_path(number)), "--lease", str(lease_s), "--run", str(run_s)]
        # Long enough for one's turn, so that nobody loses the place in the line.
        argv += ["--wait", str(lease_s + workers * run_s * 2)]
        return Actor(f"worker {number}", argv, self.directory / f"worker-{number}.log")

    def _runs_path(self, number: int) -> Path:
        return self.directory / f"worker-{number}.runs"

    def start(self, actor: Actor) -> None:
        """Start (again) one process, with this very package on its path and the other end of its leash here."""
        home = str(Path(cluster.__file__).resolve().parent.parent)
        path = os.pathsep.join(part for part in (home, os.environ.get("PYTHONPATH", "")) if part)
        # What an operator set for commands is not meant for the demo's own processes.
        environ = {key: value for key, value in os.environ.items() if not key.startswith("TENURE_")}
        environ["PYTHONPATH"] = path
        with actor.output.open("ab") as output:
            actor.process = subprocess.Popen(
                [sys.executable, "-m", *actor.argv],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                env=environ,
                start_new_session=True,
            )

    def kill(self, actor: Actor) -> float:
        """SIGKILL one process; returns when the signal was sent, and notes when it was certainly dead."""
        assert actor.process is not None
        at = boot_clock()
        actor.process.kill()
        actor.process.wait()
        actor.dead_at = boot_clock()
        return at

    def runs(self) -> list[Run]:
        """All runs so far in order of their start; one in which its worker was killed ends when that was certainly dead."""
        found: list[Run] = []
        for number, actor in enumerate(self.workers, 1):
            for run in read_runs(self._runs_path(number), number):
                found.append(replace(run, end=actor.dead_at) if run.end is None else run)
        return sorted(found, key=lambda run: run.start)

    def kill_holder(self) -> tuple[Actor, Run, float] | None:
        """SIGKILL the worker that is in a run; None if none is caught in one this time.

        It is stopped first and looked at again, so that it dies in its run for certain.
        """
        for run in reversed(self.runs()[-2:]):
            actor = self.workers[run.worker - 1]
            if run.end is not None or actor.process is None or not actor.alive:
                continue
            actor.process.send_signal(signal.SIGSTOP)
            mine = read_runs(self._runs_path(run.worker), run.worker)
            if mine[-1].end is None and mine[-1].token == run.token:
                return actor, run, self.kill(actor)
            actor.process.send_signal(signal.SIGCONT)
        return None

    def end_workers(self, patience_s: float) -> list[str]:
        """Ask all workers to end, within ``patience_s`` seconds; returns the labels of those that had to be killed."""
        hung = []
        for actor in self.workers:
            if actor.process is not None and actor.alive:
                actor.process.terminate()
        until = boot_clock() + patience_s
        for actor in self.workers:
            if actor.process is None:
                continue
            try:
                actor.process.wait(max(0.0, until - boot_clock()))
            except subprocess.TimeoutExpired:
                hung.append(actor.label)
                self.kill(actor)
        return hung

    def logs(self, lines: int = 8) -> str:
        """The end of what each process wrote."""
        parts = []
        for actor in (*self.nodes, *self.workers):
            text = actor.output.read_text(errors="replace") if actor.output.exists() else ""
            parts.append(f"--- {actor.label}\n" + "\n".join(text.splitlines()[-lines:]))
        return "\n".join(parts) + "\n"

    def close(self) -> None:
        """Kill what still runs and remove every file."""
        for actor in (*self.workers, *self.nodes):
            if actor.process is not None:
                actor.process.kill()
        for actor in (*self.workers, *self.nodes):
            if actor.process is not None:
                actor.process.wait()
                if actor.process.stdin is not None:
                    actor.process.stdin.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        ports = []
        for _ in range(number):
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
        return ports
