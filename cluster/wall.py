"""Which times of a wall clock a raft group can begin with: its first token is made of one (I2).

Knows: the limit, and what to say of a clock beyond it. Must not know: who reads the clock.
"""

from __future__ import annotations

from cluster.limits import WALL_MAX_MS


def can_be(wall_ms: int) -> bool:
    """Whether tokens can begin there: milliseconds since 1970."""
    return 0 <= wall_ms <= WALL_MAX_MS


def objection(wall_s: float) -> str:
    """Why no group can be formed by a clock that says so, in one line; empty if one can."""
    if can_be(int(wall_s * 1000)):
        return ""
    return (
        f"the wall clock says {wall_s:.0f} s since 1970, and tokens begin at 0 to {WALL_MAX_MS // 1000} s: no raft group is formed. "
        "Set the clock of this machine, then start it again"
    )
