"""What verbs return: outcomes, and snapshots for people.

Knows: rows and maps of docs/protocol.md. Must not know: how they travelled. Snapshots are never a reason to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Literal

from cluster.client.checks import read_metadata
from cluster.opcodes import RowFlag


@dataclass(frozen=True, slots=True)
class Extended:
    """The lease was prolonged (or would last longer anyway). ``remaining``: seconds, by this process's clock, conservative."""

    remaining: float


@dataclass(frozen=True, slots=True)
class NotHeld:
    """The lease is over: expired, revoked, or released. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer in time. The lease holds until its old deadline at least; ask again before that."""


ExtendOutcome = Extended | NotHeld | Unknown


@dataclass(frozen=True, slots=True)
class LeaderInfo:
    """Who leads a name.

    Attributes:
        node_id: whom people see.
        token: its fencing token.
        slot: which slot of the name's group.
        acquired_at: when, by this machine's wall clock: for people.
        expires_in: seconds of cluster time until it ends if it is not extended.
    """

    node_id: str
    token: int
    slot: int
    acquired_at: datetime
    expires_in: float


@dataclass(frozen=True, slots=True)
class LeaderState:
    """``name`` as it is stored is ``full_name``; the two differ for tenants. ``waiters``: how many stand in line."""

    name: str
    full_name: str
    status: Literal["free", "held"]
    leader: LeaderInfo | None
    waiters: int


@dataclass(frozen=True, slots=True)
class LeaderGroupState:
    """``max_leaders`` and ``available_slots`` are None while nobody holds the name: the limit comes with its holders, the smallest counts.

    A slot whose holder ended within its ``min_lease_time`` has no leader, and is not available either.
    """

    name: str
    full_name: str
    max_leaders: int | None
    active_count: int
    available_slots: int | None
    leaders: tuple[LeaderInfo, ...]
    waiters: int


WORKER_VERSION: Final = "worker_version"
"""Under which name the metadata of leases and candidates says which release of the program asked."""


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """One live lease. Durations in seconds of cluster time; ``session`` 0: it is not auto-extended."""

    name: str
    slot: int
    token: int
    node_id: str
    expires_in: float
    age: float
    lease_time: float
    max_leaders: int
    session: int
    revoked: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def worker_version(self) -> str | None:
        """Which release of its program the holder runs; None: it does not say."""
        version = self.metadata.get(WORKER_VERSION)
        return version if isinstance(version, str) else None


@dataclass(frozen=True, slots=True)
class Record:
    """A replicated value.

    Attributes:
        value: its bytes.
        version: new and larger at every write, never used again, also not by another key or after a deletion.
        token: of the lease under which it was written; None: it was written under none, and is bound to no name.
    """

    value: bytes
    version: int
    token: int | None


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The raft group as one node sees it. ``cluster_time`` in seconds; ``members`` as the node describes them; ``grants_in``: seconds until
    anything is granted, after a restore."""

    cluster_id: str
    node_id: str
    role: str
    term: int
    leader: str | None
    has_quorum: bool
    members: tuple[Mapping[str, Any], ...]
    commit_index: int
    applied_index: int
    cluster_time: float
    grants_in: float = 0.0


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """One member of the raft group, as the raft leader sees it.

    Attributes:
        node_id: its advertised address.
        role: ``"leader"``, ``"follower"``; ``"joining"`` or ``"leaving"``: it is connected and does not count.
        voter: whether it counts. A member that lost its data does not until it has caught up.
        connected: whether the raft leader is connected with it.
        match_index, lag: how far its log is known to agree, and how many entries it is behind.
        weight: leadership moves to the heaviest that could lead.
    """

    node_id: str
    role: str
    voter: bool
    connected: bool
    match_index: int
    lag: int
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """One occupant of a name: see ``row`` in docs/protocol.md."""

    name: str
    slot: int
    token: int
    node_id: str
    remaining_ms: int
    age_ms: int
    lease_ms: int
    max_leaders: int
    session: int
    flags: int
    metadata: bytes

    @classmethod
    def read(cls, fields: Sequence[Any]) -> Row:
        """Raises ValueError for anything else."""
        if len(fields) < 11 or type(fields[0]) is not bytes or type(fields[3]) is not bytes or type(fields[10]) is not bytes:
            raise ValueError("not a row")
        numbers = (*fields[1:3], *fields[4:10])
        if not all(type(number) is int for number in numbers):
            raise ValueError("not a row")
        name, slot, token, node_id, remaining_ms, age_ms, lease_ms, max_leaders, session, flags, metadata = fields[:11]
        shown = node_id.decode("utf-8", "replace")
        return cls(
            name.decode("ascii"), slot, token, shown, remaining_ms, age_ms, lease_ms, max_leaders, session, flags, metadata
        )

    @property
    def live(self) -> bool:
        return not self.flags & RowFlag.DEAD

    def leader(self, wall_s: float) -> LeaderInfo:
        acquired = datetime.fromtimestamp(wall_s, timezone.utc) - timedelta(milliseconds=self.age_ms)
        return LeaderInfo(self.node_id, self.token, self.slot, acquired, self.remaining_ms / 1000)

    def info(self) -> LeaseInfo:
        return LeaseInfo(
            self.name, self.slot, self.token, self.node_id, self.remaining_ms / 1000, self.age_ms / 1000, self.lease_ms / 1000,
            self.max_leaders, self.session, bool(self.flags & RowFlag.REVOKED), read_metadata(self.metadata),
        )  # fmt: skip


def _rows(found: Any) -> list[Row]:
    if type(found) is not list:
        raise ValueError("not rows")
    return [Row.read(fields) for fields in found]


def leader_state(name: str, answer: list[Any], wall_s: float) -> LeaderState:
    live = [row for row in _rows(answer[2]) if row.live]
    leader = min(live, key=lambda row: row.slot).leader(wall_s) if live else None
    return LeaderState(name, name, "held" if live else "free", leader, int(answer[3]))


def group_state(name: str, answer: list[Any], wall_s: float) -> LeaderGroupState:
    rows = sorted(_rows(answer[2]), key=lambda row: row.slot)
    limit = min((row.max_leaders for row in rows), default=None)
    leaders = tuple(row.leader(wall_s) for row in rows if row.live)
    free = None if limit is None else max(0, limit - len(rows))
    return LeaderGroupState(name, name, limit, len(leaders), free, leaders, int(answer[3]))


def lease_page(answer: list[Any]) -> tuple[list[Row], bool]:
    return _rows(answer[2]), bool(answer[3])


def cluster_status(answer: list[Any]) -> ClusterStatus:
    fields = answer[1]
    if type(fields) is not dict:
        raise ValueError("not a status")
    cluster_id = fields.get("cluster_id", "")
    return ClusterStatus(
        cluster_id=cluster_id.hex() if isinstance(cluster_id, bytes) else str(cluster_id),
        node_id=str(fields.get("node_id", "")),
        role=str(fields.get("role", "")),
        term=int(fields.get("term", 0)),
        leader=str(fields["leader"]) if fields.get("leader") else None,
        has_quorum=bool(fields.get("has_quorum", False)),
        members=tuple(member for member in fields.get("members", ()) if isinstance(member, dict)),
        commit_index=int(fields.get("commit_index", 0)),
        applied_index=int(fields.get("applied_index", 0)),
        cluster_time=int(fields.get("cluster_time_ms", 0)) / 1000,
        grants_in=int(fields.get("grants_in_ms", 0)) / 1000,
    )


def member_infos(answer: list[Any]) -> tuple[MemberInfo, ...]:
    fields = answer[1]
    if type(fields) is not dict or type(fields.get("members")) is not list:
        raise ValueError("not a status")
    return tuple(
        MemberInfo(
            str(member["node_id"]), str(member["role"]), bool(member["voter"]), bool(member["connected"]),
            int(member["match_index"] or 0), int(member["lag"] or 0), int(member.get("weight", 1)),
        )
        for member in fields["members"]
    )  # fmt: skip
