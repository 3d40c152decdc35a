"""TLS between a socket and whoever reads it: a protocol to the socket, a transport to the stream.

Knows: asyncio's two interfaces, ``cluster.tls``. Must not know: certificates, frames, who is at the other end.

Not asyncio's own TLS, for three reasons: a stream must be able to end a connection whose TLS handshake has only begun (strangers are closed
oldest first); one that speaks without TLS must be told so in its own language; and uvloop, asyncio and the simulation behave the same.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from cluster.limits import TLS_HANDSHAKE_MAX_BYTES
from cluster.tls import TlsFailure, TlsSession


class Inner(Protocol):
    """Who reads, and shakes hands first."""

    def secured(self, session: TlsSession) -> None:
        """TLS is established. Called before anything is delivered."""

    def insecure(self, reason: str, *, plain: bool) -> None:
        """TLS failed. ``plain``: the other side speaks without it, and reads what is written to the transport now."""

    def connection_made(self, transport: Any) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class SecureLayer(asyncio.Protocol):
    """See the module. What is written before TLS is established is kept back until it is."""

    def __init__(self, session: TlsSession, inner: Inner) -> None:
        self._session = session
        self._inner = inner
        self._raw: Any = None
        self._kept: list[bytes] = []
        self._budget = TLS_HANDSHAKE_MAX_BYTES
        self._plain = False
        self._over = False

    # A protocol, to the socket.

    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        self._inner.connection_made(self)
        if self._over:
            return  # It was called off while it was being connected.
        try:
            self._session.begin()
        except TlsFailure as failure:
            self._failed(failure)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        session, was_done = self._session, self._session.done
        if not was_done:
            self._budget -= len(data)
            if self._budget < 0:
                self._failed(TlsFailure(f"more than {TLS_HANDSHAKE_MAX_BYTES} bytes before TLS is established"))
                return
        try:
            clear = session.receive(data)
        except TlsFailure as failure:
            # The alert, if there is one, tells the other side.
            self._flush()
            self._failed(failure)
            return
        if session.done and not was_done:
            self._inner.secured(session)
            for kept in self._kept:
                session.send(kept)
            self._kept.clear()
        self._flush()
        if clear:
            self._inner.data_received(clear)

    def _failed(self, failure: TlsFailure) -> None:
        self._over = True
        # A dialer never says a word without TLS: whoever stands in between may have taken it away.
        self._plain = failure.plain and not self._session.dials
        self._kept.clear()
        self._inner.insecure(str(failure), plain=failure.plain)

    def eof_received(self) -> None:
        """Nothing: the transport closes by itself then."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # A transport, to the stream.

    def write(self, data: bytes) -> None:
        if self._plain:
            self._raw.write(data)
        elif self._over:
            return
        elif self._session.done:
            self._session.send(data)
            self._flush()
        else:
            self._kept.append(data)

    def _flush(self) -> None:
        data = self._session.outgoing()
        if data:
            self._raw.write(data)

    def set_protocol(self, protocol: Inner) -> None:
        self._inner = protocol

    def set_write_buffer_limits(self, high: int) -> None:
        self._raw.set_write_buffer_limits(high=high)

    def get_write_buffer_size(self) -> int:
        size: int = self._raw.get_write_buffer_size()
        return size + sum(map(len, self._kept))

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._session.end()
            self._flush()
        self._raw.close()

    def abort(self) -> None:
        self._over = True
        self._raw.abort()
