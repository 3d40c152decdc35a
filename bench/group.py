"""Three real node processes and an echo server, started for a benchmark and always ended with it.

Knows: how node processes are started (``tests.support_cluster``) and the handshake, by which it finds the raft leader.
Must not know: what is measured.

    python -m bench.group        starts a raft group, prints the raft leader's address, and stops it when standard input ends
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cluster.address import Address
from cluster.codec import frame
from cluster.net.handshake import NONCE_BYTES, DialerHandshake
from cluster.ports import Hello, Welcome
from tests.support import eventually
from tests.support_cluster import NodeGroup

ROOT = Path(__file__).resolve().parent.parent
NODE_OPTIONS = ("--durability", "process", "--log-level", "info")
READY_WITHIN_S = 30.0


def probe(address: Address, timeout_s: float = 2.0) -> Welcome | None:
    """What the node at this address says of itself to a client, or None if it does not answer."""
    handshake = DialerHandshake(Hello("client", "bench", os.urandom(16)), None, os.urandom(NONCE_BYTES))
    try:
        with socket.create_connection((address.host, address.port), timeout_s) as connection:
            connection.sendall(frame(handshake.start()))
            while not handshake.done:
                answer = handshake.receive(_read_frame(connection))
                if answer is not None:
                    connection.sendall(frame(answer))
    except OSError:
        return None
    return handshake.welcome


def _read_frame(connection: socket.socket) -> bytes:
    size = int.from_bytes(_read(connection, 4), "big")
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the node closed the connection")
        data += piece
    return data


class BenchGroup:
    """A running raft group. ``pids`` are its processes, ``leader()`` asks the nodes."""

    def __init__(self, group: NodeGroup) -> None:
        self._group = group
        self._leader = ""

    @property
    def pids(self) -> dict[str, int]:
        return {node.address: node.pid for node in self._group.nodes}

    @property
    def endpoints(self) -> str:
        return self._group.endpoints

    def logs(self) -> str:
        """The end of what each node wrote."""
        return self._group.logs()

    def leader(self) -> str:
        """Address of the raft leader, as soon as it serves (it has an epoch)."""
        try:
            eventually(self._find, READY_WITHIN_S, "a raft leader that serves")
        except AssertionError as error:
            raise RuntimeError(f"{error}\n{self._group.logs()}") from None
        return self._leader

    def _find(self) -> bool:
        for node in self._group.nodes:
            welcome = probe(Address.parse(node.address)) if node.alive else None
            if welcome is not None and welcome.epoch:
                self._leader = node.address
                return True
        return False


@contextmanager
def running_group(size: int = 3) -> Iterator[BenchGroup]:
    """A raft group of node processes on free loopback ports, its files in a temporary directory."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-bench-"))
        group = NodeGroup(Path(directory), size, NODE_OPTIONS)
        stack.callback(group.close)
        for node in group.nodes:
            node.start()
        running = BenchGroup(group)
        running.leader()
        yield running


@contextmanager
def running_echo() -> Iterator[tuple[str, str]]:
    """An echo server process; gives its address and the name of its event loop's package."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        address, loop = process.stdout.readline().split()
        yield address, loop
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def main() -> None:
    with running_group() as group:
        sys.stdout.write(f"{group.leader()}\n")
        for address, pid in group.pids.items():
            sys.stdout.write(f"{address} pid={pid}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
