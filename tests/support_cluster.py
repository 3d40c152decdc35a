"""Raft groups of real node processes: the product's own, from ``tenure.testing``.

Knows: where this checkout is. Must not know: how nodes are started.
"""

from __future__ import annotations

from pathlib import Path

from tenure.testing import NodeGroup, NodeProcess, free_ports
from tenure.testing._group import READY_WITHIN_S

__all__ = ["READY_WITHIN_S", "ROOT", "NodeGroup", "NodeProcess", "free_ports"]

ROOT = Path(__file__).resolve().parent.parent
