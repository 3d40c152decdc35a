"""The doors of a node: one or several listening sockets.

Knows: what to say when an address cannot be listened on. Must not know: who comes in.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Final

from cluster.address import Address
from cluster.errors import UsageError
from cluster.ports import Env, Listener

PROBE_TIMEOUT_S: Final = 1.0

logger = logging.getLogger(__name__)

_HINTS: Final = {
    errno.EADDRINUSE: ("the port is in use", "another node or an old process has it; end it, or choose another --listen"),
    errno.EADDRNOTAVAIL: (
        "it is not an address of this machine",
        "listen on one that is, and say with --advertise how the others reach it",
    ),
    errno.EACCES: ("permission denied", "choose a port above 1023, or a directory that this user may write to"),
    errno.ENOENT: ("the directory does not exist", "create it, or choose another path"),
}


def _unusable(address: Address, error: OSError) -> UsageError:
    """The same trouble, with what to do about it."""
    text, hint = _HINTS.get(error.errno or 0, (str(error), "choose another --listen"))
    if address.is_unix and error.errno == errno.EADDRINUSE:
        text = "the path is in use"
    return UsageError(f"cannot listen on {address}: {text}", hint)


async def open_listener(
    env: Env, address: Address, factory: Callable[[], asyncio.Protocol], make_room: Callable[[], bool]
) -> Listener:
    """Listen on one address; ``make_room`` as for ``ports.Env.listen``.

    Raises:
        UsageError: with the address, the reason and what to do. Nothing is left open.
    """
    try:
        if address.is_unix and await _is_alive(env, address):
            raise OSError(errno.EADDRINUSE, "in use")
        listener = await env.listen(address, factory, make_room=make_room)
    except OSError as error:
        raise _unusable(address, error) from error
    logger.info("listener.open address=%s", listener.address)
    return listener


async def _is_alive(env: Env, address: Address) -> bool:
    """Whether somebody listens on a Unix socket. The file alone says nothing: a killed process leaves it behind."""
    try:
        transport, _ = await env.dial(address, asyncio.Protocol, PROBE_TIMEOUT_S)
    except (OSError, asyncio.TimeoutError):
        return False
    transport.abort()
    return True
