"""What ``LeaseTable`` lets its readers look at, worked out from the model.

Knows: the rows of ``docs/protocol.md``. Must not know: how the compiled table finds them.
"""

from __future__ import annotations

from typing import Any

from tests.table.model import Lease, Model


def rows(model: Model, name: bytes, now_ms: int) -> list[tuple[Any, ...]]:
    return [row for row in all_rows(model, now_ms) if row[0] == name]


def all_rows(model: Model, now_ms: int) -> list[tuple[Any, ...]]:
    """By (name, slot)."""
    now = max(now_ms, model.now)
    return sorted(row(model, lease, now) for lease in model.leases if model.ends(lease) > now)


def row(model: Model, lease: Lease, now: int) -> tuple[Any, ...]:
    session = lease.session if lease.session and model.sessions[lease.session].deadline > now else 0
    flags = lease.revoked + 2 * lease.dead
    return (
        lease.name, lease.slot, lease.token, lease.node_id, model.ends(lease) - now, now - lease.granted,
        lease.lease_ms, lease.max_leaders, session, flags, lease.metadata,
    )  # fmt: skip


def scan(
    model: Model, prefix: bytes, after_name: bytes, after_slot: int, limit: int, now_ms: int
) -> tuple[list[tuple[Any, ...]], bool]:
    found = [
        row
        for row in all_rows(model, now_ms)
        if row[0].startswith(prefix) and (not after_name or (row[0], row[1]) > (after_name, after_slot))
    ]
    return found[:limit], len(found) > limit


def candidates(model: Model, name: bytes, now_ms: int) -> tuple[int, int, list[tuple[Any, ...]]]:
    roster, now = model.rosters.get(name), max(now_ms, model.now)
    standing = [c for c in roster.candidates if c.deadline > now] if roster else []
    if roster is None or not standing:
        return 0, 0, []
    rows = [(c.node_id, c.info, c.registered, c.last_start, c.last_completion, c.successes, c.failures) for c in standing]
    return roster.revision, roster.last_token, rows


def next_free(model: Model, name: bytes, max_leaders: int, now_ms: int) -> int:
    now = max(now_ms, model.now)
    if now < model.grants_from:
        return model.grants_from
    occupants = [lease for lease in model.leases if lease.name == name and model.ends(lease) > now]
    if len(occupants) < min([max_leaders] + [lease.max_leaders for lease in occupants]):
        return 0
    return min(map(model.ends, occupants))


def leaver(model: Model, name: bytes, now_ms: int) -> tuple[Any, ...] | None:
    return min(rows(model, name, now_ms), key=lambda row: (row[4], row[1]), default=None)


def chain_length(model: Model, name: bytes) -> int:
    return sum(lease.name == name for lease in model.leases)


def next_deadline(model: Model) -> int:
    ends = [model.ends(lease) for lease in model.leases] + [session.deadline for session in model.sessions.values()]
    return min(ends, default=-1)
