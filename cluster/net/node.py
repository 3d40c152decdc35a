"""The network of one node: its doors, its peers, its clients.

Knows: who is let in, and to whom a connection goes. Must not know: what frames mean; which of a peer's connections is the one.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable

from cluster.address import Address
from cluster.budget import Budget
from cluster.errors import UsageError
from cluster.limits import CLIENTS_OUTPUT_MAX_BYTES, CONNECTIONS_MAX
from cluster.net.addresses import choose_advertise, listen_addresses
from cluster.net.complaints import Complaints
from cluster.net.connection import SocketConnection
from cluster.net.greeting import Greeting
from cluster.net.handshake import NONCE_BYTES, AcceptorHandshake, Refused
from cluster.net.listener import open_listener
from cluster.net.lobby import Lobby
from cluster.net.mesh import Mesh
from cluster.ports import Connection, Env, Hello, Listener, Welcome
from cluster.secrets import SECRET_MIN_BYTES, Secrets
from cluster.tls import Credentials

logger = logging.getLogger(__name__)


class NodeNet(Mesh):
    """One node's listeners, its mesh of peers (``ports.PeerNet``) and its clients' connections.

    The owner sets ``on_frame``, ``on_connected``, ``on_disconnected`` and ``on_client`` before ``start``.
    """

    on_client: Callable[[Connection], None]

    def __init__(
        self,
        env: Env,
        listen: Address | Iterable[Address],
        advertise: Address | None,
        peers: Iterable[str | Address],
        secrets: Secrets,
        hello: Callable[[], Hello],
        welcome: Callable[[Hello], Welcome],
        *,
        accept: Callable[[Hello], tuple[str, str] | None] | None = None,
        tls: Credentials | None = None,
    ) -> None:
        """
        Args:
            listen: one address, or several; peers and clients may use each.
            advertise: under which address the others reach this node, and its node id; None: the first of ``listen``.
            peers: ids of the other members, which are their advertised addresses; this node's own is passed over.
            secrets: what proves each role; without any, everybody is let in.
            hello: what this node says of itself, asked for each handshake; its node id must be ``str(advertise)``.
            welcome: what a client that was let in is told.
            accept: a policy of the owner, asked once a caller has proven itself: code and text of a refusal, or None. It may add a peer.
            tls: what protects every connection but those of Unix sockets; None: nothing.

        Raises:
            UsageError: when nobody can dial the advertised address, a peer is not an address, or peers have no secret while others have.
        """
        self._listen = listen_addresses(listen)
        super().__init__(env, str(choose_advertise(self._listen, advertise)), peers, secrets, hello, tls)
        secrets.of_role("peer")
        self.on_client = lambda connection: connection.close("this node serves no clients")
        self._welcome = welcome
        self._policy = accept
        self._lobby = Lobby(env)
        self._output = Budget(CLIENTS_OUTPUT_MAX_BYTES, "unread answers")
        self._complaints = Complaints(env.clock)
        self._listeners: list[Listener] = []
        self._clients: dict[SocketConnection, None] = {}

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it really listens."""
        return tuple(listener.address for listener in self._listeners)

    async def start(self) -> None:
        """Listen, then call the peers.

        Raises:
            UsageError: when an address cannot be listened on (and why), or the node's own hello is wrong. Nothing is left open.
        """
        own = self.own_hello()
        if own.node_id != self.node_id:
            raise UsageError(f"node id {own.node_id} is not the advertised address {self.node_id}", "make them the same")
        self._handshake()
        if self._secrets and self._secrets.shortest() < SECRET_MIN_BYTES:
            logger.warning("secret.short node=%s hint=whoever connects may guess it, use more bytes", self.node_id)
        if self._secrets and self._tls is None and not all(address.is_loopback for address in self._listen):
            logger.warning("wire.open node=%s hint=the secret protects the handshake, not the wire; TLS does both", self.node_id)
        try:
            for address in self._listen:
                arrival = functools.partial(self._arrival, address)
                self._listeners.append(await open_listener(self._env, address, arrival, self._lobby.make_room))
        except BaseException:
            self.close()
            raise
        self.begin()

    def close(self) -> None:
        """Close everything; each connection is told of its end once."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        self._lobby.close("this node stops")
        for client in list(self._clients):
            client.close("this node stops")
        super().close()

    async def wait_closed(self) -> None:
        """Wait, after ``close``, until every socket is gone, its last bytes sent: about ``LINGER_S``, at most ``EMPTIED_WITHIN_S``."""
        await self._roster.emptied()

    # -- who comes in

    def _handshake(self) -> AcceptorHandshake:
        return AcceptorHandshake(
            self.own_hello(), self._secrets, self._env.entropy(NONCE_BYTES), self._judge, self._welcome
        )

    def _arrival(self, at: Address) -> asyncio.Protocol:
        session = None if self._tls is None or at.is_unix else self._tls.accepting()
        greeting = Greeting(
            self._env, self._handshake(), self._arrived, self._turned_away, self.claimed, self._roster, session
        )
        self._lobby.enter(greeting)
        return greeting.protocol

    def _judge(self, other: Hello) -> Refused | None:
        objection = self._policy(other) if self._policy is not None else None
        if objection is not None:
            return Refused(*objection)
        if other.role == "peer":
            return self.judge(other)
        if len(self._clients) >= CONNECTIONS_MAX:
            return Refused("busy", f"node {self.node_id} has {CONNECTIONS_MAX} connections, its limit")
        return None

    def _arrived(self, greeting: Greeting, rest: bytes) -> None:
        self._lobby.leave(greeting)
        other = greeting.other
        assert other is not None
        if other.role == "peer":
            self.adopt(greeting, rest)
            return
        connection = SocketConnection(self._env, other, self._client_ended, self._output)
        greeting.hand_over(connection)
        self._clients[connection] = None
        logger.debug("client.connected id=%d role=%s node_id=%s", connection.id, other.role, other.node_id)
        self.on_client(connection)
        if rest:
            connection.data_received(rest)

    def _client_ended(self, connection: SocketConnection) -> None:
        self._clients.pop(connection, None)
        logger.debug("client.disconnected id=%d reason=%s", connection.id, connection.reason)

    def _turned_away(self, greeting: Greeting, refused: Refused | None) -> None:
        self._lobby.leave(greeting)
        self.unclaimed(greeting)
        who = greeting.other
        name = "-" if who is None else f"{who.role}:{who.node_id}"
        if refused is None:
            logger.debug("handshake.ended who=%s reason=%s", name, greeting.reason)
        elif refused.code == "redundant":
            logger.debug("handshake.redundant who=%s", name)
        else:
            level = logging.WARNING if self._complaints.is_news((refused.code, name)) else logging.DEBUG
            logger.log(level, "handshake.refused who=%s code=%s reason=%s", name, refused.code, refused.text)
