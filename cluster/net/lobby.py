"""Strangers: connections that have not shaken hands yet, few and not for long.

Knows: how many, how long. Must not know: what they say.
"""

from __future__ import annotations

from typing import Final

from cluster.limits import HANDSHAKE_TIMEOUT_S, UNAUTHENTICATED_MAX
from cluster.net.greeting import Greeting
from cluster.ports import Env, Handle

# Two round trips of a handshake on a near network.
CHANCE_S: Final = 0.05


class Lobby:
    """At most ``UNAUTHENTICATED_MAX`` greetings, each for at most ``HANDSHAKE_TIMEOUT_S``; for a new one too many the oldest goes.

    So a flood throws out its own, and whoever shakes hands at once gets through.
    """

    def __init__(self, env: Env) -> None:
        self._env = env
        self._since: dict[Greeting, float] = {}
        self._timer: Handle | None = None

    def __len__(self) -> int:
        return len(self._since)

    def enter(self, greeting: Greeting) -> None:
        self._since[greeting] = self._env.clock()
        if len(self._since) > UNAUTHENTICATED_MAX:
            oldest = next(iter(self._since))
            self.leave(oldest)
            oldest.close(f"more than {UNAUTHENTICATED_MAX} connections have not shaken hands", abort=True)
        if self._timer is None:
            self._timer = self._env.call_later(HANDSHAKE_TIMEOUT_S, self._sweep)

    def make_room(self) -> bool:
        """Close the oldest, for want of something else than numbers; whether there was one that has had its chance."""
        oldest = next(iter(self._since), None)
        if oldest is None or self._env.clock() - self._since[oldest] < CHANCE_S:
            return False
        self.leave(oldest)
        oldest.close("file descriptors are short, and this connection has not shaken hands", abort=True)
        return True

    def leave(self, greeting: Greeting) -> None:
        self._since.pop(greeting, None)

    def _sweep(self) -> None:
        self._timer = None
        limit = self._env.clock() - HANDSHAKE_TIMEOUT_S
        for greeting, since in list(self._since.items()):
            if since > limit:
                self._timer = self._env.call_later(since - limit, self._sweep)
                return
            self.leave(greeting)
            greeting.close(f"no handshake within {HANDSHAKE_TIMEOUT_S:g} s")

    def close(self, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for greeting in list(self._since):
            self.leave(greeting)
            greeting.close(reason)
