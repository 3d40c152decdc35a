"""Sockets of this machine: their options, and listening ones that survive a shortage of file descriptors.

Knows: the socket module and asyncio loops. Must not know: who is at the other end.

Loops accept by themselves, but not well enough: uvloop drops its listener for good on an error it does not expect, and resets callers while
descriptors are short; asyncio reports each refused accept as an error, many times a second. Here callers wait in the backlog meanwhile,
and the last descriptors are kept for what a node cannot do without: a journal that cannot begin its next file stops its node.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import resource
import socket
import stat
from collections.abc import Callable
from typing import Any, Final

from cluster.address import Address
from cluster.descriptors import keep_from_children

ACCEPT_RETRY_S: Final = 0.05
COMPLAIN_AGAIN_S: Final = 60.0
ACCEPTS_PER_TURN: Final = 64
RESERVED_DESCRIPTORS: Final = 32
KEEPALIVE_IDLE_S: Final = 15
KEEPALIVE_INTERVAL_S: Final = 5
KEEPALIVE_PROBES: Final = 3
# The same for a socket with bytes under way, for which there are no keepalive probes. Linux alone has it.
UNACKNOWLEDGED_MAX_MS: Final = 1000 * (KEEPALIVE_IDLE_S + KEEPALIVE_INTERVAL_S * KEEPALIVE_PROBES)

logger = logging.getLogger(__name__)


def tune(sock: Any) -> None:
    """No delay for small frames, and probes that find out about a machine that is gone. Nothing for Unix sockets."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    # Linux names the idle time TCP_KEEPIDLE, macOS TCP_KEEPALIVE.
    idle = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"
    probes = (
        (idle, KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MAX_MS),
    )
    options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1), (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    options += [(socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in probes if hasattr(socket, name)]
    for level, option, value in options:
        # Some systems refuse options of a socket whose other end is gone already; that end is reported separately.
        with contextlib.suppress(OSError):
            sock.setsockopt(level, option, value)


def allow_descriptors(wanted: int) -> None:
    """Let this process open that many files and sockets, as far as the system permits. A higher limit stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft < wanted:
        # Some systems have a lower limit than they say; then it stays as it was.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _keep_reserve(any_descriptor: int) -> None:
    """Raises OSError when only the reserve is left: the system gives the lowest number that is free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_free = os.dup(any_descriptor)
    os.close(next_free)
    if limit != resource.RLIM_INFINITY and next_free >= limit - min(RESERVED_DESCRIPTORS, limit // 4):
        raise OSError(errno.EMFILE, "the last file descriptors are kept for the journal and the peers")


async def open_sockets(loop: asyncio.AbstractEventLoop, address: Address, backlog: int) -> list[socket.socket]:
    """Bind and listen: one socket for each address that a host name stands for. Raises OSError; nothing is left open then."""
    if address.is_unix:
        return [_open_unix(address.path, backlog)]
    try:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise OSError(f"the name {address.host} cannot be resolved: {error}") from error
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    port = address.port
    try:
        for family, _, _, _, where in dict.fromkeys(found):
            try:
                sock = _open_inet(family, (where[0], port, *where[2:]), backlog)
            except OSError as error:
                # localhost often stands for an IPv6 address that this machine has not got.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = error
                continue
            sockets.append(sock)
            port = sock.getsockname()[1]
        if not sockets:
            raise missing or OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _open_inet(family: int, where: tuple[Any, ...], backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # A name may stand for both kinds of address; each has its own socket.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(where)
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _open_unix(path: str, backlog: int) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        # Whether somebody still listens there is the caller's question; a file that is no socket is left alone, and bind fails.
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.unlink(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


class SocketListener:
    """See ``ports.Listener``: accepts until closed, whatever goes wrong in between."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: Address,
        sockets: list[socket.socket],
        factory: Callable[[], asyncio.Protocol],
        make_room: Callable[[], bool] | None = None,
    ) -> None:
        self._loop = loop
        self._factory = factory
        self._make_room = make_room
        self._last_complaint = -COMPLAIN_AGAIN_S
        self._sockets = sockets
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        self._level = logging.WARNING
        self._arrivals: set[asyncio.Task[None]] = set()
        self._inode = _inode(address.path) if address.is_unix else None
        self.address = address if address.is_unix else Address(address.host, sockets[0].getsockname()[1])
        for sock in sockets:
            keep_from_children(sock)
            loop.add_reader(sock, self._accept, sock)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                _keep_reserve(listening.fileno())
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionAbortedError:
                continue  # That caller is gone already; the next one may not be.
            except OSError as error:
                # Where room was made a descriptor is free in the loop's next turn, and the reader calls again.
                if self._make_room is None or not self._make_room():
                    self._pause(listening, error)
                return
            accepted.setblocking(False)
            keep_from_children(accepted)
            tune(accepted)
            # The loop keeps only a weak reference to a task.
            task = self._loop.create_task(self._receive(accepted))
            self._arrivals.add(task)
            task.add_done_callback(self._arrivals.discard)
        if self._retries.pop(listening, None) is not None:
            logger.log(self._level, "listener.back address=%s", self.address)

    async def _receive(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._factory, accepted)
        except OSError as error:
            accepted.close()
            logger.debug("listener.arrival_lost address=%s reason=%s", self.address, error)
        except BaseException:
            accepted.close()
            raise

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Leave callers in the backlog, and try again soon: descriptors or memory are short, usually for a while."""
        if listening not in self._retries:
            # Who comes and goes while descriptors are short must not fill the log.
            news = self._loop.time() - self._last_complaint >= COMPLAIN_AGAIN_S
            self._level = logging.WARNING if news else logging.DEBUG
            self._last_complaint = self._loop.time() if news else self._last_complaint
            logger.log(self._level, "listener.paused address=%s retry_s=%g reason=%s", self.address, ACCEPT_RETRY_S, error)
        self._loop.remove_reader(listening)
        self._retries[listening] = self._loop.call_later(ACCEPT_RETRY_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        self._loop.add_reader(listening, self._accept, listening)

    def close(self) -> None:
        for sock in self._sockets:
            retry = self._retries.pop(sock, None)
            if retry is not None:
                retry.cancel()
            self._loop.remove_reader(sock)
            sock.close()
        self._sockets = []
        if self._inode is not None and _inode(self.address.path) == self._inode:
            os.unlink(self.address.path)
        self._inode = None


def _inode(path: str) -> tuple[int, int] | None:
    """Which file a path names, so that a successor's socket is not removed."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
