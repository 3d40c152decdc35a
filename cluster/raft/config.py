"""How one raft node runs, and the limits of what it sends.

Knows: the settings and which of them fit together. Must not know: what uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cluster.errors import UsageError
from cluster.limits import ELECTION_TIMEOUT_MAX_S, ELECTION_TIMEOUT_MIN_S, HEARTBEAT_S

ENTRY_MAX_BYTES: Final = 4 << 20
"""One command. A batch of the server is at most BATCH_MAX_BYTES and one operation."""

APPEND_MAX_BYTES: Final = 1 << 20
"""Commands in one append are taken until they reach this, so one append holds at most this and one more command: it always fits into
PEER_FRAME_MAX_BYTES."""

APPEND_MAX_ENTRIES: Final = 512
APPENDS_IN_FLIGHT_MAX: Final = 16
"""Appends that one follower has not answered yet. With APPEND_MAX_BYTES this bounds what a slow follower costs."""

PIECE_BYTES: Final = 256 << 10
PIECES_IN_FLIGHT_MAX: Final = 8
SNAPSHOT_MAX_BYTES: Final = 4 << 30

APPLY_SLICE_BYTES: Final = 1 << 20
"""So much is applied in one go; then the loop has its turn. After a restart a whole log may become committed in one moment."""

COMPACT_BYTES: Final = 64 << 20
TAIL_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """Settings of one raft node.

    Attributes:
        node_id: this node's advertised address.
        peers: the other members' advertised addresses.
        single: a raft group of one. Without peers it must be asked for.
        election_min_s, election_max_s: a follower that hears no leader for a random time between the two stands for election.
        heartbeat_s: a leader sends something to each follower at least this often.
        compact_bytes: the log is compacted when it has grown by this much.
        tail_bytes: so much of the log is kept behind a snapshot, for followers that are only a little late.
        ephemeral: nothing is kept; each start is a new incarnation.
        weight: of the members that could lead the heaviest shall (see ``preferring``).
    """

    node_id: str
    peers: tuple[str, ...] = ()
    single: bool = False
    election_min_s: float = ELECTION_TIMEOUT_MIN_S
    election_max_s: float = ELECTION_TIMEOUT_MAX_S
    heartbeat_s: float = HEARTBEAT_S
    compact_bytes: int = COMPACT_BYTES
    tail_bytes: int = TAIL_BYTES
    ephemeral: bool = False
    weight: int = 1

    def __post_init__(self) -> None:
        if not self.peers and not self.single:
            raise UsageError(
                f"raft node {self.node_id} has no peers", "name them, or ask for a raft group of one with single"
            )
        if self.peers and self.single:
            raise UsageError(f"raft node {self.node_id} is single and has peers", "leave one of them out")
        if self.node_id in self.peers or len(set(self.peers)) != len(self.peers):
            raise UsageError(
                f"raft node {self.node_id}: peers {list(self.peers)} repeat a member", "name every other member once"
            )
        if not 0 < self.heartbeat_s * 3 < self.election_min_s < self.election_max_s:
            raise UsageError(
                f"election timeout {self.election_min_s:g} to {self.election_max_s:g} s does not fit a heartbeat of {self.heartbeat_s:g} s",
                "the shortest must be more than three heartbeats and less than the longest",
            )
        if not 0 <= self.tail_bytes < self.compact_bytes:
            raise UsageError(
                f"a tail of {self.tail_bytes} bytes must be smaller than compact_bytes {self.compact_bytes}", ""
            )

    @property
    def members(self) -> tuple[str, ...]:
        """All members' ids as this node was told them, sorted: all must agree on them to form a group. Later the log says who they are."""
        return tuple(sorted((self.node_id, *self.peers)))
