"""Calling one peer until it answers, or until somebody says to stop.

Knows: when to call, how long to wait between calls, what to say in the log. Must not know: what becomes of the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from cluster.address import Address
from cluster.errors import UsageError
from cluster.limits import HANDSHAKE_TIMEOUT_S
from cluster.net.greeting import Greeting
from cluster.net.handshake import Refused
from cluster.ports import Env, Handle

RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 1.0
DIAL_TIMEOUT_S: Final = 3.0

logger = logging.getLogger(__name__)


class Dialer:
    """The calls to one peer: at most one at a time, with full jitter between them."""

    def __init__(self, env: Env, peer: str, make: Callable[[Dialer], Greeting]) -> None:
        """``make`` gives the greeting of a new call; its ``on_failed`` must lead to ``failed``. May raise UsageError."""
        self._env = env
        self.peer = peer
        self.address = Address.parse(peer, what="peer")
        self._make = make
        self._misses = 0
        self._problem = ""
        self._timer: Handle | None = None
        self._task: asyncio.Task[None] | None = None
        self._greeting: Greeting | None = None

    def arm(self, delay_s: float) -> None:
        """Call after ``delay_s``, unless a call is under way or planned."""
        if self._timer is None and self._greeting is None:
            self._timer = self._env.call_later(delay_s, self._call)

    def rest(self, *, reached: bool) -> None:
        """Call no more, until armed again. ``reached``: the peer is connected, so that the next trouble is news."""
        timer, task, greeting = self._timer, self._task, self._greeting
        self._timer = self._task = self._greeting = None
        if reached:
            self._misses = 0
            self._problem = ""
        if timer is not None:
            timer.cancel()
        if task is not None and greeting is not None and not greeting.connected:
            # Once it is connected the task is about to end; cancelled in that moment it might take the socket with it.
            task.cancel()
        if greeting is not None:
            greeting.close("not needed any more", abort=True)

    def failed(self, greeting: Greeting, refused: Refused | None) -> None:
        """The call's connection ended before its handshake was over."""
        if greeting is not self._greeting:
            return
        if refused is None:
            self._missed("peer.unreachable", f"during the handshake: {greeting.reason}")
        elif refused.code == "redundant":
            self._missed("", "")
        else:
            self._missed("handshake.refused", refused.text, refused.code)

    def _call(self) -> None:
        self._timer = None
        try:
            self._greeting = self._make(self)
        except UsageError as error:
            self._missed("peer.uncallable", str(error))
            return
        self._task = self._env.spawn(self._dial(self._greeting), f"dial {self.peer}")

    async def _dial(self, greeting: Greeting) -> None:
        try:
            await self._env.dial(self.address, lambda: greeting.protocol, DIAL_TIMEOUT_S)
        except asyncio.TimeoutError:
            self._unreachable(greeting, f"no connection within {DIAL_TIMEOUT_S:g} s")
        except (OSError, ValueError) as error:
            # Names that cannot be encoded for the resolver are a ValueError.
            self._unreachable(greeting, str(error))
        else:
            if greeting is self._greeting:
                self._task = None
                self._timer = self._env.call_later(HANDSHAKE_TIMEOUT_S, self._too_slow, greeting)

    def _too_slow(self, greeting: Greeting) -> None:
        self._timer = None
        greeting.close(f"no handshake within {HANDSHAKE_TIMEOUT_S:g} s")

    def _unreachable(self, greeting: Greeting, reason: str) -> None:
        if greeting is self._greeting:
            self._missed("peer.unreachable", reason)
        greeting.close(reason, abort=True)

    def _missed(self, event: str, reason: str, code: str = "") -> None:
        """Plan the next call; say why only when it is another reason than the last time."""
        self._task = self._greeting = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if reason and reason != self._problem:
            level = logging.INFO if event == "peer.unreachable" else logging.WARNING
            logger.log(level, "%s peer=%s code=%s reason=%s", event, self.peer, code or "-", reason)
        self._problem = reason or self._problem
        longest = min(RETRY_MAX_S, RETRY_MIN_S * 2 ** min(self._misses, 10))
        self._misses += 1
        self.arm(self._env.random.uniform(RETRY_MIN_S, longest))
