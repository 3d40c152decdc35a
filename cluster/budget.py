"""How much memory the connections of a node may hold together, whatever each of them may hold alone.

Knows: sizes, who holds how much, that the heaviest go first. Must not know: what is held, sockets, sessions.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

logger = logging.getLogger(__name__)

# Below this nobody is looked at: all connections of a node together stay small then.
SMALL_BYTES: Final = 4096


class Holder(Protocol):
    """Who holds memory. Compared by identity."""

    def held(self) -> int:
        """Bytes, now."""

    def shed(self, reason: str) -> None:
        """Let go of all of it, for good."""


class Budget:
    """A limit for all holders together. Over it, those that hold most are closed, until a quarter of it is free again.

    Notes may be too high (what was sent since is not noted), never too low by more than ``SMALL_BYTES`` each: before anybody is closed, all
    who are noted are asked anew.
    """

    def __init__(self, limit: int, what: str) -> None:
        self._limit = limit
        self._what = what
        self._notes: dict[Holder, int] = {}
        self._total = 0

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def total(self) -> int:
        """Bytes, as far as was noted."""
        return self._total

    def note(self, holder: Holder, size: int) -> None:
        """``holder`` holds ``size`` bytes now. Cheap, and to be called whenever it may have grown."""
        before = self._notes.get(holder, 0)
        if size <= SMALL_BYTES:
            if before:
                self._total -= self._notes.pop(holder)
            return
        self._notes[holder] = size
        self._total += size - before
        if self._total > self._limit:
            self._relieve()

    def forget(self, holder: Holder) -> None:
        """It is gone."""
        self._total -= self._notes.pop(holder, 0)

    def _relieve(self) -> None:
        self._notes = {holder: size for holder in self._notes if (size := holder.held()) > SMALL_BYTES}
        self._total = total = sum(self._notes.values())
        if total <= self._limit:
            return
        closed = 0
        for holder in sorted(self._notes, key=lambda holder: self._notes[holder], reverse=True):
            self.forget(holder)
            holder.shed(f"the connections of this node hold {total} bytes of {self._what} together, more than {self._limit}")
            closed += 1
            if self._total <= self._limit - self._limit // 4:
                break
        logger.warning("budget.exceeded what=%s held=%d limit=%d closed=%d", self._what, total, self._limit, closed)
