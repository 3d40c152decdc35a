"""Raft groups of real node processes.

Knows: which nodes there are, how to wait for a raft leader. Must not know: how a process is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from cluster.errors import UsageError
from tenure.testing._process import NodeProcess, free_ports
from tenure.testing._waiting import eventually

READY_WITHIN_S: Final = 20.0

Group = TypeVar("Group", bound="NodeGroup")


class NodeGroup:
    """A raft group of ``size`` node processes on free loopback ports, its files under ``directory``.

    A context manager: started and ready inside, killed afterwards. Nodes that a test leaves running end with this process.

    Args:
        directory: an existing directory, such as ``tmp_path``.
        size: number of nodes, 1 or more.
        options: further arguments of ``node``, the same for every node.
        access: what ``tenure.connect`` needs beside the endpoints: ``secret``, ``tls``.

    Raises:
        UsageError: a bad size or directory.
    """

    def __init__(
        self, directory: str | Path, size: int = 3, options: Sequence[str] = ("--durability", "process"), **access: Any
    ) -> None:
        if type(size) is not int or size < 1:
            raise UsageError(f"size={size!r} is no number of nodes", "give 1, 3 or 5")
        if isinstance(options, str):
            raise UsageError("options is one text", 'give a list of arguments, such as ["--election", "low"]')
        if not Path(directory).is_dir():
            raise UsageError(f"directory {str(directory)!r} does not exist", "give an existing one, such as tmp_path")
        addresses = [f"127.0.0.1:{port}" for port in free_ports(size)]
        self.nodes = [NodeProcess(address, addresses, Path(directory), options) for address in addresses]
        for node in self.nodes:
            node.access = access

    @property
    def endpoints(self) -> str:
        return ",".join(node.address for node in self.nodes)

    def node(self, address: str) -> NodeProcess:
        """Raises UsageError for an address that no node has."""
        for node in self.nodes:
            if node.address == address:
                return node
        raise UsageError(f"no node of this group is {address!r}", f"there are {self.endpoints}")

    def start(self) -> None:
        """Start every node that does not run, let frozen ones go on, and wait until the group serves."""
        for node in self.nodes:
            node.resume()
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
