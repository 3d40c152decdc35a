"""What a raft node tells people of itself.

Knows: which of its figures matter to an operator. Must not know: how they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cluster.raft.engine import CANDIDATE, LEADER
from cluster.raft.preferring import weight_of

if TYPE_CHECKING:
    from cluster.raft.adapter import Adapter


def describe(adapter: Adapter) -> dict[str, Any]:
    """Term, role, leader, members (match index and lag are known to the leader only: else None), indexes, quorum.

    A member's ``voter``: whether it counts (None: the leader knows). The leader also shows who joins or leaves, by that word as its role.
    """
    config, now = adapter._config, adapter._clock()
    _, last, _ = adapter._log[-1]
    leading = adapter.is_leader
    role = {LEADER: "leader", CANDIDATE: "candidate"}.get(adapter._SyncObj__raftState, "follower")
    me = {
        "node_id": config.node_id,
        "role": role,
        "match_index": last,
        "lag": 0,
        "connected": True,
        "voter": adapter._is_member() and adapter._is_listed(),
        "weight": config.weight,
    }
    members = [me]
    for peer in adapter._others:
        why = adapter._beside.get(peer.id)
        members.append(
            {
                "node_id": peer.id,
                "role": why or ("leader" if peer.id == adapter.leader else "follower"),
                "match_index": peer.match if leading else None,
                "lag": max(0, last - peer.match) if leading else None,
                "connected": peer.connected,
                "voter": (peer.voter and why is None) if leading else None,
                "weight": weight_of(peer),
            }
        )
    if leading:
        has_quorum = adapter._majority_answered(now - config.election_max_s)
    else:
        has_quorum = adapter.leader is not None and adapter._heard_at > now - config.election_max_s
    return {
        "node_id": config.node_id,
        "role": role,
        "term": adapter.term,
        "leader": adapter.leader,
        "has_quorum": has_quorum,
        "members": sorted(members, key=lambda member: str(member["node_id"])),
        "commit_index": adapter._SyncObj__raftCommitIndex,
        "applied_index": adapter._SyncObj__raftLastApplied,
        "first_index": adapter._first,
        "last_index": last,
        "snapshot_index": adapter._storage.snapshots.index,
        "log_bytes": adapter._log.size_bytes,
        "member": adapter._is_member() and adapter._is_listed(),
        "ephemeral": config.ephemeral,
    }
