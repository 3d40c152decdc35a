"""The client: coordinators, leases, and the way to the raft leader."""

from cluster.client.aio import AsyncCoordinator
from cluster.client.candidacy import Candidacy
from cluster.client.candidates import CandidateInfo, Candidates
from cluster.client.connecting import connect, connect_async
from cluster.client.coordinator import Coordinator, clock_of, must_not_wait
from cluster.client.core import LostEvent
from cluster.client.door import Door, TcpDoor
from cluster.client.host import IoThread, Resident
from cluster.client.lease import AsyncLease, Lease
from cluster.client.lease_set import AsyncLeaseSet, LeaseSet
from cluster.client.records import AsyncRecords, Records
from cluster.client.values import (
    ClusterStatus,
    Extended,
    ExtendOutcome,
    LeaderGroupState,
    LeaderInfo,
    LeaderState,
    LeaseInfo,
    MemberInfo,
    NotHeld,
    Record,
    Unknown,
)
from cluster.client.watch import AsyncWatch, Watch
from cluster.client.watched import EventKind, LeaseEvent, WatchGap

__all__ = [
    "AsyncCoordinator",
    "AsyncLease",
    "AsyncLeaseSet",
    "AsyncRecords",
    "AsyncWatch",
    "Candidacy",
    "CandidateInfo",
    "Candidates",
    "ClusterStatus",
    "Coordinator",
    "Door",
    "EventKind",
    "ExtendOutcome",
    "Extended",
    "IoThread",
    "LeaderGroupState",
    "LeaderInfo",
    "LeaderState",
    "Lease",
    "LeaseEvent",
    "LeaseInfo",
    "LeaseSet",
    "LostEvent",
    "MemberInfo",
    "NotHeld",
    "Record",
    "Records",
    "Resident",
    "TcpDoor",
    "Unknown",
    "Watch",
    "WatchGap",
    "clock_of",
    "connect",
    "connect_async",
    "must_not_wait",
]
