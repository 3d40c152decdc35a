"""Node processes: start, stop, kill, freeze, restart, and always clean up.

Knows: the command line of a node, signals, ports. Must not know: what runs inside a node; state is found out by asking.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import cluster
import tenure

# A node whose parent is gone must not stay behind, however the parent ended: standard input is a pipe that ends then.
_LAUNCH = """
import os, runpy, sys, threading
def wait_for_parent():
    os.read(0, 1)
    os._exit(99)
threading.Thread(target=wait_for_parent, daemon=True).start()
runpy.run_module("cluster", run_name="__main__", alter_sys=True)
"""

_running: weakref.WeakSet[NodeProcess] = weakref.WeakSet()


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        ports = []
        for _ in range(count):
            probe = stack.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
        return ports


class NodeProcess:
    """One ``python -m cluster node`` process. Its output goes to ``log_path``, across restarts.

    Attributes:
        address: under which it is known to all.
        listen: where it listens, if that is elsewhere.
        prefix: a command that runs the node's, such as ``nsenter``.
        environ: variables of the environment, besides this process's own.
    """

    def __init__(
        self, address: str, peers: Sequence[str], directory: Path, options: Sequence[str] = (), listen: str = ""
    ) -> None:
        self.address = address
        self.listen = listen or address
        self.prefix: list[str] = []
        self.environ: dict[str, str] = {}
        self.peers = tuple(peers)
        self.data_dir = directory / address.replace(":", "-")
        self.log_path = directory / f"{address.replace(':', '-')}.log"
        self.options = tuple(options)
        self.access: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.paused = False

    def command(self) -> list[str]:
        others = [peer for peer in self.peers if peer != self.address]
        members = ["--peers", ",".join(others)] if others else ["--single"]
        shown = ["--advertise", self.address] if self.listen != self.address else []
        return ["node", "--listen", self.listen, *shown, *members, "--data-dir", str(self.data_dir), *self.options]

    def start(self) -> None:
        if self.alive:
            raise AssertionError(f"node {self.address} runs already")
        self._close_pipe()
        # The same package as this process's own, wherever it was found.
        paths = [str(Path(str(cluster.__file__)).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, paths))
        environ = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **self.environ}
        with self.log_path.open("ab") as output:
            self._process = subprocess.Popen(
                [*self.prefix, sys.executable, "-c", _LAUNCH, *self.command()],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environ,
                cwd=self.log_path.parent,
            )
        self.paused = False
        _running.add(self)

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise AssertionError(f"node {self.address} was never started")
        return self._process.pid

    def kill(self) -> None:
        """End the process at once (SIGKILL), and wait until it is gone."""
        if self._process is not None and self.alive:
            self._process.kill()
            self._process.wait()
        self.paused = False
        self._close_pipe()

    def stop(self, within_s: float = 10.0) -> int:
        """Ask the process to end (SIGTERM), and return its exit status.

        Raises:
            AssertionError: it did not end in time; it was killed then.
        """
        if self._process is None:
            raise AssertionError(f"node {self.address} was never started")
        self.resume()
        self._process.terminate()
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            message = f"node {self.address} did not end within {within_s:g} s of SIGTERM\n{self.log()}"
            raise AssertionError(message) from None
        finally:
            self.kill()

    def pause(self) -> None:
        """Freeze the process (SIGSTOP). Raises AssertionError if it does not run."""
        # Its number may be another's once it has ended.
        if not self.alive:
            raise AssertionError(f"node {self.address} does not run")
        os.kill(self.pid, signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        if self.paused and self.alive:
            os.kill(self.pid, signal.SIGCONT)
        self.paused = False

    def restart(self) -> None:
        """Start again from the same data directory, killing it first where it still runs."""
        self.kill()
        self.start()

    def log(self) -> str:
        """What the process wrote so far, all its lives together."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def status(self, timeout_s: float = 1.0) -> Any:
        """What this node says of itself and the group, or None when it does not answer."""
        if not self.alive or self.paused:
            return None
        try:
            with tenure.connect([self.address], timeout=timeout_s, **self.access) as coordinator:
                return coordinator.status()
        except (tenure.CoordinationError, OSError):
            return None

    def _close_pipe(self) -> None:
        pipe: IO[bytes] | None = self._process.stdin if self._process is not None else None
        if pipe is not None:
            pipe.close()


def _kill_all() -> None:
    for node in list(_running):
        node.kill()


atexit.register(_kill_all)
