"""Hostile callers over real sockets, blocking: what they send, and how they behave afterwards.

Knows: sockets, the handshake. Must not know: what a test wants to show.
"""

from __future__ import annotations

import os
import pickle
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cluster.address import Address
from cluster.codec import frame, pack, unpack
from cluster.limits import FRAME_MAX_BYTES
from cluster.net.handshake import NONCE_BYTES, DialerHandshake
from cluster.opcodes import Op
from cluster.ports import Hello

PATIENCE_S = 30.0


class Bomb:
    """Unpickled anywhere it makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self._path),))


def call(address: str) -> socket.socket:
    at = Address.parse(address)
    caller = socket.socket()
    # Small, so that what a node has for a caller that does not read stays with the node.
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    caller.settimeout(PATIENCE_S)
    with _closed_on_error(caller):
        caller.connect((at.host, at.port))
    return caller


@contextmanager
def _closed_on_error(caller: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        caller.close()
        raise


def known(address: str, number: int, secret: bytes | None = None) -> tuple[socket.socket, int]:
    """A caller that has shaken hands as a client; and the epoch."""
    caller = call(address)
    hello = Hello("client", f"hostile:{number}", b"hostile%09d" % number)
    handshake = DialerHandshake(hello, secret, os.urandom(NONCE_BYTES))
    with _closed_on_error(caller):
        caller.sendall(frame(handshake.start()))
        while not handshake.done:
            answer = handshake.receive(frame_of(caller))
            if answer is not None:
                caller.sendall(frame(answer))
    assert handshake.welcome is not None
    return caller, handshake.welcome.epoch


def frame_of(caller: socket.socket) -> bytes:
    """The next frame that a node sent. Raises ConnectionError if there is none any more, TimeoutError if it takes too long."""
    head = _exactly(caller, 4)
    return _exactly(caller, int.from_bytes(head, "big"))


def _exactly(caller: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = caller.recv(size - len(data))
        if not more:
            raise ConnectionError("closed")
        data += more
    return data


def messages(bomb: Path, rng: random.Random) -> list[bytes]:
    """What strangers may say first."""
    pickles = [pickle.dumps(Bomb(bomb), protocol) for protocol in (0, 2, 5)]
    hello = ["tenure", 1, "client", b"", "x", b"I" * 16, b"N" * 32, {}]
    said = [*pickles, *map(frame, pickles), *(frame(pack([*hello[:7], {"info": bad}])) for bad in pickles)]
    said += [frame(b"\xc7" + bytes([len(bad) & 0xFF]) + b"\x01" + bad) for bad in pickles]
    said += [b"\xff\xff\xff\xff", b"\xff\xff\xff\xff" * 1000, b"\0\0\0\0" * 1000, frame(b"\xdd\xff\xff\xff\xff"), frame(b"\x91" * 3000)]
    said += [frame(pack(hello)) * 20]
    said += [frame(pack(["tenure", 1, "peer", *hello[3:]])), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x40\0" * 100]
    return said + [rng.randbytes(rng.choice((1, 5, 100, 5000))) for _ in range(20)]


def babble(address: str, said: bytes) -> socket.socket:
    """A caller that says something and waits for nothing."""
    caller = call(address)
    with suppress(ConnectionError):
        caller.sendall(said)
    return caller


def say_and_listen(address: str, said: bytes) -> bytes:
    """Say something, then read until the node closes; what it answered. Raises TimeoutError if it does not close."""
    heard = b""
    with call(address) as caller, suppress(ConnectionError):
        caller.sendall(said)
        caller.shutdown(socket.SHUT_WR)
        while more := caller.recv(65536):
            heard += more
    return heard


def deaf(address: str, number: int, pages: int) -> socket.socket:
    """A known client that asks for much and reads nothing."""
    caller, epoch = known(address, number)
    asked = [frame(pack([rid, epoch, [int(Op.LEASES), b"", b"", 0, 1000]])) for rid in range(1, pages + 1)]
    with suppress(ConnectionError):
        caller.sendall(b"".join(asked))
    return caller


def unfinished(address: str, number: int) -> socket.socket:
    """A known client whose only frame lacks its last byte."""
    caller, _ = known(address, number)
    with suppress(ConnectionError):
        caller.sendall(FRAME_MAX_BYTES.to_bytes(4, "big") + bytes(FRAME_MAX_BYTES - 1))
    return caller


def half_open(address: str) -> socket.socket:
    """It begins its hello, and will never say more."""
    caller = call(address)
    with _closed_on_error(caller):
        caller.sendall(b"\0\0\0\x60\x98")
        caller.shutdown(socket.SHUT_WR)
    return caller


def refusal_of(heard: bytes) -> str:
    """The code of the error frame that came last, or nothing."""
    code = ""
    while len(heard) >= 4 and len(heard) >= 4 + int.from_bytes(heard[:4], "big"):
        size = int.from_bytes(heard[:4], "big")
        message = unpack(heard[4 : 4 + size])
        code = message[1] if message[0] == "error" else code
        heard = heard[4 + size :]
    return code
