"""Fetching a backup: piece by piece, until it is whole.

Knows: the pieces of docs/protocol.md. Must not know: what a backup holds, files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.client import answers
from cluster.client.answers import Answer
from cluster.client.errands import AnyNodeCall, PlainCall, ReadCall
from cluster.client.handoff import Waiter
from cluster.opcodes import Op

if TYPE_CHECKING:
    from cluster.client.coordinator import Coordinator

Piece = tuple[bytes, int, int, bytes]


def fetch_backup(coordinator: Coordinator, *, any_node: bool, timeout_s: float) -> bytes:
    """A backup as bytes; blocks. Needs the admin role.

    Args:
        any_node: of whichever node answers, whose state may be behind; else of the raft leader.
        timeout_s: for each piece; the first one takes the node a while where there are many leases.

    Raises:
        UsageError: not the admin role. Unavailable, ProtocolError. Nothing was changed.
    """
    engine = coordinator._port.engine
    made, data = b"", bytearray()

    def request(waiter: Waiter) -> PlainCall:
        make = AnyNodeCall if any_node else ReadCall
        return make(engine, "snapshot save", (int(Op.BACKUP), made, len(data)), _piece, timeout_s, waiter)

    while True:
        backup_id, size, offset, piece = coordinator._ask(request)
        if backup_id != made or offset != len(data):
            # Another node answers, or this one has forgotten it: from the beginning.
            made, data = backup_id, bytearray()
            if offset:
                continue
        data += piece
        if len(data) >= size:
            return bytes(data)


def _piece(answer: Answer) -> Piece:
    backup_id, piece = answer[1], answer[4]
    if type(backup_id) is not bytes or type(piece) is not bytes:
        raise ValueError("not a piece of a backup")
    size, offset = answers.number(answer, 2), answers.number(answer, 3)
    if not piece or offset + len(piece) > size:
        raise ValueError("a piece that is nowhere in its backup")
    return backup_id, size, offset, piece
