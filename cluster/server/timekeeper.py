"""Cluster time: which stamp a batch gets.

Knows: the rule that keeps cluster time from ever running faster than real time (docs/architecture.md, Time). Must not know: the log, the
network, any wall clock.
"""

from __future__ import annotations

from collections.abc import Callable


class TimeKeeper:
    """Stamps batches while this node is the raft leader.

    Having applied its own epoch entry, a leader stamps with ``T_B + (now - a)``: ``B`` is the last accepted batch before that entry, ``a``
    the moment at which this node applied ``B``. Nothing is applied before it was stamped, so ``a`` is not earlier than the stamping of
    ``B``, and cluster time cannot run ahead of real time. The base stays for the whole epoch: renewing it would lose the commit
    delay each time.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last_ms = 0
        self._last_at = clock()
        self._base_ms = 0
        self._base_at = 0.0
        self.leading = False

    def applied(self, time_ms: int) -> None:
        """Cluster time is now ``time_ms``: an accepted batch (no epoch entry, no refused one) was just applied, or a snapshot loaded."""
        self._last_ms = time_ms
        self._last_at = self._clock()

    def begin(self) -> None:
        """This node has just applied its own epoch entry."""
        self._base_ms = self._last_ms
        self._base_at = self._last_at
        self.leading = True

    def end(self) -> None:
        """This node is not the raft leader any more: it stamps nothing."""
        self.leading = False

    def stamp(self) -> int:
        """The cluster time that a batch sealed now would carry, in milliseconds. Only while leading."""
        return self._base_ms + int((self._clock() - self._base_at) * 1000.0)

    def delay_s(self, time_ms: int) -> float:
        """Seconds until cluster time reaches ``time_ms``; 0 or less if it has."""
        return (time_ms - self._base_ms) / 1000.0 - (self._clock() - self._base_at)
