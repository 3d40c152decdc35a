"""A handshake on a socket: frames with hard caps, and a refusal that both sides hear.

Knows: how handshake payloads travel, and how much a stranger may send. Must not know: who is a member, what follows the handshake.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final

from cluster.address import Address
from cluster.codec import frame
from cluster.limits import HANDSHAKE_MAX_BYTES
from cluster.net.handshake import AcceptorHandshake, DialerHandshake, Refused
from cluster.net.secure import SecureLayer
from cluster.net.stream import Roster, Stream
from cluster.ports import Env, Hello
from cluster.tls import Credentials, TlsSession

_PREFIX: Final = 4
# How TLS begins, read as the length of a frame: far over every limit.
_TLS_HELLO: Final = 0x1603
_numbers: Final = itertools.count(1)


def session_to(address: Address, tls: Credentials | None) -> TlsSession | None:
    """TLS for a call to ``address``. A Unix socket has none: what goes through it does not leave the machine."""
    return None if tls is None or address.is_unix else tls.dialing(address.host)


class Greeting(Stream):
    """A connection whose handshake is not over.

    ``on_done(greeting, rest)`` is called once, when it is over: ``rest`` came after it and belongs to what follows; the callee hands
    the socket over. ``on_failed(greeting, refused)`` is called once instead, with None when the connection just ended (see ``reason``).
    ``on_claim(greeting)`` is called once the other side has said who it is.

    Attributes:
        protocol: what reads the socket: this, or TLS around it.
        number: grows with the moment at which this side sent its nonce; 0 before. A process that answers it was alive after that
            moment, so that a later process of the same peer never has a lower number than an earlier one.
    """

    def __init__(
        self,
        env: Env,
        handshake: AcceptorHandshake | DialerHandshake,
        on_done: Callable[[Greeting, bytes], None],
        on_failed: Callable[[Greeting, Refused | None], None],
        on_claim: Callable[[Greeting], None] | None = None,
        roster: Roster | None = None,
        tls: TlsSession | None = None,
    ) -> None:
        """``tls``: what the connection is protected by; None: nothing."""
        super().__init__(env, 2 * HANDSHAKE_MAX_BYTES, roster)
        self.protocol: asyncio.Protocol = self if tls is None else SecureLayer(tls, self)
        self.handshake = handshake
        self.refused: Refused | None = None
        self.number = 0
        self.connected = False
        self._on_done = on_done
        self._on_failed = on_failed
        self._on_claim = on_claim
        self._received = bytearray()
        self._budget = HANDSHAKE_MAX_BYTES

    @property
    def other(self) -> Hello | None:
        """What the other side says of itself so far."""
        return self.handshake.other

    def connection_made(self, transport: Any) -> None:
        if self.reason is not None:
            # The attempt was called off while it was being connected. Nothing may come of this transport, not even its end.
            transport.abort()
            return
        super().connection_made(transport)
        self.connected = True
        if isinstance(self.handshake, DialerHandshake):
            self._send(self.handshake.start())

    def secured(self, session: TlsSession) -> None:
        self.handshake.channel = session

    def insecure(self, reason: str, *, plain: bool) -> None:
        if self.reason is not None:
            return
        accepts = isinstance(self.handshake, AcceptorHandshake)
        who = self.handshake.own_id
        text = f"node {who} requires TLS, and the other side speaks without it" if accepts and plain else f"{who}: {reason}"
        self.refuse(Refused("tls", text, tell=accepts and plain))

    def data_received(self, data: bytes) -> None:
        if self.reason is not None:
            return
        self.heard_at = self.env.clock()
        self._received += data
        try:
            self._take_frames()
        except Refused as refused:
            self.refuse(refused)

    def _take_frames(self) -> None:
        while len(self._received) >= _PREFIX:
            size = int.from_bytes(self._received[:_PREFIX], "big")
            if size >> 16 == _TLS_HELLO and self.handshake.channel is None:
                raise Refused("tls", f"the caller speaks TLS, and {self.handshake.own_id} has none")
            if _PREFIX + size > self._budget:
                raise Refused("protocol", f"a frame of {size} bytes before the handshake is over")
            if len(self._received) < _PREFIX + size:
                return
            payload = bytes(self._received[_PREFIX : _PREFIX + size])
            del self._received[: _PREFIX + size]
            self._budget -= _PREFIX + size
            answer = self.handshake.receive(payload)
            if answer is not None:
                self._send(answer)
            if self._on_claim is not None and self.other is not None:
                self._on_claim(self)
                self._on_claim = None
            if self.handshake.done:
                self._on_done(self, bytes(self._received))
                return

    def _send(self, payload: bytes) -> None:
        self.number = self.number or next(_numbers)
        self.transport.write(frame(payload))

    def refuse(self, refused: Refused) -> None:
        """Tell the other side why, unless it was the one to refuse or listens to frames of another kind already, and close."""
        if self.reason is not None:
            return
        self.refused = refused
        if refused.farewell is not None and self.transport is not None and not self.handshake.spoke_last:
            self._send(refused.farewell)
        self.close(refused.text)

    def ended(self, reason: str) -> None:
        self._on_failed(self, self.refused)
