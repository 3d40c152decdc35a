"""Raft groups of real node processes, for tests: start, stop, kill, pause, restart, and always clean up.

Knows: the command line of a node and signals. Must not know: what runs inside a node. State is found out by asking.

>>> with NodeGroup(directory) as group:          # doctest: +SKIP
...     coordinator = tenure.connect(group.endpoints)
...     group.leader().kill()
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from tests.support import eventually

ROOT = Path(__file__).resolve().parent.parent
READY_WITHIN_S = 20.0

# A node whose parent is gone must not stay behind, however the parent ended: standard input is a pipe that ends then.
_LAUNCH = """
import os, runpy, sys, threading
def wait_for_parent():
    os.read(0, 1)
    os._exit(99)
threading.Thread(target=wait_for_parent, daemon=True).start()
runpy.run_module("cluster", run_name="__main__", alter_sys=True)
"""

Group = TypeVar("Group", bound="NodeGroup")

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
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
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
        """Freeze the process (SIGSTOP)."""
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
        import tenure

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


class NodeGroup:
    """A raft group of ``size`` node processes on free loopback ports, its files under ``directory``.

    Args:
        directory: an existing directory, such as ``tmp_path``.
        size: number of nodes.
        options: further arguments of ``node``, the same for every node.
        access: what ``tenure.connect`` needs beside the endpoints: ``secret``, ``tls``.
    """

    def __init__(
        self, directory: Path, size: int = 3, options: Sequence[str] = ("--durability", "process"), **access: Any
    ) -> None:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(size)]
        self.nodes = [NodeProcess(address, addresses, directory, options) for address in addresses]
        for node in self.nodes:
            node.access = access

    @property
    def endpoints(self) -> str:
        return ",".join(node.address for node in self.nodes)

    def node(self, address: str) -> NodeProcess:
        return next(node for node in self.nodes if node.address == address)

    def start(self) -> None:
        """Start every node that does not run, and wait until the group serves."""
        for node in self.nodes:
            if not node.alive:
                node.start()
        self.wait_ready()

    def wait_ready(self, within_s: float = READY_WITHIN_S) -> None:
        """Wait until a raft leader with a majority is known. A failure shows the end of every node's log."""
        try:
            eventually(lambda: self._leader_address() is not None, within_s, "a raft leader with a majority")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def leader(self, within_s: float = READY_WITHIN_S) -> NodeProcess:
        """The raft leader's process, as soon as the nodes agree on one that runs."""
        self.wait_ready(within_s)
        address = self._leader_address()
        return self.leader(within_s) if address is None else self.node(address)

    def followers(self) -> list[NodeProcess]:
        leader = self.leader()
        return [node for node in self.nodes if node is not leader and node.alive]

    def _leader_address(self) -> str | None:
        for node in self.nodes:
            status = node.status()
            if status is not None and status.has_quorum and status.leader:
                leader = self.node(str(status.leader))
                if leader.alive and not leader.paused:
                    return leader.address
        return None

    def logs(self, last_lines: int = 40) -> str:
        """The end of every node's log, for the message of a failing test."""
        parts = []
        for node in self.nodes:
            parts.append(f"--- {node.address} ({'runs' if node.alive else 'ended'})")
            parts.extend(node.log().splitlines()[-last_lines:])
        return "\n".join(parts)

    def close(self) -> None:
        for node in self.nodes:
            node.kill()

    def __enter__(self: Group) -> Group:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


@contextlib.contextmanager
def paused(node: NodeProcess) -> Iterator[None]:
    """Freeze a node for the time of a ``with`` block."""
    node.pause()
    try:
        yield
    finally:
        node.resume()


def _kill_all() -> None:
    for node in list(_running):
        node.kill()


atexit.register(_kill_all)
