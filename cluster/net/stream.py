"""One socket's life: bounded output, one reason for its end, told once.

Knows: asyncio transports. Must not know: handshakes, frames, who is at the other end.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from cluster.ports import Env
from cluster.tls import TlsSession

logger = logging.getLogger(__name__)

LINGER_S: Final = 1.0
EMPTIED_WITHIN_S: Final = 3.0
"""So long a node that ends waits for the last of its sockets, and no longer, whatever has become of it."""


class Roster:
    """The sockets that are not gone yet, so that a loop need not be closed under them."""

    def __init__(self) -> None:
        self._transports: set[object] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._transports)

    def add(self, transport: object) -> None:
        self._transports.add(transport)
        self._empty.clear()

    def discard(self, transport: object) -> None:
        self._transports.discard(transport)
        if not self._transports:
            self._empty.set()

    async def emptied(self) -> None:
        """Wait until all are gone, for at most ``EMPTIED_WITHIN_S``."""
        try:
            await asyncio.wait_for(self._empty.wait(), EMPTIED_WITHIN_S)
        except asyncio.TimeoutError:
            logger.warning("net.sockets_left count=%d within_s=%g", len(self), EMPTIED_WITHIN_S)


class Stream(asyncio.Protocol):
    """Base of what reads a socket.

    Attributes:
        heard_at: ``env.clock()`` when bytes last came.
        reason: why it was closed; None while it is open. Once set, nothing more is delivered or written.
    """

    def __init__(self, env: Env, buffer_max: int, roster: Roster | None = None) -> None:
        self.env = env
        self.heard_at = env.clock()
        self.reason: str | None = None
        self.transport: Any = None
        self._buffer_max = buffer_max
        self._roster = roster

    def attach(self, transport: asyncio.BaseTransport) -> None:
        """Take a socket over, as its protocol from now on."""
        self.transport = transport
        # The transport calls pause_writing as soon as more than this is queued.
        self.transport.set_write_buffer_limits(high=self._buffer_max)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._roster is not None:
            self._roster.add(transport)
        self.attach(transport)

    def hand_over(self, heir: Stream) -> None:
        """Make ``heir`` the protocol of this socket. This stream is spent: it is not told of the end any more."""
        transport, self.transport = self.transport, None
        self.reason = "handed over"
        heir._roster = self._roster
        transport.set_protocol(heir)
        heir.attach(transport)

    def pause_writing(self) -> None:
        self.close(f"more than {self._buffer_max} bytes wait to be sent: the other side does not read", abort=True)

    def resume_writing(self) -> None:
        """Nothing: the stream was closed when writing was paused."""

    def secured(self, session: TlsSession) -> None:
        """TLS is established below."""

    def insecure(self, reason: str, *, plain: bool) -> None:
        """TLS broke below; ``plain``: the other side does not speak it."""
        del plain
        self.close(f"TLS: {reason}", abort=True)

    def close(self, reason: str = "", *, abort: bool = False) -> None:
        """End it. What was written before is still sent, for at most ``LINGER_S``, unless ``abort``."""
        if self.reason is not None:
            return
        self.reason = reason or "closed by this side"
        # Not at once: who closes must not find itself inside its own callback.
        self.env.call_soon(self.ended, self.reason)
        if self.transport is None:
            return
        if abort or not self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()
            self.env.call_later(LINGER_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._roster is not None:
            self._roster.discard(self.transport)
        if self.reason is None:
            self.reason = f"connection lost: {exc}" if exc is not None else "closed by the other side"
            self.ended(self.reason)

    def ended(self, reason: str) -> None:
        """It was closed, by either side. Called once; the socket itself may live a little longer."""
