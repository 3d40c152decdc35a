"""The handshake, without I/O: payloads in, payloads out.

Knows: the messages, who proves what to whom, and why a side is refused. Must not know: sockets, frames, time, who is a member.

    dialer                                                                             acceptor
    ["tenure", 1, role, cluster_id, node_id, incarnation, nonce, info]  ->
                                   <-  [node_id, cluster_id, incarnation, nonce, proof, info]
    [mac]                                                               ->
                                     <-  [0, epoch, leader]
    (empty frame, from a peer whose id is the lower one)                ->

Either side may send ["error", code, text] instead of its next message, and closes then; after its last message it just closes.
Each role has its own secret, or all have the same. Where TLS is below, the transcript also holds what only the two ends of that very
TLS connection know, so that somebody in between who ends TLS on both sides has no use for what it carries.
``proof`` and ``mac`` are HMAC-SHA-256 of one transcript that holds every other field of the first two messages, under two labels. Both
nonces are in it, so nothing can be replayed; the labels differ, so nothing can be reflected; the acceptor proves itself first, so a dialer
answers nobody who does not know the secret.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from cluster.address import Address
from cluster.codec import pack, unpack
from cluster.errors import AuthenticationError, CoordinationError, ProtocolError, UsageError
from cluster.limits import HANDSHAKE_MAX_BYTES, NODE_ID_MAX_BYTES
from cluster.ports import Hello, Welcome
from cluster.secrets import ROLES, Secrets

MAGIC: Final = "tenure"
VERSION: Final = 1
NONCE_BYTES: Final = 32
ID_BYTES: Final = 16
ERROR_TEXT_MAX: Final = 300
# What comes after a hello or a challenge (proof, welcome or error frame, length prefixes) must fit into the limit, too.
_HELLO_MAX_BYTES: Final = HANDSHAKE_MAX_BYTES - 640

_ACCEPTOR_LABEL: Final = b"tenure handshake 1: acceptor\0"
_DIALER_LABEL: Final = b"tenure handshake 1: dialer\0"

# What each code of an error frame is for the side that reads it, and what it may do about it.
_CODES: Final[Mapping[str, tuple[type[CoordinationError], str]]] = {
    "protocol": (ProtocolError, "check that both sides are tenure nodes or clients of compatible versions"),
    "version": (ProtocolError, "run the same protocol version on both sides"),
    "role": (ProtocolError, "check that the address is the one meant for this use"),
    "role-closed": (AuthenticationError, "give the node a secret for this role, or use another role"),
    "dialer-lacks-secret": (AuthenticationError, "give the same secret to both sides"),
    "acceptor-lacks-secret": (AuthenticationError, "give the same secret to both sides"),
    "secret": (AuthenticationError, "give the same secret to both sides; a secret for one role does not serve another"),
    "tls": (AuthenticationError, "give both sides TLS, with certificates of the same authority (--tls-cert, --tls-key, --tls-ca)"),
    "certificate": (AuthenticationError, "issue each node a certificate that names the host of its address"),
    "cluster": (AuthenticationError, "check the addresses: the two belong to different clusters"),
    "duplicate": (AuthenticationError, "give each node its own address, and list each address once"),
    "identity": (AuthenticationError, "list each node under the address that it advertises"),
    "member": (AuthenticationError, "give all nodes the same peers, each under the address that it advertises"),
    "removed": (AuthenticationError, "this node was removed from its raft group: to add it again, give it an empty data directory"),
    "redundant": (ProtocolError, "nothing to do: the other connection of the two nodes is used"),
    "busy": (ProtocolError, "try again later, or raise the limit"),
}


class Refused(Exception):
    """This connection must end, and why. Raised by this file, returned by an ``accept`` callback.

    ``farewell`` is the error frame that tells the other side; None when it was the other side that refused.
    """

    def __init__(self, code: str, text: str, *, tell: bool = True) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.farewell = pack(["error", code, text[:ERROR_TEXT_MAX]]) if tell else None

    def error(self) -> CoordinationError:
        """The same as an error of the product."""
        kind, hint = _CODES.get(self.code, _CODES["protocol"])
        return kind(self.text, hint)


def prove(secret: bytes | None, label: bytes, shared: bytes) -> bytes:
    """What a side sends to show that it knows the secret; empty without one."""
    return b"" if secret is None else hmac.digest(secret, label + shared, "sha256")


class Channel(Protocol):
    """The TLS connection that carries a handshake."""

    def binding(self) -> bytes:
        """What only its two ends know."""

    def names(self, host: str) -> bool:
        """Whether the other side's certificate is made out to ``host``."""


def transcript(hello: list[Any], challenge: list[Any], channel: Channel | None = None) -> bytes:
    """Every field of the first two messages but the proof, in their canonical encoding, and the TLS connection that carries them."""
    fields = [hello, challenge[:4] + challenge[5:]]
    return pack(fields if channel is None else [*fields, channel.binding()])


def _read(payload: bytes, what: str) -> list[Any]:
    """The fields of one message. Raises Refused, also for an error frame of the other side."""
    try:
        message = unpack(payload)
    except ValueError as error:
        raise Refused("protocol", f"the {what} cannot be read: {error}") from None
    if type(message) is not list or not message:
        raise Refused("protocol", f"the {what} is not a message of this protocol")
    if message[0] == "error" and len(message) == 3 and type(message[1]) is str and type(message[2]) is str:
        raise Refused(message[1], _printable(message[2]), tell=False)
    return message


def _printable(text: str) -> str:
    """Text of a stranger, safe to put into a log line."""
    return "".join(char if char.isprintable() else "?" for char in text[:ERROR_TEXT_MAX])


def _is_node_id(value: object, *, least: int) -> bool:
    return isinstance(value, str) and value.isprintable() and least <= len(value.encode()) <= NODE_ID_MAX_BYTES


def _is_id(value: object) -> bool:
    return type(value) is bytes and len(value) == ID_BYTES


def _fault(node_id: object, cluster_id: object, incarnation: object, nonce: object, info: object, role: str) -> str | None:
    """The field that is not what it must be, or None."""
    if not _is_node_id(node_id, least=1 if role == "peer" else 0):
        return f"node id (printable text of at most {NODE_ID_MAX_BYTES} bytes)"
    if cluster_id != b"" and not _is_id(cluster_id):
        return f"cluster id ({ID_BYTES} bytes, or none)"
    if not _is_id(incarnation):
        return f"incarnation ({ID_BYTES} bytes)"
    if type(nonce) is not bytes or len(nonce) != NONCE_BYTES:
        return f"nonce ({NONCE_BYTES} bytes)"
    if type(info) is not dict or not all(type(key) is str for key in info):
        return "info (a map with text keys)"
    return None


def hello_fields(hello: Hello, nonce: bytes) -> list[Any]:
    """The first message.

    Raises:
        UsageError: when this side's own hello breaks the rules or does not fit. Nothing was sent.
    """
    fields = [
        MAGIC, VERSION, hello.role, hello.cluster_id, hello.node_id, hello.incarnation, nonce, dict(hello.info),
    ]  # fmt: skip
    _check_own(hello, fields, nonce)
    return fields


def challenge_fields(own: Hello, nonce: bytes) -> list[Any]:
    """The second message, its proof still empty. Raises UsageError like ``hello_fields``."""
    fields = [own.node_id, own.cluster_id, own.incarnation, nonce, b"", dict(own.info)]
    _check_own(own, fields, nonce)
    return fields


def _check_secret(secret: bytes | None) -> None:
    if secret is not None and not secret:
        raise UsageError("the secret is empty", "give a long random one, or none")


def _check_own(own: Hello, fields: list[Any], nonce: bytes) -> None:
    fault = _fault(own.node_id, own.cluster_id, own.incarnation, nonce, dict(own.info), own.role)
    if own.role not in ROLES:
        fault = f"role (one of {', '.join(ROLES)})"
    if fault is not None:
        raise UsageError(f"this side's own hello has no valid {fault}", "correct it before connecting")
    if len(pack(fields)) > _HELLO_MAX_BYTES:
        raise UsageError(
            f"this node's hello has more than {_HELLO_MAX_BYTES} bytes", "use shorter addresses or fewer peers"
        )


def _differ(dialer: Hello, acceptor_id: str) -> str:
    return f"{dialer.node_id} and node {acceptor_id} have different secrets for the role {dialer.role}"


def _check_cluster(own: bytes, other: bytes) -> None:
    if own and other and own != other:
        raise Refused("cluster", "the two sides belong to different clusters")


class DialerHandshake:
    """The side that opened the connection.

    Attributes:
        done: the handshake is over and this side may send.
        spoke_last: this side has sent its last message: what it sends now is no part of the handshake for the other side.
        other: what the acceptor says of itself; proven, if there is a secret, once it is set.
        welcome: set when ``done``.
        channel: the TLS connection below, to be set before anything is received; None: there is none.
    """

    channel: Channel | None = None

    def __init__(self, hello: Hello, secret: bytes | None, nonce: bytes, *, expect: str | None = None) -> None:
        """``expect`` is the node id that the acceptor must have; None: any."""
        _check_secret(secret)
        self._hello = hello
        self._fields = hello_fields(hello, nonce)
        self._secret = secret
        self._expect = expect
        self.other: Hello | None = None
        self.welcome: Welcome | None = None

    @property
    def own_id(self) -> str:
        return self._hello.node_id

    @property
    def done(self) -> bool:
        return self.welcome is not None

    @property
    def spoke_last(self) -> bool:
        return self.other is not None

    def start(self) -> bytes:
        """The first payload to send."""
        return pack(self._fields)

    def receive(self, payload: bytes) -> bytes | None:
        """Take one payload of the acceptor; returns the payload to send, if any. Raises Refused."""
        if self.other is None:
            return self._challenged(_read(payload, "challenge"))
        if self.welcome is None:
            self._welcomed(self.other, _read(payload, "welcome"))
            return None
        raise Refused("protocol", "the handshake is over")

    def _challenged(self, message: list[Any]) -> bytes:
        if len(message) != 6:
            raise Refused("protocol", "the challenge is not a message of this protocol")
        node_id, cluster_id, incarnation, nonce, proof, info = message
        fault = _fault(node_id, cluster_id, incarnation, nonce, info, "peer")
        if fault is None and type(proof) is not bytes:
            fault = "proof"
        if fault is not None:
            raise Refused("protocol", f"the challenge has no valid {fault}")
        self._check_proof(node_id, proof, shared := transcript(self._fields, message, self.channel))
        _check_cluster(self._hello.cluster_id, cluster_id)
        if self._expect is not None and node_id != self._expect:
            raise Refused("identity", f"the node at {self._expect} says that it is {node_id}")
        self.other = Hello("peer", node_id, incarnation, cluster_id, info)
        return pack([prove(self._secret, _DIALER_LABEL, shared)])

    def _check_proof(self, node_id: str, proof: bytes, shared: bytes) -> None:
        if self._secret is None and proof:
            raise Refused("dialer-lacks-secret", f"node {node_id} requires a secret, and {self._hello.node_id} has none")
        if self._secret is not None and not proof:
            raise Refused("acceptor-lacks-secret", f"{self._hello.node_id} requires a secret, and node {node_id} has none")
        if not hmac.compare_digest(proof, prove(self._secret, _ACCEPTOR_LABEL, shared)):
            raise Refused("secret", _differ(self._hello, node_id))

    def _welcomed(self, other: Hello, message: list[Any]) -> None:
        if (
            len(message) != 3
            or message[0] != 0
            or type(message[0]) is not int
            or type(message[1]) is not int
            or message[1] < 0
            or not _is_node_id(message[2], least=0)
        ):
            raise Refused("protocol", "the welcome is not a message of this protocol")
        self.welcome = Welcome(other.node_id, other.cluster_id, message[1], message[2])


class AcceptorHandshake:
    """The side that was called.

    Attributes:
        done: the handshake is over and this side may send.
        spoke_last: as for the dialer.
        other: what the dialer says of itself; claimed until ``done``, and until then without ``info``.
        channel: as for the dialer.
    """

    channel: Channel | None = None

    def __init__(
        self,
        own: Hello,
        secrets: Secrets,
        nonce: bytes,
        accept: Callable[[Hello], Refused | None],
        welcome: Callable[[Hello], Welcome],
    ) -> None:
        """``accept`` is asked once the dialer has proven itself; ``welcome`` is asked after it."""
        self._own = own
        self._fields = challenge_fields(own, nonce)
        self._secrets = secrets
        self._secret: bytes | None = None
        self._accept = accept
        self._welcome = welcome
        self._shared = b""
        self._info = b""
        self._awaits_commit = False
        self.other: Hello | None = None
        self.spoke_last = False
        self.done = False

    @property
    def own_id(self) -> str:
        return self._own.node_id

    def receive(self, payload: bytes) -> bytes | None:
        """Take one payload of the dialer; returns the payload to send, if any. Raises Refused."""
        if self._awaits_commit:
            self._committed(payload)
            return None
        if self.other is None:
            return self._greeted(_read(payload, "hello"))
        return self._proven(self.other, _read(payload, "proof"))

    def _greeted(self, message: list[Any]) -> bytes:
        if message[0] != MAGIC or len(message) < 2:
            raise Refused("protocol", "the hello is not one of tenure")
        if message[1] != VERSION:
            raise Refused("version", f"protocol version {str(message[1])[:20]!r} was offered, this node speaks {VERSION}")
        if len(message) != 8:
            raise Refused("protocol", "the hello is not a message of this protocol")
        _, _, role, cluster_id, node_id, incarnation, nonce, info = message
        if role not in ROLES:
            raise Refused("role", f"the role {str(role)[:20]!r} is none of {', '.join(ROLES)}")
        fault = _fault(node_id, cluster_id, incarnation, nonce, info, role)
        if fault is not None:
            raise Refused("protocol", f"the hello has no valid {fault}")
        if role == "peer" and node_id == self._own.node_id:
            raise Refused("duplicate", f"node id {node_id} is this node's own")
        if not self._secrets.named(role):
            raise Refused("role-closed", f"node {self._own.node_id} has no secret for the role {role}, and lets nobody in under it")
        self._secret = self._secrets.of_role(role)
        self.other = Hello(role, node_id, incarnation, cluster_id)
        # As bytes while it is a stranger's: made of many small objects it takes sixty times as much. A client's is not kept at all.
        self._info = pack(info if role == "peer" else {})
        self._shared = transcript(message, self._fields, self.channel)
        self._fields[4] = prove(self._secret, _ACCEPTOR_LABEL, self._shared)
        return pack(self._fields)

    def _proven(self, other: Hello, message: list[Any]) -> bytes:
        if len(message) != 1 or type(message[0]) is not bytes:
            raise Refused("protocol", "the proof is not a message of this protocol")
        mac = message[0]
        if self._secret is None and mac:
            raise Refused("acceptor-lacks-secret", f"{other.node_id} has a secret, and node {self._own.node_id} has none")
        if self._secret is not None and not mac:
            raise Refused("dialer-lacks-secret", f"node {self._own.node_id} has a secret, and {other.node_id} has none")
        if not hmac.compare_digest(mac, prove(self._secret, _DIALER_LABEL, self._shared)):
            raise Refused("secret", _differ(other, self._own.node_id))
        self.other = other = replace(other, info=unpack(self._info))
        self._check_certificate(other)
        _check_cluster(self._own.cluster_id, other.cluster_id)
        refused = self._accept(other)
        if refused is not None:
            raise refused
        welcome = self._welcome(other)
        self._awaits_commit = other.role == "peer" and other.node_id < self._own.node_id
        self.spoke_last = True
        self.done = not self._awaits_commit
        return pack([0, welcome.epoch, welcome.leader])

    def _check_certificate(self, other: Hello) -> None:
        """Not everybody with a certificate is a node: a peer's must name the host under which it is called."""
        if other.role != "peer" or self.channel is None:
            return
        try:
            host = Address.parse(other.node_id).host
        except UsageError as error:
            raise Refused("identity", f"the node id is no address: {error.detail}") from None
        if not self.channel.names(host):
            raise Refused("certificate", f"the certificate of {other.node_id} does not name the host {host!r}")

    def _committed(self, payload: bytes) -> None:
        # Of two peers the one with the lower id decides which of two connections is used; until it has said so, this one is not.
        if payload:
            _read(payload, "commit")
            raise Refused("protocol", "a commit was expected")
        self.done = True
