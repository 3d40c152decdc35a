"""What the model keeps: leases, sessions, and what an acquisition asks for.

Knows: their fields. Must not know: any rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.table.model_candidates import Claim


@dataclass(eq=False)
class Lease:
    acq_id: bytes
    name: bytes
    slot: int
    token: int
    granted: int
    deadline: int
    lease_ms: int
    min_ms: int
    max_leaders: int
    session: int
    node_id: bytes
    metadata: bytes
    revoked: bool = False
    dead: bool = False


@dataclass(eq=False)
class Session:
    id: int
    deadline: int
    lease_ms: int
    node_id: bytes
    revoked_count: int = 0


@dataclass(frozen=True)
class Terms:
    """What an ACQUIRE, ACQUIRE_ALL or ELECT asks for, besides names."""

    acq_id: bytes
    lease_ms: int
    max_leaders: int
    min_ms: int
    session: int
    node_id: bytes
    metadata: bytes
    claim: Claim | None = None  # of an ELECT
