"""Descriptors that must not live on in a forked child: locks, listening sockets, connections.

Knows: fork, locks on files. Must not know: what they protect. A copy in a child would hold a lock, a port or a connection for a process
that is gone, and keep its successor from taking over.
"""

from __future__ import annotations

import fcntl
import os
from asyncio import BaseTransport
from typing import Protocol
from weakref import WeakSet


class _Held(Protocol):
    def fileno(self) -> int:
        """-1 when it is closed."""


_held: WeakSet[_Held] = WeakSet()
_connections: WeakSet[BaseTransport] = WeakSet()


def keep_from_children(held: _Held) -> None:
    """Have it let go in every process that is forked from this one, for as long as it lives."""
    _held.add(held)


def keep_connection_from_children(transport: BaseTransport) -> None:
    """The same of a connection that the loop has made: its socket is the loop's own, and of no kind that can be held weakly."""
    _connections.add(transport)


def _let_go() -> None:
    there = [*_held, *(transport.get_extra_info("socket") for transport in _connections)]
    numbers = [number for held in there if held is not None and (number := held.fileno()) >= 0]
    if not numbers:
        return
    # Not closed: whoever still believes in the number would close another file that gets it later.
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for number in numbers:
        os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class LockedFile:
    """A file that this process alone has locked, until ``close`` or its end, however it ends."""

    def __init__(self, path: str) -> None:
        """Raises OSError; BlockingIOError if another process has the lock."""
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise
        keep_from_children(self)

    def fileno(self) -> int:
        return self._fd

    def say(self, text: str) -> None:
        """Leave a note for people in the file."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0)

    def close(self) -> None:
        """Unlock. Idempotent."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
