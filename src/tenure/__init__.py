"""Elect who does a job: leases and fencing tokens from a Raft group of your own processes.

Knows: which names are public. Must not know: how anything is done.

>>> import tenure
>>> with tenure.local() as coordinator:
...     elector = tenure.LeaderElector(coordinator)
...     elector.run_if_leader("nightly-report", lambda: "report written")
'report written'

``tenure.local()`` is one process without a network; ``tenure.connect("host:port,host:port")`` reaches nodes that run elsewhere;
``tenure.join("host:port", peers)`` makes this process a node. Everything else is the same for all of them.
"""

from cluster.client import (
    AsyncCoordinator,
    AsyncLease,
    AsyncLeaseSet,
    AsyncRecords,
    AsyncWatch,
    Candidacy,
    CandidateInfo,
    Candidates,
    ClusterStatus,
    Coordinator,
    Extended,
    ExtendOutcome,
    LeaderGroupState,
    LeaderInfo,
    LeaderState,
    Lease,
    LeaseEvent,
    LeaseInfo,
    LeaseSet,
    MemberInfo,
    NotHeld,
    Record,
    Records,
    Unknown,
    Watch,
    WatchGap,
)
from cluster.errors import (
    AuthenticationError,
    CoordinationError,
    FencedError,
    Indeterminate,
    LeaseLostError,
    NotLeaderError,
    ProtocolError,
    Unavailable,
    UsageError,
    VersionConflictError,
)
from cluster.tls import Tls
from tenure import aio, fenced_sql, identity
from tenure._futures import ThreadFuture
from tenure.aio_elector import AsyncLeaderElector, AsyncLeaderGroupElector
from tenure.aio_latch import AsyncLeaderLatch
from tenure.context import assert_leader, current_lease, extend_lease, runs_unled
from tenure.decorators import leader_group_only, leader_only
from tenure.doors import connect, join, join_or_connect, local
from tenure.elector import LeaderElector, LeaderGroupElector
from tenure.fencing import FencingGate, fencing_headers
from tenure.future_elector import FutureLeaderElector, FutureLeaderGroupElector
from tenure.latch import LeaderLatch
from tenure.listeners import ElectionEvent, ElectionListener
from tenure.options import ElectionOptions, GroupElectionOptions
from tenure.results import ActionFailed, Elected, LeaseLost, RunResult, Skipped, Unled
from tenure.schedules import AsyncSchedule, Schedule, leader_scheduled
from tenure.scorers import (
    IdleTimeScorer,
    RecentSuccessScorer,
    SuccessRateScorer,
    WeightedScorer,
    WeightScorer,
)
from tenure.strategic_elector import AsyncStrategicLeaderElector, StrategicLeaderElector
from tenure.strategies import (
    ElectionResult,
    FifoStrategy,
    RandomStrategy,
    RankedStrategy,
    ScoredStrategy,
    Strategy,
    WeightedRandomStrategy,
)
from tenure.thread_elector import ThreadLeaderElector, ThreadLeaderGroupElector

__all__ = [
    "ActionFailed",
    "AsyncCoordinator",
    "AsyncLeaderElector",
    "AsyncLeaderGroupElector",
    "AsyncLeaderLatch",
    "AsyncLease",
    "AsyncLeaseSet",
    "AsyncRecords",
    "AsyncSchedule",
    "AsyncStrategicLeaderElector",
    "AsyncWatch",
    "AuthenticationError",
    "Candidacy",
    "CandidateInfo",
    "Candidates",
    "ClusterStatus",
    "CoordinationError",
    "Coordinator",
    "Elected",
    "ElectionEvent",
    "ElectionListener",
    "ElectionOptions",
    "ElectionResult",
    "ExtendOutcome",
    "Extended",
    "FencedError",
    "FencingGate",
    "FifoStrategy",
    "FutureLeaderElector",
    "FutureLeaderGroupElector",
    "GroupElectionOptions",
    "IdleTimeScorer",
    "Indeterminate",
    "LeaderElector",
    "LeaderGroupElector",
    "LeaderGroupState",
    "LeaderInfo",
    "LeaderLatch",
    "LeaderState",
    "Lease",
    "LeaseEvent",
    "LeaseInfo",
    "LeaseLost",
    "LeaseLostError",
    "LeaseSet",
    "MemberInfo",
    "NotHeld",
    "NotLeaderError",
    "ProtocolError",
    "RandomStrategy",
    "RankedStrategy",
    "RecentSuccessScorer",
    "Record",
    "Records",
    "RunResult",
    "Schedule",
    "ScoredStrategy",
    "Skipped",
    "StrategicLeaderElector",
    "Strategy",
    "SuccessRateScorer",
    "ThreadFuture",
    "ThreadLeaderElector",
    "ThreadLeaderGroupElector",
    "Tls",
    "Unavailable",
    "Unknown",
    "Unled",
    "UsageError",
    "VersionConflictError",
    "Watch",
    "WatchGap",
    "WeightScorer",
    "WeightedRandomStrategy",
    "WeightedScorer",
    "aio",
    "assert_leader",
    "connect",
    "current_lease",
    "extend_lease",
    "fenced_sql",
    "fencing_headers",
    "identity",
    "join",
    "join_or_connect",
    "leader_group_only",
    "leader_only",
    "leader_scheduled",
    "local",
    "runs_unled",
]
