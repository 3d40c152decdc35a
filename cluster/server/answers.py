"""Answers and frames as bytes.

Knows: the encoding of replies. Must not know: who gets them or why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cluster.codec import frame, pack, unpack_stream
from cluster.opcodes import Status

OK = pack([int(Status.OK)])
CLOSING = pack([int(Status.CLOSING)])
CANCELLED = pack([int(Status.CANCELLED)])
UNSURE = pack([int(Status.UNSURE)])


def not_leader(leader: str | None, epoch: int) -> bytes:
    return pack([int(Status.NOT_LEADER), leader or "", epoch])


def overloaded(limit: str) -> bytes:
    return pack([int(Status.OVERLOADED), limit])


def bad_request(text: str) -> bytes:
    return pack([int(Status.BAD_REQUEST), text])


def stale_epoch(epoch: int) -> bytes:
    return pack([int(Status.STALE_EPOCH), epoch])


def held(node_id: bytes, remaining_ms: int, token: int, slot: int) -> bytes:
    return pack([int(Status.HELD), node_id, remaining_ms, token, slot])


def not_yet(left_ms: int) -> bytes:
    return pack([int(Status.NOT_YET), left_ms])


def reply(rid: int, answer: bytes, heard: int = 0) -> bytes:
    """A reply frame. ``heard`` only where it is not ``rid`` itself."""
    if heard and heard != rid:
        return frame(b"\x93" + pack(rid) + answer + pack(heard))
    return frame(b"\x92" + pack(rid) + answer)


def push(*values: Any) -> bytes:
    return frame(pack([0, list(values)]))


def events_of(data: bytes) -> Iterator[list[Any]]:
    """The events of one batch: ``[kind, name, slot, token, node_id, reason]``."""
    return unpack_stream(data)
