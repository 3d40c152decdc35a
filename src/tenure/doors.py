"""The ways in: to be a node, to be a client of nodes elsewhere, or to be alone.

Knows: which part of ``cluster`` opens which door. Must not know: what goes through it.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.client import Coordinator
from cluster.client import connect as _connect
from cluster.client.checks import Seconds
from cluster.embedded import join, local
from cluster.prefork import join_or_connect
from cluster.secrets import Secret
from cluster.tls import Tls

__all__ = ["connect", "join", "join_or_connect", "local"]


def connect(
    endpoints: str | Iterable[str],
    *,
    secret: Secret = None,
    tls: Tls | None = None,
    timeout: Seconds = 5.0,
    role: str = "client",
) -> Coordinator:
    """Become a client of nodes that run elsewhere.

    Args:
        endpoints: ``"host:port,host:port"``, ``"unix:/path"``, or a sequence of such: one is enough, more are safer.
        secret: the raft group's secret for this role, if it has one; or a mapping from roles to secrets.
        tls: this client's certificate, its key and the authority that all certificates come from; None: no TLS.
        timeout: seconds, 0.001 to 1 day: for this first contact, and the coordinator's default.
        role: ``"client"``, or ``"admin"`` for verbs that act on what is not the caller's own, such as ``revoke``.

    Returns:
        A coordinator, once one node has answered. That there is a raft leader is not asked.

    Raises:
        UsageError: bad endpoints, secret, TLS files or timeout. Nothing was opened.
        Unavailable: no node answered in time; the message has each address and its reason.
        AuthenticationError: every node refused this client.
        ProtocolError: what answers at every address is no node of this version.
    """
    return _connect(endpoints, secret=secret, tls=tls, timeout=timeout, role=role)
