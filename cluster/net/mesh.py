"""The connections between the nodes of a raft group: exactly one live one per peer.

Knows: which of several connections of a peer is the one, who calls whom, who is alive. Must not know: what frames mean; how bytes
become frames; who listens.

Of two peers the one with the lower id *decides*: a connection counts once it has said so (its welcome as acceptor, an empty frame as
dialer), and it says so of one at a time. The other one uses what it hears of last, and both close what is older than the one in use. So
both end with the same connection, whoever dialed, and no frame of an older one is delivered after one of a newer one. What is younger
and undecided is left alone: its decision may be under way already.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from cluster.address import Address
from cluster.codec import frame
from cluster.limits import PEER_FRAME_MAX_BYTES
from cluster.net.dialer import RETRY_MIN_S, Dialer
from cluster.net.greeting import Greeting, session_to
from cluster.net.handshake import NONCE_BYTES, DialerHandshake, Refused
from cluster.net.peer import PING, FrameSink, PeerStream, boot_of
from cluster.net.stream import Roster
from cluster.ports import Env, Handle, Hello
from cluster.secrets import Secrets
from cluster.tls import Credentials

PING_INTERVAL_S: Final = 1.0
PEER_UNHEARD_S: Final = 3.5
# A connection this young is kept when the peer's own call arrives: the two had called at once.
YOUNG_S: Final = 1.0
# The peer with the higher id gives the other one so much time to call first.
COURTESY_S: Final = 0.3

logger = logging.getLogger(__name__)


def refuse_second(own_id: str, other: Hello, live: PeerStream | None, now: float) -> Refused | None:
    """Whether another connection of a peer is refused while ``live`` is there.

    A different process under the same id is refused as long as the first one is heard: two of them would throw each other out for
    ever. The same process is believed that it has lost its connection, unless both sides have just called at once.
    """
    if live is None or live.reason is not None:
        return None
    if boot_of(live.hello) != boot_of(other):
        if now - live.heard_at < PEER_UNHEARD_S:
            return Refused("duplicate", f"another process is connected to {own_id} as node {other.node_id}")
    elif own_id < other.node_id and now - live.since < YOUNG_S:
        return Refused("redundant", "both sides called at once; the other connection is used")
    return None


class _Link:
    """What is known of one peer: its live connection, the call to it, and who claims to be it."""

    def __init__(self, dialer: Dialer) -> None:
        self.dialer = dialer
        self.stream: PeerStream | None = None
        self.claims: dict[Greeting, None] = {}


class Mesh(FrameSink):
    """See ``ports.PeerNet``: the part of it that does not listen."""

    on_connected: Callable[[str, Hello], None]
    on_disconnected: Callable[[str], None]
    on_removed: Callable[[str, str], None]

    def __init__(
        self,
        env: Env,
        node_id: str,
        peers: Iterable[str | Address],
        secrets: Secrets,
        hello: Callable[[], Hello],
        tls: Credentials | None,
    ) -> None:
        self.on_frame = lambda peer, payload: None
        self.on_connected = lambda peer, hello: None
        self.on_disconnected = lambda peer: None
        self.on_removed = lambda peer, text: None
        self.node_id = node_id
        self._env = env
        self._secrets = secrets
        self._tls = tls
        self._hello = hello
        self._boot = env.entropy(8)
        self._links: dict[str, _Link] = {}
        self._live: dict[str, PeerStream] = {}
        self._roster = Roster()
        self._running = False
        self._pinger: Handle | None = None
        self._next_ping = 0.0
        for peer in peers:
            self.add_peer(str(peer))

    # -- ports.PeerNet

    def send(self, peer: str, payload: bytes) -> bool:
        """See ``ports.PeerNet``. Raises ValueError for a payload that is empty or over ``PEER_FRAME_MAX_BYTES``."""
        if not 0 < len(payload) <= PEER_FRAME_MAX_BYTES:
            raise ValueError(f"a payload of {len(payload)} bytes; it must have 1 to {PEER_FRAME_MAX_BYTES}")
        stream = self._live.get(peer)
        return stream is not None and stream.write(frame(payload))

    def send_encoded(self, peer: str, frame: bytes) -> bool:
        stream = self._live.get(peer)
        return stream is not None and stream.write(frame)

    def connected(self) -> frozenset[str]:
        return frozenset(peer for peer, stream in self._live.items() if stream.reason is None)

    def add_peer(self, peer: str) -> None:
        """Begin to call a peer, and take its calls. This node's own id, or a peer that is known, changes nothing.

        Raises:
            UsageError: when it is not an address.
        """
        peer = str(Address.parse(peer, what="peer"))
        if peer == self.node_id or peer in self._links:
            return
        self._links[peer] = _Link(Dialer(self._env, peer, self._greet))
        if self._running:
            self._call_first(peer)

    def drop_peer(self, peer: str) -> None:
        """Close what there is of a peer, and take no more calls of it."""
        link = self._links.pop(peer, None)
        if link is not None:
            link.dialer.rest(reached=False)
            for claim in list(link.claims):
                claim.refuse(Refused("member", f"node {peer} was removed from the peers of {self.node_id}"))
            if link.stream is not None:
                self._part(link, link.stream, "removed from the peers")

    def close(self) -> None:
        self._running = False
        if self._pinger is not None:
            self._pinger.cancel()
        for link in self._links.values():
            link.dialer.rest(reached=False)
            if link.stream is not None:
                link.stream.close("this node stops")

    # -- calls

    def begin(self) -> None:
        """Call the peers."""
        self._running = True
        self._next_ping = self._env.clock() + PING_INTERVAL_S
        self._pinger = self._env.call_later(PING_INTERVAL_S, self._ping)
        for peer in self._links:
            self._call_first(peer)

    def _call_first(self, peer: str) -> None:
        self._links[peer].dialer.arm(0.0 if self.node_id < peer else COURTESY_S)

    def own_hello(self) -> Hello:
        """This node's hello of now, with what tells this process from an earlier one."""
        hello = self._hello()
        return replace(hello, info={**hello.info, "boot": self._boot})

    def _greet(self, dialer: Dialer) -> Greeting:
        secret, nonce = self._secrets.of_role("peer"), self._env.entropy(NONCE_BYTES)
        handshake = DialerHandshake(self.own_hello(), secret, nonce, expect=dialer.peer)
        session = session_to(dialer.address, self._tls)

        def failed(greeting: Greeting, refused: Refused | None) -> None:
            dialer.failed(greeting, refused)
            # Only of who has proven itself: a node that believes this stops for good.
            if refused is not None and refused.code == "removed" and handshake.other is not None:
                self.on_removed(dialer.peer, refused.text)

        return Greeting(self._env, handshake, self.adopt, failed, roster=self._roster, tls=session)

    # -- which connection is the one

    def claimed(self, greeting: Greeting) -> None:
        """A caller says that it is a peer; nothing is proven yet."""
        link = self._links.get(greeting.other.node_id) if greeting.other is not None else None
        if link is not None:
            link.claims[greeting] = None

    def unclaimed(self, greeting: Greeting) -> None:
        link = self._links.get(greeting.other.node_id) if greeting.other is not None else None
        if link is not None:
            link.claims.pop(greeting, None)

    def judge(self, other: Hello) -> Refused | None:
        """Whether a peer that has proven itself may be connected."""
        link = self._links.get(other.node_id)
        if link is None:
            return Refused("member", f"node {other.node_id} is not among the peers of {self.node_id}")
        return refuse_second(self.node_id, other, link.stream, self._env.clock())

    def adopt(self, greeting: Greeting, rest: bytes) -> None:
        """A handshake with a peer is over, and it was decided: this is the connection from now on."""
        other = greeting.other
        assert other is not None
        peer = other.node_id
        link = self._links.get(peer)
        if link is None or not self._running:
            greeting.close(f"{peer} is not a peer any more")
            return
        dialed = isinstance(greeting.handshake, DialerHandshake)
        stream = PeerStream(self._env, other, self, self._ended)
        greeting.hand_over(stream)
        link.dialer.rest(reached=True)
        link.claims.pop(greeting, None)
        for claim in [claim for claim in link.claims if claim.number < greeting.number]:
            claim.refuse(Refused("redundant", "another connection of this peer is used"))
        if link.stream is not None:
            self._part(link, link.stream, "replaced by a newer connection")
        link.stream = self._live[peer] = stream
        if dialed:
            # This tells a peer with a higher id that this connection was decided on; to others it is a sign of life.
            stream.write(PING)
        logger.info(
            "peer.connected peer=%s by=%s incarnation=%s", peer, "us" if dialed else "them", other.incarnation.hex()
        )
        self.on_connected(peer, other)
        if rest:
            stream.data_received(rest)

    def _part(self, link: _Link, stream: PeerStream, reason: str) -> None:
        link.stream = None
        del self._live[stream.peer]
        stream.close(reason)
        logger.info("peer.disconnected peer=%s reason=%s", stream.peer, stream.reason)
        self.on_disconnected(stream.peer)

    def _ended(self, stream: PeerStream, reason: str) -> None:
        link = self._links.get(stream.peer)
        if link is not None and link.stream is stream:
            self._part(link, stream, reason)
            if self._running and link.stream is None:
                link.dialer.arm(RETRY_MIN_S if self.node_id < stream.peer else COURTESY_S)

    # -- who is alive

    def _ping(self) -> None:
        now = self._env.clock()
        # A process that was stopped has not read its sockets yet: what is unheard then is its own fault, not theirs.
        on_time = now - self._next_ping < PING_INTERVAL_S / 2
        self._next_ping = now + PING_INTERVAL_S
        self._pinger = self._env.call_later(PING_INTERVAL_S, self._ping)
        for stream in list(self._live.values()):
            if on_time and now - stream.heard_at > PEER_UNHEARD_S:
                stream.close(f"unheard for {PEER_UNHEARD_S:g} s", abort=True)
            else:
                stream.write(PING)
