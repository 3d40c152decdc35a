"""pysyncobj's transport: its control messages out, in our codec.

Knows: what a ``SyncObj`` asks of its transport. Must not know: sockets; what is done with what arrives.

Messages in do not pass here: the adapter reads each frame first and hands pysyncobj only what is its.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from cluster.ports import PeerNet
from cluster.raft.engine import Node
from cluster.raft.messages import from_engine

logger = logging.getLogger(__name__)


class Bridge:
    """Stands where pysyncobj expects a ``Transport``. It is always ready: binding and dialling are the net's.

    Attributes:
        forced: whether the election that is being started was asked for by the leader.
    """

    ready = True

    def __init__(self, net: PeerNet) -> None:
        self._net = net
        self.forced = False

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        payload = from_engine(message, self.forced)
        if payload is None:
            # Nothing of ours makes pysyncobj say this. If something does, it must not leave this node.
            logger.error("raft.not_sent type=%s to=%s", message["type"], node.id)
            return False
        return self._net.send(node.id, payload)

    def setOnNodeConnectedCallback(self, callback: Callable[..., None]) -> None:
        """Connections are told to the adapter."""

    def setOnNodeDisconnectedCallback(self, callback: Callable[..., None]) -> None:
        """Connections are told to the adapter."""

    def setOnMessageReceivedCallback(self, callback: Callable[..., None]) -> None:
        """Frames are given to the adapter."""

    def setOnReadonlyNodeConnectedCallback(self, callback: Callable[..., None]) -> None:
        """There are no read-only nodes: strangers do not get past the handshake."""

    def setOnReadonlyNodeDisconnectedCallback(self, callback: Callable[..., None]) -> None:
        """There are no read-only nodes."""

    def setOnUtilityMessageCallback(self, message: str, callback: Callable[..., None]) -> None:
        """Requests from outside are the server's; pysyncobj takes none."""
