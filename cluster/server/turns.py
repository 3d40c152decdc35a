"""Who is served next of those whose requests do not take the hot path, and for how long before everything else has its turn.

Knows: the loop's turns, a time. Must not know: requests, connections.

All clients together have one slice of each turn of the loop: a thousand that ask in the same moment must not keep a raft leader from its
peers for a thousand times as long as one. Within it they are served round robin, a request each.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from cluster.ports import Env

SLICE_S: Final = 0.004


class Served(Protocol):
    """Who has requests. Compared by identity.

    ``queued``: whether it stands in line; kept by ``Turns``.
    """

    queued: bool

    def step(self) -> bool:
        """Answer one request. Whether there are more."""


class Turns:
    """See the module. The first of a turn are served at once, without going through the loop."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._line: deque[Served] = deque()
        self._until = 0.0
        self._begun = False

    def serve(self, one: Served) -> None:
        """It has requests: now, if there is time left and nobody stands in line, or in one of the next turns."""
        if one.queued:
            return
        fresh = not self._begun
        if fresh:
            self._begin()
        while not self._line and (fresh or self._env.clock() < self._until):
            fresh = False
            if not one.step():
                return
        one.queued = True
        self._line.append(one)

    def _begin(self) -> None:
        self._begun = True
        self._until = self._env.clock() + SLICE_S
        self._env.call_soon(self._next)

    def _next(self) -> None:
        self._begun = False
        line = self._line
        if not line:
            return
        self._begin()
        while line:
            one = line.popleft()
            # First: whom an unexpected error meets is not left out for ever.
            one.queued = False
            if one.step():
                one.queued = True
                line.append(one)
            if self._env.clock() >= self._until:
                return
