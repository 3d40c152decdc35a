"""Requests about records: reads from the leader's memory, and writes that must not crowd out what keeps leases alive.

Knows: when the raft leader may answer by itself, how much of records may be under way. Must not know: who may write a record (the
table decides), sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from cluster._table import LeaseTable
from cluster.codec import pack
from cluster.limits import RECORD_REPLIES_UNSENT_MAX_BYTES, RECORD_WRITES_QUEUED_MAX_BYTES
from cluster.opcodes import Status
from cluster.ports import Replicator
from cluster.server import answers
from cluster.server.batcher import Batcher
from cluster.server.clients import Session


class Host(Protocol):
    """The parts of the server that these requests act on."""

    table: LeaseTable
    log: Replicator
    batcher: Batcher


class RecordDesk:
    """Of one node.

    ``reply(connection, request, answer)`` sends an answer; ``after_log(connection, request, read)`` answers with what ``read`` gives,
    once the log has moved.
    """

    def __init__(
        self,
        host: Host,
        reply: Callable[[int, int, bytes], None],
        after_log: Callable[[int, int, Callable[[], bytes]], None],
    ) -> None:
        self._host = host
        self._reply = reply
        self._after_log = after_log
        self._queued_bytes = 0

    def get(self, session: Session, rid: int, key: bytes) -> bytes | None:
        """Linearizable: while a majority has just answered there is no other raft leader, and this one has applied what it confirmed."""
        if self._host.log.has_fresh_majority():
            return self._read(session, key)
        self._after_log(session.number, rid, lambda: self._read(session, key))
        return None

    def _read(self, session: Session, key: bytes) -> bytes:
        # Looked at now, not when the request came: many that waited for the log are answered in one turn.
        if session.connection.unsent() > RECORD_REPLIES_UNSENT_MAX_BYTES:
            return answers.overloaded("RECORD_REPLIES_UNSENT_MAX_BYTES")
        table = self._host.table
        known = table.next_token - 1
        found = table.record(key)
        if found is None:
            return pack([int(Status.OK), known])
        name, version, token, value = found
        return pack([int(Status.OK), known, version, token, value, name])

    def write(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        packed = pack(operation)
        size = len(packed)
        if self._queued_bytes + size > RECORD_WRITES_QUEUED_MAX_BYTES:
            return answers.overloaded("RECORD_WRITES_QUEUED_MAX_BYTES")
        if not self._host.batcher.intake.takes(True):
            return answers.overloaded("REQUESTS_QUEUED_MAX")
        self._queued_bytes += size
        number = session.number

        def answered(answer: bytes) -> None:
            self._queued_bytes -= size
            self._reply(number, rid, answer)

        self._host.batcher.submit(packed, answered)
        return None
