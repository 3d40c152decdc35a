"""How nodes and clients reach each other: framing, handshake, connections, the mesh of peers.

Knows: sockets through ``ports.Env``. Must not know: what frames mean.
"""

from __future__ import annotations

from cluster.net.addresses import check_exposure, choose_advertise
from cluster.net.connection import open_client
from cluster.net.memory import memory_pair
from cluster.net.node import NodeNet

__all__ = ["NodeNet", "check_exposure", "choose_advertise", "memory_pair", "open_client"]
