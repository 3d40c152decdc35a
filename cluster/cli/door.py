"""How commands reach the nodes: the options of a client turned into a coordinator.

Knows: option names, ``connect``. Must not know: what is done with the coordinator.
"""

from __future__ import annotations

import argparse
from typing import Any

from cluster.cli.options import read_tls
from cluster.client import Coordinator, connect, connect_async


def open_coordinator(args: argparse.Namespace, *, admin: bool = False) -> Coordinator:
    """A coordinator that has met a node.

    Args:
        args: with ``connect``, ``secret_file``, the files of TLS and ``timeout``, as ``options.CLIENT`` gives them.
        admin: for verbs that only operators may use.

    Raises:
        UsageError, Unavailable, AuthenticationError, ProtocolError: see ``connect``.
    """
    return connect(args.connect, timeout=args.timeout, role="admin" if admin else "client", **_proofs(args))


async def open_coordinator_async(args: argparse.Namespace) -> Coordinator:
    """The same without blocking the loop, for clients without rights of an operator."""
    return await connect_async(args.connect, timeout=args.timeout, **_proofs(args))


def _proofs(args: argparse.Namespace) -> dict[str, Any]:
    """What this side can show."""
    return {"secret": args.secret_file, "tls": read_tls(args)}
