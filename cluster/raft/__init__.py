"""The replicated log: pysyncobj 0.3.17, hardened from outside.

Knows: the names of this package. Must not know: leases, clients.

``RaftNode`` is loaded when it is first asked for: pysyncobj is imported only where a node really starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.raft.config import RaftConfig

if TYPE_CHECKING:
    from cluster.raft.node import RaftNode

__all__ = ["RaftConfig", "RaftNode"]


def __getattr__(name: str) -> Any:
    if name == "RaftNode":
        from cluster.raft.node import RaftNode

        return RaftNode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
