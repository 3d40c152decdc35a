"""One client's requests to one node and nobody else, as frames: no retry, no other node, no deadline of its own.

Knows: client frames. Must not know: what a test wants to show.
"""

from __future__ import annotations

import socket
from typing import Any, Final

from cluster.codec import frame, pack, unpack
from cluster.opcodes import Op, Status
from tests.net.attackers import frame_of, known
from tests.support_cluster import NodeProcess

ANSWERS_WITHIN_S: Final = 30.0
REFUSALS: Final = {Status.NOT_LEADER, Status.STALE_EPOCH, Status.WRONG_EPOCH, Status.UNSURE}
"""What a node says that does not lead, or did not when it came to that: it did not happen; or it was proposed, and nobody here knows."""


class Asking:
    """A context manager: the connection is closed at its end. ``number``: who asks."""

    def __init__(self, node: NodeProcess, number: int) -> None:
        self._caller: socket.socket
        self._caller, self._epoch = known(node.address, number)
        self._caller.settimeout(ANSWERS_WITHIN_S)
        self._sent = 0
        self._found: dict[int, list[Any]] = {}

    def send(self, *operations: list[Any]) -> list[int]:
        """All in one write. Returns the requests' numbers."""
        numbers = list(range(self._sent + 1, self._sent + 1 + len(operations)))
        self._sent += len(operations)
        frames = [frame(pack([number, self._epoch, each])) for number, each in zip(numbers, operations, strict=True)]
        self._caller.sendall(b"".join(frames))
        return numbers

    def answer(self, number: int) -> list[Any]:
        """That of one request, however long ago it was sent. Raises TimeoutError if there is none in time."""
        while number not in self._found:
            found, answer, *_ = unpack(frame_of(self._caller))
            self._found[found] = answer
        return self._found[number]

    def ask(self, *operations: list[Any]) -> list[list[Any]]:
        return [self.answer(number) for number in self.send(*operations)]

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._caller.close()


def acquire(name: str, acquisition: bytes) -> list[Any]:
    """An acquisition of a minute. ``acquisition``: one byte, which stands for its id."""
    return [int(Op.ACQUIRE), acquisition * 16, name.encode(), 60_000, 1, 0, 0, b"asking", b""]


def wait_for(wait_ms: int, acquisition: list[Any]) -> list[Any]:
    return [int(Op.WAIT), wait_ms, acquisition]
