"""Connections of clients over sockets, and how a client opens one.

Knows: ``ports.Connection`` over a stream. Must not know: requests, replies, which node is the raft leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cluster.address import Address
from cluster.budget import SMALL_BYTES, Budget
from cluster.errors import CoordinationError
from cluster.limits import OUTPUT_BUFFER_MAX_BYTES
from cluster.net.greeting import Greeting, session_to
from cluster.net.handshake import NONCE_BYTES, DialerHandshake, Refused
from cluster.net.receiver import Receiver
from cluster.net.stream import Stream
from cluster.ports import Connection, Env, Hello, Welcome
from cluster.tls import Credentials

logger = logging.getLogger(__name__)


class SocketConnection(Receiver, Stream):
    """See ``ports.Connection``. ``budget``: what it shares with the node's other connections; a client's own has none."""

    def __init__(
        self,
        env: Env,
        hello: Hello,
        on_ended: Callable[[SocketConnection], None] | None = None,
        budget: Budget | None = None,
    ) -> None:
        Stream.__init__(self, env, OUTPUT_BUFFER_MAX_BYTES)
        Receiver.__init__(self, env, hello)
        self._clock = env.clock
        self._on_ended = on_ended
        self._budget = budget
        self._noted = False

    def write(self, data: bytes) -> None:
        if self.reason is not None:
            return
        transport = self.transport
        transport.write(data)
        if self._budget is not None and self.reason is None:
            size: int = transport.get_write_buffer_size()
            if size > SMALL_BYTES or self._noted:
                self._noted = size > SMALL_BYTES
                self._budget.note(self, size)

    def held(self) -> int:
        size: int = self.transport.get_write_buffer_size()
        return size

    def shed(self, reason: str) -> None:
        self.close(reason, abort=True)

    def unsent(self) -> int:
        return self.transport.get_write_buffer_size() if self.reason is None else 0

    def data_received(self, data: bytes) -> None:
        if self.reason is None:
            self.heard_at = self._clock()
            self._deliver(data)

    def ended(self, reason: str) -> None:
        if self._budget is not None:
            self._budget.forget(self)
        if self._on_ended is not None:
            self._on_ended(self)
        self.on_closed(reason)


async def open_client(
    env: Env, address: Address, hello: Hello, secret: bytes | None, timeout_s: float, tls: Credentials | None = None
) -> tuple[Connection, Welcome]:
    """Connect to a node and shake hands, within ``timeout_s`` seconds in all.

    ``tls`` protects the connection to a ``host:port``; what goes through a Unix socket does not leave the machine.
    Nothing is delivered before the caller has set ``on_data``; no request was sent.

    Raises:
        OSError: the address cannot be resolved or reached, or the connection broke, or the node is full.
        TimeoutError: not within ``timeout_s``.
        ProtocolError: the other side is no node of this protocol version.
        AuthenticationError: the secrets differ, one side has none or no TLS, a certificate is refused, or it is another cluster.
        UsageError: ``hello`` breaks the rules.
    """
    handshake = DialerHandshake(hello, secret, env.entropy(NONCE_BYTES))
    outcome: asyncio.Future[SocketConnection] = asyncio.get_running_loop().create_future()

    def done(greeting: Greeting, rest: bytes) -> None:
        connection = SocketConnection(env, hello)
        greeting.hand_over(connection)
        if rest:
            connection.data_received(rest)
        if outcome.done():
            connection.close("the caller gave up")
        else:
            outcome.set_result(connection)

    def failed(greeting: Greeting, refused: Refused | None) -> None:
        if not outcome.done():
            outcome.set_exception(_failure(address, greeting, refused))

    greeting = Greeting(env, handshake, done, failed, tls=session_to(address, tls))
    deadline = env.clock() + timeout_s
    late = f"no handshake with {address} within {timeout_s:g} s"

    def expire() -> None:
        if not outcome.done():
            outcome.set_exception(TimeoutError(late))

    try:
        await env.dial(address, lambda: greeting.protocol, timeout_s)
        timer = env.call_later(deadline - env.clock(), expire)
        try:
            connection = await outcome
        finally:
            timer.cancel()
    except BaseException as error:
        _give_up(greeting, outcome)
        if isinstance(error, asyncio.TimeoutError):
            raise TimeoutError(late) from None
        if isinstance(error, UnicodeError):
            raise OSError(f"{address}: the name cannot be resolved: {error}") from None
        raise
    assert handshake.welcome is not None
    return connection, handshake.welcome


def _failure(address: Address, greeting: Greeting, refused: Refused | None) -> CoordinationError | OSError:
    if refused is None:
        return ConnectionResetError(f"{address}, during the handshake: {greeting.reason}")
    if refused.code == "busy":
        return ConnectionRefusedError(f"{address}: {refused.text}")
    logger.warning("handshake.refused address=%s code=%s reason=%s", address, refused.code, refused.text)
    return refused.error()


def _give_up(greeting: Greeting, outcome: asyncio.Future[SocketConnection]) -> None:
    """Leave nothing open, whether or not the handshake had ended in the same moment."""
    greeting.close("the caller gave up", abort=True)
    if outcome.done() and not outcome.cancelled() and outcome.exception() is None:
        outcome.result().close("the caller gave up", abort=True)
    outcome.cancel()
