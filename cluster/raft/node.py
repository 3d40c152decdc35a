"""The replicated log of one node, as the server and the network see it.

Knows: ``ports.Replicator``, ``ports.PeerNet``, how an unexpected error ends the node. Must not know: Raft.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from cluster.ports import Env, Machine, PeerNet
from cluster.raft.adapter import Adapter
from cluster.raft.config import RaftConfig
from cluster.raft.core import Parts
from cluster.raft.messages import decode
from cluster.raft.status import describe
from cluster.storage import Storage

logger = logging.getLogger(__name__)


class RaftNode:
    """See ``ports.Replicator``. Everything happens on the env's loop."""

    adapter_class: type[Adapter] = Adapter

    def __init__(
        self,
        env: Env,
        config: RaftConfig,
        storage: Storage,
        machine: Machine,
        net: PeerNet,
        fatal: Callable[[str], None],
    ) -> None:
        """Load what is on disk; nothing is sent before ``start``.

        Args:
            fatal: called once, with one clear line, if this node must stop by itself. It takes no part any more from then on.

        Raises:
            StorageDamaged: log and snapshot do not fit together, or the machine refuses the snapshot.
        """
        self._config = config
        self._adapter = self.adapter_class(Parts(env, config, storage, machine, net, fatal))
        self.propose = self._adapter.propose
        self.has_fresh_majority = self._adapter.has_fresh_majority
        self.transfer = self._adapter.transfer
        self.change_members = self._adapter.change_members
        self.hand_over = self._adapter.hand_over
        self.objection = self._adapter.objection
        self.told_of_removal = self._adapter.told_of_removal
        self.hello_info = self._adapter.hello_info
        self.peers_wall_ms = self._adapter.peers_wall_ms
        self.on_members = self._adapter.on_members
        self.close = self._adapter.close
        net.on_frame = self._on_frame
        net.on_connected = self._adapter.connected
        net.on_disconnected = self._adapter.disconnected

    def start(self) -> None:
        """Take part. A group of one forms, and leads at once."""
        self._adapter._guard(self._adapter.start)

    @property
    def node_id(self) -> str:
        return self._config.node_id

    @property
    def term(self) -> int:
        return self._adapter.term

    @property
    def is_leader(self) -> bool:
        return self._adapter.is_leader

    @property
    def leader(self) -> str | None:
        return self._adapter.leader

    def status(self) -> dict[str, Any]:
        return describe(self._adapter)

    def _on_frame(self, peer: str, payload: bytes) -> None:
        try:
            message = decode(payload)
        except ValueError as error:
            logger.warning("raft.bad_message node=%s peer=%s error=%s", self._config.node_id, peer, error)
            return
        self._adapter.receive(peer, message)
