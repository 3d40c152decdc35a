"""Whether cluster time goes as fast as real time, and never faster.

Knows: when each batch was stamped in real time, and with what (docs/architecture.md, Time). Must not know: how a leader finds its stamps.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.sim.violation import Violation

DRIFT = 0.005
"""No simulated clock is off by more."""
ROUNDING_MS = 2.0


@dataclass(frozen=True)
class Stamp:
    """A batch as it was proposed: by whom, the cluster time that it carries, when by that host's clock, when in real time; and since when,
    in real time, its proposer had known the last accepted batch that it knew."""

    node: str
    epoch: int
    time_ms: int
    clock_s: float
    real_s: float
    known_s: float = 0.0


class Pace:
    """Sees the stamps of accepted batches, in log order, and when each node came to know what was accepted.

    Attributes:
        last: the newest.
    """

    def __init__(self) -> None:
        self.last: Stamp | None = None
        self._known_at: dict[str, float] = {}
        self._first: Stamp | None = None
        self._slow_ms = 0.0
        self._real_s = 0.0

    def reached(self, node: str, real_s: float) -> None:
        """A node applied an accepted batch, or took a state from its disk or from another node: its clock may count from here, and from
        nothing later."""
        self._known_at[node] = real_s

    def known_at(self, node: str) -> float:
        """When ``node`` reached what it has applied."""
        return self._known_at[node]

    def accepted(self, index: int, stamp: Stamp) -> None:
        """A batch of the current epoch was applied for the first time.

        Raises:
            Violation: time ran faster than real time; or lost some within one epoch, in which nothing excuses it; or lost more between
                two than the time until the new leader had come to know the last batch before its epoch.
        """
        before, self.last = self.last, stamp
        if before is not None and before.epoch != stamp.epoch:
            self._across(index, before, stamp)
        first = self._first
        if first is None or first.epoch != stamp.epoch:
            self._first = first = stamp
        passed_ms, real_ms = stamp.time_ms - first.time_ms, (stamp.clock_s - first.clock_s) * 1000
        if passed_ms < real_ms - ROUNDING_MS:
            raise Violation(
                f"index {index}: {passed_ms} ms of cluster time passed in epoch {stamp.epoch} while its leader's clock went "
                f"{real_ms:.1f} ms: time stands still under load"
            )
        # How far cluster time lies behind real time may only grow, but for the drift of clocks.
        slow_ms = stamp.real_s * 1000 - stamp.time_ms
        allowed_ms = self._slow_ms - DRIFT * (stamp.real_s - self._real_s) * 1000 - ROUNDING_MS
        if self._real_s and slow_ms < allowed_ms:
            raise Violation(f"index {index}: cluster time ran {allowed_ms - slow_ms:.1f} ms faster than real time (I8)")
        self._slow_ms = max(slow_ms, allowed_ms + ROUNDING_MS) if self._real_s else slow_ms
        self._real_s = stamp.real_s

    def _across(self, index: int, before: Stamp, stamp: Stamp) -> None:
        """The first batch of an epoch. Its leader counts from the moment at which it applied the batch before: epoch entries since then,
        its own or others', are no bases. So elections in a row do not stretch leases."""
        passed_ms, known_ms = stamp.time_ms - before.time_ms, (stamp.real_s - stamp.known_s) * 1000
        if passed_ms < known_ms * (1 - DRIFT) - ROUNDING_MS:
            raise Violation(
                f"index {index}: {passed_ms} ms of cluster time passed from epoch {before.epoch} to epoch {stamp.epoch}, and {stamp.node} "
                f"had known for {known_ms:.1f} ms what came before: a failover takes time away"
            )
