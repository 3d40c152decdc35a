"""How commands reach the nodes: the options of a client turned into a coordinator.

Knows: option names, ``connect``. Must not know: what is done with the coordinator.
"""

from __future__ import annotations

import argparse

from cluster.client import Coordinator, connect, connect_async


def open_coordinator(args: argparse.Namespace, *, admin: bool = False) -> Coordinator:
    """A coordinator that has met a node.

    Args:
        args: with ``connect``, ``secret_file`` and ``timeout``, as ``options.CLIENT`` gives them.
        admin: for verbs that only operators may use.

    Raises:
        UsageError, Unavailable, AuthenticationError, ProtocolError: see ``connect``.
    """
    return connect(args.connect, secret=args.secret_file, timeout=args.timeout, role="admin" if admin else "client")


async def open_coordinator_async(args: argparse.Namespace) -> Coordinator:
    """The same without blocking the loop, for clients without rights of an operator."""
    return await connect_async(args.connect, secret=args.secret_file, timeout=args.timeout)
