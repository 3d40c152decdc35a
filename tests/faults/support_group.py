"""A raft group of real nodes that reach each other, and are reached by clients, through ``Links`` only.

Knows: nodes as processes, links. Must not know: what runs inside a node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.env import boot_clock
from tests.faults.support_links import Links
from tests.faults.support_netns import Network
from tests.support import eventually
from tests.support_cluster import NodeGroup, NodeProcess, free_ports

NODE_PORT = 7101
OWN_WORD_S = 20.0


class LinkedGroup(NodeGroup):
    """A ``NodeGroup`` with ``links`` between its nodes. A node's ``address`` is that of the proxy in front of it.

    ``delay_s``: so long takes everything from one node to another, from the beginning on.
    """

    def __init__(
        self,
        directory: Path,
        size: int = 3,
        options: Sequence[str] = ("--durability", "process"),
        *,
        delay_s: float = 0.0,
    ) -> None:
        ports = free_ports(2 * size)
        shown = [f"127.0.0.1:{port}" for port in ports[:size]]
        self.links = Links(dict(zip(shown, ports[size:], strict=True)))
        self.nodes = [
            NodeProcess(address, shown, directory, options, listen=f"127.0.0.1:{port}")
            for address, port in self.links.doors.items()
        ]
        self._doors = contextlib.ExitStack()
        self._doors_open = False
        self._delay_s = delay_s

    def start(self) -> None:
        if not self._doors_open:
            self._doors.enter_context(self.links.running())
            self._doors_open = True
            if self._delay_s:
                self.links.delay_nodes(self._delay_s)
        super().start()

    def close(self) -> None:
        super().close()
        self._doors.close()

    def other_than(self, node: NodeProcess) -> list[NodeProcess]:
        return [each for each in self.nodes if each is not node]


def own_status(node: NodeProcess, within_s: float = OWN_WORD_S) -> Any:
    """What this very node says, or None if it does not within the time, or has ended. A client that is told of a raft leader moves on to
    it, and may be answered there; and on a busy machine an answer may take longer than one attempt: so it is asked anew."""
    until = boot_clock() + within_s
    while node.alive and not node.paused:
        status = node.status()
        if status is not None and status.node_id == node.address:
            return status
        if boot_clock() >= until:
            break
    return None


def said(node: NodeProcess) -> Any:
    """``own_status`` of a node that must answer. A node that does not fails the test with what it wrote."""
    status = own_status(node)
    assert status is not None, f"{node.address} says nothing, alive: {node.alive}\n{node.log()}"
    return status


def caught_up(group: NodeGroup, node: NodeProcess, all_but: int = 0) -> bool:
    """Whether a node hears a raft leader and has applied what that one has committed."""
    mine, leaders = own_status(node), own_status(group.leader())
    if mine is None or leaders is None:
        return False
    return bool(mine.has_quorum and mine.applied_index >= leaders.commit_index - all_but)


def leads(node: NodeProcess) -> bool:
    status = own_status(node)
    return status is not None and status.role == "leader"


def follows(node: NodeProcess) -> bool:
    """Whether it hears a raft leader, or is one that a majority hears."""
    status = own_status(node)
    return status is not None and status.has_quorum


def wait(seconds: float) -> None:
    """Let time pass in which something must not happen. Nothing that must happen is waited for like this."""
    until = boot_clock() + seconds
    eventually(lambda: boot_clock() >= until, seconds + 5.0, "the clock goes on")


class NamespaceGroup(NodeGroup):
    """A ``NodeGroup`` with each node on a machine of a ``Network``. Who asks it anything must be inside the network's hub."""

    def __init__(self, directory: Path, network: Network, options: Sequence[str]) -> None:
        addresses = [f"{host}:{NODE_PORT}" for host in network.addresses]
        # Nobody but this test can connect to these addresses.
        self.nodes = [NodeProcess(address, addresses, directory, (*options, "--insecure")) for address in addresses]
        for node, host in zip(self.nodes, network.addresses, strict=True):
            node.prefix = ["ip", "netns", "exec", network.machine(host)]
