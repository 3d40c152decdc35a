"""Requests about candidates that the raft leader answers from its memory.

Knows: when it may answer by itself, what a view of a name's candidates holds. Must not know: who is elected, who may claim (the table
decides), sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cluster._table import LeaseTable
from cluster.codec import pack
from cluster.limits import CANDIDATE_REPLIES_UNSENT_MAX_BYTES
from cluster.opcodes import Status
from cluster.ports import Replicator
from cluster.server import answers
from cluster.server.clients import Session
from cluster.server.timekeeper import TimeKeeper


class Host(Protocol):
    """The parts of the server that these requests act on."""

    table: LeaseTable
    keeper: TimeKeeper
    log: Replicator


class CandidateDesk:
    """Of one node. ``after_log(connection, request, read)`` answers with what ``read`` gives, once the log has moved."""

    def __init__(self, host: Host, after_log: Callable[[int, int, Callable[[], bytes]], None]) -> None:
        self._host = host
        self._after_log = after_log

    def look(self, session: Session, rid: int, name: bytes) -> bytes | None:
        """Linearizable, as a record is read: a leader without its majority must not pass for a name that others hold."""
        if self._host.log.has_fresh_majority():
            return self._view(session, name)
        self._after_log(session.number, rid, lambda: self._view(session, name))
        return None

    def _view(self, session: Session, name: bytes) -> bytes:
        if session.connection.unsent() > CANDIDATE_REPLIES_UNSENT_MAX_BYTES:
            return answers.overloaded("CANDIDATE_REPLIES_UNSENT_MAX_BYTES")
        host = self._host
        now_ms = host.keeper.stamp()
        revision, last_token, candidates = host.table.candidates(name, now_ms)
        free_in_ms = max(0, host.table.next_free(name, 1, now_ms) - now_ms)
        # After a restore nobody holds it, and still it is not granted: who waits must not take that for contention.
        grants_in_ms = max(0, host.table.grants_from - now_ms)
        event = host.table.next_event - 1
        return pack([int(Status.OK), now_ms, revision, last_token, free_in_ms, grants_in_ms, event, candidates])
