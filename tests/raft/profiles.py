"""Kinds of weather: which faults come how often.

Knows: numbers. Must not know: what a fault does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cluster.raft.config import PIECE_BYTES


@dataclass(frozen=True)
class Profile:
    """What kind of weather. Rates are events a second, over all nodes.

    ``echoes``: the share of messages that come twice, the second time up to some seconds later, over whatever connection there is then.
    No net of ours does that; several pieces of the adapter are what would bear it. ``inside``: damage inside a node counts, also where
    others would mend it.
    """

    nodes: int = 3
    duration_s: float = 20.0
    durability: str = "process"
    proposals: float = 40.0
    crashes: float = 0.25
    mid_crashes: float = 0.1
    power: bool = False
    pauses: float = 0.2
    breaks: float = 0.5
    partitions: float = 0.15
    stalls: float = 0.2
    echoes: float = 0.0
    piece_bytes: int = PIECE_BYTES
    wipes: float = 0.0
    handovers: float = 0.05
    returns: float = 0.0
    failures: float = 0.0
    spares: int = 0
    changes: float = 0.0
    delay_s: float = 0.001
    disk_s: float = 0.0005
    drift: float = 0.004
    inside: bool = True


STORM = Profile(
    duration_s=10.0,
    proposals=60.0,
    crashes=0.6,
    mid_crashes=0.4,
    pauses=1.0,
    breaks=2.0,
    partitions=0.5,
    stalls=1.5,
    handovers=0.3,
    delay_s=0.004,
)

PROFILES = {
    "base": Profile(),
    "calm": Profile(crashes=0.0, mid_crashes=0.0, breaks=0.3),
    "power": Profile(durability="fsync", power=True, mid_crashes=0.2),
    "slowdisk": replace(STORM, durability="fsync", power=True, disk_s=0.03, stalls=0.3),
    "five": Profile(nodes=5, crashes=0.4, partitions=0.25),
    "wipe": Profile(wipes=0.15, crashes=0.1),
    "wipe5": Profile(nodes=5, wipes=0.25, crashes=0.1, durability="fsync"),
    "slow": Profile(delay_s=0.02, stalls=0.4),
    "storm": replace(STORM, nodes=3),
    "quiet": replace(STORM, proposals=1.0, stalls=3.0),
    "storm5": replace(STORM, nodes=5, durability="fsync", power=True),
    "stormwipe": replace(STORM, nodes=5, wipes=0.5, crashes=0.3, mid_crashes=0.2),
    "members": Profile(spares=3, changes=1.5),
    "members1": Profile(nodes=1, spares=4, changes=2.0, crashes=0.15, durability="fsync", power=True),
    "stormmembers": replace(STORM, spares=3, changes=3.0),
    "pairs": Profile(
        nodes=2, spares=2, changes=6.0, duration_s=10.0, proposals=10.0, crashes=0.8, mid_crashes=0.5, durability="fsync", power=True,
        disk_s=0.03,
    ),
    "memberswipe": Profile(nodes=4, spares=2, changes=1.0, wipes=0.3, crashes=0.1, durability="fsync", power=True),
    "echo": replace(STORM, echoes=0.2, delay_s=0.002),
    "echo5": replace(STORM, nodes=5, echoes=0.2),
    "returns": Profile(nodes=5, proposals=80.0, crashes=0.05, mid_crashes=0.0, pauses=0.0, breaks=0.1, partitions=0.0, returns=0.4),
    "pieces": replace(STORM, echoes=0.2, piece_bytes=200, wipes=0.3),
    "far": replace(STORM, delay_s=0.06, breaks=0.3, crashes=0.2, mid_crashes=0.0, stalls=0.3),
    "failing": replace(STORM, nodes=3, failures=1.0, wipes=0.2, pauses=0.3, crashes=0.1, mid_crashes=0.0),
    "memory": Profile(durability="memory", crashes=0.0, mid_crashes=0.0, wipes=0.3),
}
