"""The connections of clients: one session each, one connection per client.

Knows: which bytes go to the hot path and which come back; that a client's new connection replaces its old one. Must not know: what
the operations do.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from cluster._wire import FrameReader, Intake, WireError
from cluster.budget import SMALL_BYTES, Budget
from cluster.limits import CLIENTS_INPUT_MAX_BYTES, FRAME_MAX_BYTES, INPUT_BUFFER_MAX_BYTES
from cluster.ports import Connection, Env
from cluster.server.turns import Turns

# What a frame takes that waits for its turn, beside its bytes.
FRAME_COST_BYTES: Final = 64

logger = logging.getLogger(__name__)

_numbers = count(1)


class Session:
    """One client connection.

    Attributes:
        number: the connection's number in the intake.
        heard_rid: the number of the last frame that was read here outside the hot path: pings, waits, control requests.
    """

    __slots__ = (
        "_after_read",
        "_backlog",
        "_backlog_bytes",
        "_budget",
        "_noted",
        "_on_frame",
        "_turns",
        "_unread",
        "_unread_bytes",
        "connection",
        "heard_rid",
        "number",
        "queued",
        "reader",
    )

    def __init__(
        self,
        turns: Turns,
        connection: Connection,
        intake: Intake,
        on_frame: Callable[[Session, bytes], None],
        after_read: Callable[[], None],
        budget: Budget,
    ) -> None:
        self.number = next(_numbers)
        self.connection = connection
        self.reader = FrameReader(intake, self.number, FRAME_MAX_BYTES)
        self.heard_rid = 0
        self.queued = False
        self._turns = turns
        self._on_frame = on_frame
        self._after_read = after_read
        self._budget = budget
        self._noted = False
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0

    def received(self, data: bytes) -> None:
        self._take(data)
        size = self.held()
        if size > SMALL_BYTES or self._noted:
            self._noted = size > SMALL_BYTES
            self._budget.note(self, size)

    def held(self) -> int:
        """Bytes that this connection sent and that are not complete, or wait for their turn."""
        return self.reader.held + self._backlog_bytes + self._unread_bytes

    def shed(self, reason: str) -> None:
        self.connection.close(reason)
        self._drop()

    def _drop(self) -> None:
        self._backlog.clear()
        self._unread.clear()
        self._backlog_bytes = self._unread_bytes = 0

    def _take(self, data: bytes) -> None:
        if self._backlog or self._unread:
            # Later frames must not overtake, by the hot path, those that wait for their turn.
            self._unread.append(data)
            self._unread_bytes += len(data)
            if self._unread_bytes > INPUT_BUFFER_MAX_BYTES:
                self.connection.close(f"more than {INPUT_BUFFER_MAX_BYTES} bytes wait to be read: the client sends too fast")
            return
        self._feed(data)
        if self._backlog:
            self._turns.serve(self)

    def _feed(self, data: bytes) -> None:
        try:
            frames = self.reader.feed(data)
        except WireError as error:
            self.connection.close(f"protocol error: {error}")
            return
        self._backlog.extend(frames)
        self._backlog_bytes += sum(map(len, frames)) + FRAME_COST_BYTES * len(frames)
        self._after_read()

    def step(self) -> bool:
        """Answer what was read, one frame at a time; see ``turns``."""
        backlog, unread = self._backlog, self._unread
        if self.connection.reason is not None:
            # An answer to what came before was one too many, or the client is gone: nobody reads the others.
            self._drop()
        elif backlog:
            frame = backlog.popleft()
            self._backlog_bytes -= len(frame) + FRAME_COST_BYTES
            self._on_frame(self, frame)
        elif unread:
            # One piece at a time: small frames take many times their bytes once they are apart.
            data = unread.popleft()
            self._unread_bytes -= len(data)
            self._feed(data)
        return bool(backlog or unread)


class Sessions:
    """All sessions of this node, by number and by client."""

    def __init__(
        self, env: Env, intake: Intake, on_frame: Callable[[Session, bytes], None], after_read: Callable[[], None]
    ) -> None:
        self._turns = Turns(env)
        self._intake = intake
        self._on_frame = on_frame
        self._after_read = after_read
        self._budget = Budget(CLIENTS_INPUT_MAX_BYTES, "unread requests")
        self._by_number: dict[int, Session] = {}
        self._by_client: dict[bytes, Session] = {}
        self.on_gone: Callable[[Session], None] = lambda session: None

    def __len__(self) -> int:
        return len(self._by_number)

    def add(self, connection: Connection) -> None:
        """Serve a connection. The same client's older one is closed first, and what it had sent and is not sealed is dropped."""
        client = connection.hello.incarnation
        older = self._by_client.get(client)
        if older is not None:
            self._gone(older)
            older.connection.close("replaced by a newer connection of the same client")
        session = Session(self._turns, connection, self._intake, self._on_frame, self._after_read, self._budget)
        self._by_number[session.number] = session
        self._by_client[client] = session
        connection.on_closed = lambda reason: self._closed(session, reason)
        connection.on_data = session.received

    def get(self, number: int) -> Session | None:
        return self._by_number.get(number)

    def has_client(self, client: bytes) -> bool:
        return client in self._by_client

    def write(self, number: int, data: bytes) -> None:
        """Write frames to a connection, if it is still there."""
        session = self._by_number.get(number)
        if session is not None:
            session.connection.write(data)

    def broadcast(self, data: bytes) -> None:
        for session in list(self._by_number.values()):
            session.connection.write(data)

    def close(self, reason: str) -> None:
        for session in list(self._by_number.values()):
            session.connection.close(reason)

    def _closed(self, session: Session, reason: str) -> None:
        logger.debug("client.closed node_id=%s reason=%s", session.connection.hello.node_id, reason)
        self._gone(session)

    def _gone(self, session: Session) -> None:
        if self._by_number.pop(session.number, None) is None:
            return
        self._budget.forget(session)
        client = session.connection.hello.incarnation
        if self._by_client.get(client) is session:
            del self._by_client[client]
        self._intake.drop(session.number)
        self.on_gone(session)
