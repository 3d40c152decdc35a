"""One timer, set for the next deadline.

Knows: when the leader's next sign of life and the follower's election are due. Must not know: what they do.

Deadlines move away with every message; the timer is left where it is and looks again when it fires. So an idle node wakes up a few
times a second, and hearing the leader costs one assignment.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from math import inf
from typing import Final

from cluster.ports import Handle
from cluster.raft.core import Parts
from cluster.raft.elections import Elections
from cluster.raft.engine import LEADER

logger = logging.getLogger(__name__)

LATE_S: Final = 0.02
LATE_ROUNDS_MAX: Final = 4
SEAL_S: Final = 1.0
"""The journal is given the occasion, at most this often, to prove that what it holds was settled."""


class Timers(Elections):
    """Beats while leading, stands for election while not."""

    def __init__(self, parts: Parts) -> None:
        self._timer: Handle | None = None
        self._timer_at = inf
        self._started = False
        self._sealed_at = -inf
        super().__init__(parts)

    def _due(self) -> float:
        if self._SyncObj__raftState == LEADER:
            return self._next_beat
        return self._SyncObj__raftElectionDeadline if self._may_stand() else inf

    def _arm(self) -> None:
        if self._stopped or not self._started:
            return
        due = self._due()
        if self._timer_at <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        # It can be late for nothing that was due before it was set.
        now = self._clock()
        self._timer_at = max(due, now)
        self._timer = self._env.call_later(self._timer_at - now, self._guard, self._on_timer)

    def _on_timer(self) -> None:
        now, due = self._clock(), self._due()
        late = self._is_late(now - self._timer_at)
        self._timer, self._timer_at = None, inf
        if now - self._sealed_at >= SEAL_S:
            self._sealed_at = now
            self._log.onOneSecondTimer()
        if now >= due:
            if self._SyncObj__raftState == LEADER:
                self._beat(now, late)
            elif late:
                self._SyncObj__raftElectionDeadline = now + self._config.heartbeat_s
            else:
                self._campaign()
        else:
            # Heard of a leader since: wait for another random time from the next message on.
            self._timeout_s = self._SyncObj__generateRaftTimeout()
        self._arm()

    def _begin_timers(self) -> None:
        self._started = True
        self._heard_at = self._clock()
        if self._members == (self._config.node_id,):
            self._SyncObj__raftElectionDeadline = self._heard_at
        else:
            # Also from the first leader on: followers that wait for the same time stand in the same moment, and split the votes.
            self._timeout_s = self._SyncObj__generateRaftTimeout()
            self._SyncObj__raftElectionDeadline = self._heard_at + self._timeout_s
        self._arm()

    def _end_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @abstractmethod
    def _is_late(self, lateness_s: float) -> bool:
        """Whether this process stood still, so that what it would conclude from silence is premature. (LateTimers)"""


class LateTimers(Timers):
    """A timer that fires late concludes nothing yet: first the sockets are read, in which the leader's messages may lie.

    Hazard R5: after a pause the released library's timers come before its sockets; a follower that was stopped for half a second deposed a
    healthy leader in 20 of 20 tries. On a machine that is always late it still stands, after a few rounds.
    """

    def __init__(self, parts: Parts) -> None:
        self._late_rounds = 0
        super().__init__(parts)

    def _is_late(self, lateness_s: float) -> bool:
        if lateness_s < LATE_S or self._late_rounds >= LATE_ROUNDS_MAX:
            self._late_rounds = 0
            return False
        self._late_rounds += 1
        if lateness_s >= self._config.election_min_s and self._late_rounds == 1:
            # Long enough for the others to elect another leader: whoever reads their elections in the log finds here why.
            logger.warning(
                "raft.stood_still node=%s for_ms=%d hint=this process was stopped, or something in it kept the interpreter's lock",
                self._config.node_id,
                lateness_s * 1000,
            )
        else:
            logger.debug("raft.late node=%s late_ms=%d", self._config.node_id, lateness_s * 1000)
        return True
