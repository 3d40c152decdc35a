"""How a client reaches nodes: the port that the link dials through, and the one for sockets.

Knows: endpoint texts, ``open_client``. Must not know: which node is the raft leader, retries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from cluster.address import Address
from cluster.errors import UsageError
from cluster.net import open_client
from cluster.ports import Connection, Env, Hello, Welcome
from cluster.secrets import Secrets
from cluster.tls import Credentials

DIAL_TIMEOUT_S: Final = 2.0
ENDPOINTS_MAX: Final = 64


class Door(Protocol):
    """Ways to nodes. Other nodes than ``endpoints`` may be asked for: those that a node names as raft leader."""

    @property
    def endpoints(self) -> list[str]: ...

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        """Connect and shake hands. Raises OSError, TimeoutError, CoordinationError."""


class TcpDoor:
    """Nodes behind sockets, TCP or Unix."""

    def __init__(
        self, endpoints: list[str], secrets: Secrets, timeout_s: float = DIAL_TIMEOUT_S, tls: Credentials | None = None
    ) -> None:
        self.endpoints = endpoints
        self._secrets = secrets
        self._tls = tls
        self._timeout_s = min(timeout_s, DIAL_TIMEOUT_S)

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        secret = self._secrets.of_role(hello.role)
        return await open_client(env, Address.parse(address), hello, secret, self._timeout_s, self._tls)


def parse_endpoints(endpoints: object) -> list[str]:
    """``"h:p,h:p"``, ``"unix:/path"`` or a sequence of such, in the addresses' canonical form, each once.

    Raises:
        UsageError: none given, too many, or one that is no address.
    """
    if isinstance(endpoints, str):
        texts: list[object] = [text for text in endpoints.split(",") if text.strip()]
    elif isinstance(endpoints, Iterable) and not isinstance(endpoints, (bytes, bytearray)):
        texts = list(endpoints)
    else:
        raise UsageError(f"endpoints must be text or a sequence of texts, not {type(endpoints).__name__}", "for example 127.0.0.1:7101")
    found: dict[str, None] = {}
    for text in texts:
        if not isinstance(text, (str, Address)):
            raise UsageError(f"an endpoint must be text, not {type(text).__name__}", "for example 127.0.0.1:7101")
        address = Address.parse(str(text), what="endpoint")
        if not address.is_unix and address.port == 0:
            raise UsageError(f"endpoint {address}: port 0 cannot be connected to", "give the node's port")
        found[str(address)] = None
    if not 1 <= len(found) <= ENDPOINTS_MAX:
        raise UsageError(f"endpoints names {len(found)} addresses", f"give 1 to {ENDPOINTS_MAX}, as host:port,host:port")
    return list(found)
