"""All pieces together: what a raft node runs.

Knows: the order of the pieces. Must not know: what any of them does.

Each class in the list makes up for a hazard or adds one ability; leaving one out is what tests do to show the damage. There
are no switches.
"""

from __future__ import annotations

from cluster.raft.backtrack import Backtrack
from cluster.raft.changing import OneAtATime, OwnTermFirst
from cluster.raft.commit import Poison, SnapCommit
from cluster.raft.compaction import Compaction
from cluster.raft.elections import PreVote, Stickiness, Unlisted, VoteId
from cluster.raft.following import Trim
from cluster.raft.leading import CheckQuorum, Forward
from cluster.raft.lifecycle import Lifecycle
from cluster.raft.members import KeepsMembers
from cluster.raft.preferring import Preference
from cluster.raft.receiving import AckTerm, OneConn, StepDown
from cluster.raft.returning import AsksAnew
from cluster.raft.snapinstall import FailStop, SnapKeep, SnapSeq
from cluster.raft.snapsend import SnapSend
from cluster.raft.startup import Startup
from cluster.raft.timers import LateTimers


class Adapter(
    OneConn,
    StepDown,
    AckTerm,
    Lifecycle,
    AsksAnew,
    LateTimers,
    PreVote,
    Stickiness,
    VoteId,
    Unlisted,
    Preference,
    CheckQuorum,
    OneAtATime,
    OwnTermFirst,
    Forward,
    Trim,
    Backtrack,
    SnapSeq,
    SnapKeep,
    FailStop,
    SnapSend,
    SnapCommit,
    Poison,
    Compaction,
    Startup,
    KeepsMembers,
):
    """One raft node on pysyncobj's engine."""
