"""Addresses: ``host:port``, ``[v6]:port`` and ``unix:/path``.

Knows: the text forms. Must not know: sockets, name resolution.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster.errors import UsageError

_FORMS = "write it as host:port, [v6-address]:port or unix:/path"
UNIX_PATH_MAX_BYTES = 107


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node listens. ``host`` and ``port`` for TCP, ``path`` for a Unix socket.

    Equal addresses have equal text, so that ``str(address)`` may serve as a node's id.
    """

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str, *, what: str = "address") -> Address:
        """Read one address.

        Raises:
            UsageError: with the text, what is wrong with it and the accepted forms. Nothing was opened.
        """
        if not isinstance(text, str):
            raise UsageError(f"{what} must be a str, not {type(text).__name__}", _FORMS)
        text = text.strip()
        if "\0" in text or not _is_text(text):
            raise UsageError(f"{what} {text!r} has a character that no address has", _FORMS)
        if text.startswith("unix:"):
            path = text[5:]
            if not path:
                raise UsageError(f"{what} {text!r} names no path", _FORMS)
            if len(path.encode()) > UNIX_PATH_MAX_BYTES:
                raise UsageError(f"{what} {text!r}: the path is longer than {UNIX_PATH_MAX_BYTES} bytes", "choose a shorter path")
            return cls(path=path)
        if any(char in ";," or char.isspace() for char in text):
            raise UsageError(f"{what} {text!r} looks like several", "separate addresses by commas, where several are taken; " + _FORMS)
        if text.startswith("["):
            host, bracket, rest = text[1:].partition("]")
            if not bracket or not rest.startswith(":"):
                raise UsageError(f"{what} {text!r} has no port after the bracket", _FORMS)
            port_text = rest[1:]
        else:
            host, colon, port_text = text.rpartition(":")
            if not colon:
                raise UsageError(f"{what} {text!r} has no port", _FORMS)
            if ":" in host:
                raise UsageError(f"{what} {text!r}: an IPv6 address needs brackets", _FORMS)
        if not host:
            raise UsageError(f"{what} {text!r} has no host", _FORMS)
        if "%" in host:
            raise UsageError(f"{what} {text!r} has a zone, and means another machine on each", "name an address that is not link-local")
        if not (port_text.isascii() and port_text.isdigit()) or int(port_text) > 65_535:
            raise UsageError(f"{what} {text!r}: the port is not a number from 0 to 65535", _FORMS)
        return cls(host=host, port=int(port_text))

    @property
    def is_unix(self) -> bool:
        return bool(self.path)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it, judged by its text alone."""
        return self.is_unix or self.host in ("localhost", "::1") or self.host.startswith("127.")

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
