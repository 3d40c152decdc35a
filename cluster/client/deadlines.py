"""When calls are overdue: a ring of coarse buckets instead of a timer for each call.

Knows: times by the env's clock. Must not know: what a call is. Setting and dropping cost one dictionary operation; a call is reported at
most ``RESOLUTION_S`` late, and never early.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from cluster.ports import Env, Handle

RESOLUTION_S: Final = 0.02


class Dated(Protocol):
    bucket: int


D = TypeVar("D", bound=Dated)


class Deadlines(Generic[D]):
    """``due(item)`` is called on the loop, once per ``set``; the item may be set again from there."""

    def __init__(self, env: Env, due: Callable[[D], None]) -> None:
        self._env = env
        self._due = due
        self._buckets: dict[int, dict[D, None]] = {}
        self._timer: Handle | None = None
        self._armed_for = 0

    def __len__(self) -> int:
        return sum(map(len, self._buckets.values()))

    def set(self, item: D, at_s: float) -> None:
        """``item.bucket`` is -1 while it stands in no bucket."""
        if item.bucket >= 0:
            self.drop(item)
        index = math.ceil(at_s / RESOLUTION_S)
        bucket = self._buckets.get(index)
        if bucket is None:
            bucket = self._buckets[index] = {}
            if self._timer is None or index < self._armed_for:
                self._arm(index)
        bucket[item] = None
        item.bucket = index

    def drop(self, item: D) -> None:
        index = item.bucket
        if index < 0:
            return
        item.bucket = -1
        bucket = self._buckets[index]
        del bucket[item]
        if not bucket:
            del self._buckets[index]
            if not self._buckets and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def clear(self) -> list[D]:
        items = [item for bucket in self._buckets.values() for item in bucket]
        for item in items:
            self.drop(item)
        return items

    def _arm(self, index: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = index
        self._timer = self._env.call_later(max(0.0, index * RESOLUTION_S - self._env.clock()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._env.clock()
        for index in sorted(index for index in self._buckets if index * RESOLUTION_S <= now):
            for item in list(self._buckets.get(index, ())):
                if item.bucket == index:
                    self.drop(item)
                    self._due(item)
        # What was set meanwhile may have armed the timer for itself, though something earlier is left.
        if self._buckets and (self._timer is None or min(self._buckets) < self._armed_for):
            self._arm(min(self._buckets))
