"""TLS without I/O: bytes of a socket in, bytes for a socket and plain bytes out.

Knows: the ssl module, certificates, why a handshake failed. Must not know: sockets, frames, the handshake that follows inside.

Both sides show a certificate of the same authority. Who dials a ``host:port`` checks that the other certificate names that host; who is
called checks the name of peers only (``names``), since clients have none that matters. TLS 1.2 is the least; sessions are not resumed, so
that every connection is judged by its certificates.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from typing import Any, Final

from cluster.errors import UsageError

_CHUNK: Final = 1 << 16
_HANDSHAKE_RECORD: Final = 22
_ALERT_RECORD: Final = 21
BINDING: Final = "tls-unique"


class TlsFailure(Exception):
    """The TLS connection cannot be used; the text says why, in words for an operator.

    ``plain``: the other side speaks without TLS.
    """

    def __init__(self, text: str, *, plain: bool = False) -> None:
        super().__init__(text)
        self.plain = plain


@dataclass(frozen=True, slots=True)
class Tls:
    """Files for TLS, each of them in PEM form. They are read once, when the node or client starts.

    Attributes:
        cert: this side's certificate, and what is between it and the authority.
        key: its private key, not encrypted.
        ca: the certificate of the authority (or several) that signs the nodes' and clients' certificates. No others are believed.
    """

    cert: str
    key: str
    ca: str


def _context(files: Tls, protocol: ssl._SSLMethod) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    # Without tickets nobody resumes a session that was judged by certificates of yesterday.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    for what, path in (("cert", files.cert), ("key", files.key), ("ca", files.ca)):
        _readable(what, path)
    try:
        context.load_cert_chain(files.cert, files.key, password=_no_password)
    except _Encrypted:
        raise UsageError(
            f"tls key {files.key!r} is encrypted", "a node cannot type a password: store the key without, and mode 0600"
        ) from None
    except (ssl.SSLError, ValueError) as error:
        why = getattr(error, "reason", None) or "not PEM"
        raise UsageError(
            f"tls cert {files.cert!r} and key {files.key!r} cannot be used: {_words(str(why))}",
            "give a PEM certificate and its own PEM key",
        ) from None
    try:
        context.load_verify_locations(files.ca)
    except (ssl.SSLError, ValueError):
        raise UsageError(
            f"tls ca {files.ca!r} holds no certificate",
            "give the PEM certificate of the authority that signed the others",
        ) from None
    return context


class _Encrypted(Exception):
    """The key asks for a password."""


def _no_password() -> str:
    raise _Encrypted


def _readable(what: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except (OSError, ValueError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        raise UsageError(
            f"tls {what} {path!r}: {reason}", f"name a PEM file that this user may read (--tls-{what})"
        ) from None


class Credentials:
    """What one node or client shows, and whom it believes. Shared by all its connections."""

    def __init__(self, files: Tls) -> None:
        """Reads the files.

        Raises:
            UsageError: naming the file, what is wrong with it and what to do. The message shows nothing of a key.
        """
        if not isinstance(files, Tls):
            raise UsageError(
                f"tls must be a tenure.Tls, not {type(files).__name__}",
                'for example tenure.Tls(cert="a.pem", key="a.key", ca="ca.pem")',
            )
        self._dialing = _context(files, ssl.PROTOCOL_TLS_CLIENT)
        self._dialing.hostname_checks_common_name = False
        self._accepting = _context(files, ssl.PROTOCOL_TLS_SERVER)
        self._accepting.num_tickets = 0

    def dialing(self, host: str) -> TlsSession:
        """A session whose other side must have a certificate that names ``host``."""
        return TlsSession(self._dialing, host)

    def accepting(self) -> TlsSession:
        return TlsSession(self._accepting, None)


class TlsSession:
    """One connection.

    Attributes:
        done: both sides have shown their certificates, as far as this side knows. (With TLS 1.3 a caller learns only afterwards that its
            certificate was refused: ``receive`` raises then.)
    """

    def __init__(self, context: ssl.SSLContext, host: str | None) -> None:
        self._context = context
        self._host = host
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # Made with the first byte: a caller that says nothing costs nothing.
        self._object: ssl.SSLObject | None = None
        self._heard = False
        self.done = False

    @property
    def dials(self) -> bool:
        return self._host is not None

    def _open(self) -> ssl.SSLObject:
        if self._object is None:
            try:
                self._object = self._context.wrap_bio(
                    self._incoming, self._outgoing, server_side=not self.dials, server_hostname=self._host
                )
            except ValueError as error:
                # Also for names that cannot be encoded.
                raise TlsFailure(f"{self._host!r} is no name that a certificate can have: {error}") from None
        return self._object

    def begin(self) -> None:
        """Have the first bytes made, where this side is the one to speak first."""
        if self.dials:
            self._shake(self._open())

    def outgoing(self) -> bytes:
        """What is to be sent now."""
        return self._outgoing.read()

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the socket; returns the plain bytes in them. ``outgoing`` may have something after it, also when it raises.

        Raises:
            TlsFailure: the connection cannot be used.
        """
        if not self._heard and data[0] not in (_HANDSHAKE_RECORD, _ALERT_RECORD):
            raise TlsFailure("the other side speaks without TLS", plain=True)
        self._heard = True
        self._incoming.write(data)
        tls = self._open()
        if not self.done and not self._shake(tls):
            return b""
        plain: list[bytes] = []
        try:
            while piece := tls.read(_CHUNK):
                plain.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            # The other side has said that nothing more comes; the end of its socket follows.
            pass
        except ssl.SSLError as error:
            raise TlsFailure(_why(error)) from None
        return b"".join(plain)

    def _shake(self, tls: ssl.SSLObject) -> bool:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsFailure(_why(error)) from None
        self.done = True
        return True

    def send(self, data: bytes) -> None:
        """Encrypt; ``outgoing`` has it afterwards. Only when ``done``."""
        self._open().write(data)

    def end(self) -> None:
        """Say that nothing more comes, in a way that nobody in between can forge."""
        if self.done:
            try:
                self._open().unwrap()
            except ssl.SSLError:
                # The other side's own farewell has not come, and is not waited for.
                return

    def binding(self) -> bytes:
        """What only the two ends of this very connection know of: the first Finished message of its TLS handshake, a keyed digest of all
        that both have sent and seen there. Somebody in between has two connections, with two of them."""
        return self._open().get_channel_binding(BINDING) or b""

    def names(self, host: str) -> bool:
        """Whether the other side's certificate is made out to ``host``, a name or an address."""
        certificate: Any = self._open().getpeercert() or {}
        return any(_matches(kind, value, host) for kind, value in certificate.get("subjectAltName", ()))


def _matches(kind: str, value: str, host: str) -> bool:
    if kind == "IP Address":
        try:
            return ipaddress.ip_address(value.strip()) == ipaddress.ip_address(host)
        except ValueError:
            return False
    if kind != "DNS":
        return False
    pattern, name = value.lower().rstrip("."), host.lower().rstrip(".")
    if pattern.startswith("*."):
        return "." in name and name.partition(".")[2] == pattern[2:]
    return pattern == name


def _words(reason: str) -> str:
    return reason.replace("_", " ").lower()


def _why(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the other side's certificate is refused: {error.verify_message.rstrip('.')}"
    reason = _words(error.reason or "the other side closed during the TLS handshake")
    if "alert" in reason:
        said = reason.partition("alert ")[2] or reason
        return f"the other side refused this side's TLS or certificate: {said}"
    if reason == "peer did not return a certificate":
        return "the other side has no certificate"
    return reason
