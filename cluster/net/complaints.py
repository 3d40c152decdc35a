"""What strangers do wrong, without letting them fill the log.

Knows: when the same was said last. Must not know: what it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

REPEAT_S: Final = 60.0
DIFFERENT_MAX: Final = 256


class Complaints:
    """Each complaint is news once in ``REPEAT_S``, and at most ``DIFFERENT_MAX`` different ones are."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._said: dict[tuple[str, ...], float] = {}

    def is_news(self, complaint: tuple[str, ...]) -> bool:
        """Whether this should be said aloud; it counts as said then."""
        now = self._clock()
        # In order of time: what was said first is forgotten first.
        while self._said and now - next(iter(self._said.values())) >= REPEAT_S:
            del self._said[next(iter(self._said))]
        if complaint in self._said or len(self._said) >= DIFFERENT_MAX:
            return False
        self._said[complaint] = now
        return True
