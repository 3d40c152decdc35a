"""What a request means that did not take the hot path: reads, status, refusals.

Knows: the control requests of docs/protocol.md and in which order to check them. Must not know: sockets, the log's workings.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from cluster._table import LeaseTable
from cluster.codec import pack, unpack
from cluster.limits import (
    LEASES_PAGE_MAX,
    MAX_LEADERS_MAX,
    PAGES_QUEUED_MAX,
    SET_LOOKS_QUEUED_MAX,
)
from cluster.opcodes import Op, Status
from cluster.ports import Env, Replicator
from cluster.server import answers
from cluster.server.backups import Backups
from cluster.server.batcher import Batcher
from cluster.server.candidates import CandidateDesk
from cluster.server.clients import Session, Sessions
from cluster.server.events import Events
from cluster.server.group import GROUP_OPS, operate
from cluster.server.records import RecordDesk
from cluster.server.shapes import fault, is_uint
from cluster.server.timekeeper import TimeKeeper
from cluster.server.waiting import WaitingDesk
from cluster.server.watches import Watches

_TICK = pack([int(Op.TICK)])


def _is_request(value: Any) -> bool:
    """``[number, epoch, operation]``, the number above 0."""
    return isinstance(value, list) and len(value) == 3 and is_uint(value[0]) and value[0] > 0 and is_uint(value[1])


class Host(Protocol):
    """The parts of the server that requests act on."""

    table: LeaseTable
    keeper: TimeKeeper
    log: Replicator
    batcher: Batcher
    sessions: Sessions
    events: Events
    backups: Backups

    def status(self) -> dict[str, Any]: ...


class Control:
    """Answers diverted frames."""

    def __init__(self, env: Env, host: Host) -> None:
        self._env = env
        self._host = host
        self._waiting = WaitingDesk(env, host, self._reply)
        self._watches = Watches(env, host.events, self._reply)
        self._records = RecordDesk(host, self._reply, self._after_log)
        self._candidates = CandidateDesk(host, self._after_log)
        self._revocations = 0
        self._looks = 0
        self._pages: deque[tuple[Session, int, list[Any]]] = deque()

    @property
    def wants_events(self) -> bool:
        """Whether anybody would do something about the events of a batch: they are decoded only then."""
        return self._waiting.count > 0 or self._revocations > 0

    @property
    def waiter_count(self) -> int:
        return self._waiting.count

    @property
    def watcher_count(self) -> int:
        return len(self._watches)

    def told(self) -> None:
        """There are new events."""
        self._watches.happened()

    def names_freed(self, names: Iterable[bytes]) -> None:
        self._waiting.names_freed(names)

    def session_gone(self, session: Session) -> None:
        self._waiting.drop_connection(session.number)
        self._watches.drop_connection(session.number)

    def end_reign(self, refusal: bytes) -> None:
        """Who waits, and who watches, is told to ask the next raft leader."""
        self._revocations = 0
        self._waiting.end_reign(refusal)
        self._watches.end_reign(refusal)

    # Requests.

    def on_frame(self, session: Session, payload: bytes) -> None:
        try:
            request = unpack(payload)
        except ValueError as error:
            session.connection.close(f"protocol error: {error}")
            return
        if not _is_request(request):
            session.connection.close("protocol error: a request is [number, epoch, operation]")
            return
        rid, epoch, operation = request
        session.heard_rid = rid
        text = fault(operation)
        answer = answers.bad_request(text) if text else self._answer(session, rid, epoch, operation)
        if answer is not None:
            session.connection.write(answers.reply(rid, answer))

    def _answer(self, session: Session, rid: int, epoch: int, operation: list[Any]) -> bytes | None:
        """The answer, or None if it comes later."""
        code = operation[0]
        if code == Op.PING:
            return answers.OK
        if code == Op.STATUS:
            return pack([int(Status.OK), self._host.status()])
        if code == Op.BACKUP:
            return self._backup(session, rid, operation)
        serving = self._host.batcher.intake.epoch
        if not serving:
            return answers.not_leader(self._host.log.leader, 0)
        if epoch != serving:
            return answers.stale_epoch(serving)
        if code == Op.MEMBERS:
            return pack([int(Status.OK), self._host.status()])
        if code == Op.STATE or code == Op.LEASES:
            return self._read(session, rid, operation)
        if code == Op.RECORD_GET:
            return self._records.get(session, rid, operation[1])
        if code == Op.CANDIDATES:
            return self._candidates.look(session, rid, operation[1])
        if code == Op.RECORD_PUT or code == Op.RECORD_DELETE:
            return self._records.write(session, rid, operation)
        if code == Op.WAIT:
            return self._waiting.ask(session, rid, operation)
        if code == Op.WATCH:
            return self._watches.ask(session.number, rid, operation)
        if code == Op.CANCEL:
            self._waiting.cancel(session.number, operation[1])
            self._watches.cancel(session.number, operation[1])
            return answers.OK
        if code in GROUP_OPS:
            hello, number = session.connection.hello, session.number
            return operate(self._host.log, hello.role, hello.node_id, operation, lambda answer: self._reply(number, rid, answer))
        return self._operate(session, rid, operation)

    def _operate(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        code = operation[0]
        intake = self._host.batcher.intake
        acquisition = code == Op.ACQUIRE or code == Op.ACQUIRE_ALL or code == Op.ELECT
        if not intake.takes(acquisition or code == Op.CANDIDATE_REGISTER):
            return answers.overloaded("REQUESTS_QUEUED_MAX")
        if acquisition:
            names = operation[2] if code == Op.ACQUIRE_ALL else [operation[2]]
            if any(self._waiting.length(name) for name in names) and not self._waiting.holds(operation[1], names):
                return self._waiting.turn_away(session.number, rid, operation[1], names, pack(operation))
        if code == Op.REVOKE:
            if session.connection.hello.role != "admin":
                return answers.bad_request("revoking needs the admin role")
            self._revocations += 1
        looks = 0
        if code == Op.ACQUIRE_ALL:
            # A set is looked at whole before it is refused, each name with all its holders; a thousand full groups can be named in a batch.
            looks = sum(map(self._host.table.chain_length, operation[2]))
            if self._looks and self._looks + looks > SET_LOOKS_QUEUED_MAX:
                return answers.overloaded("SET_LOOKS_QUEUED_MAX")
            self._looks += looks
        number = session.number

        def answered(answer: bytes) -> None:
            if code == Op.REVOKE and self._revocations:
                # After the events of this batch, which the server decodes next.
                self._env.call_soon(self._revocation_done)
            self._looks -= looks
            self._reply(number, rid, answer)

        if acquisition:
            self._waiting.submit(operation[1], pack(operation), answered)
        else:
            self._host.batcher.submit(pack(operation), answered)
        return None

    def _revocation_done(self) -> None:
        self._revocations = max(0, self._revocations - 1)

    def _backup(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        """Any node answers: its state is one that the group had."""
        if session.connection.hello.role != "admin":
            return answers.bad_request("a backup needs the admin role")
        number = session.number
        self._host.backups.ask(operation[1], operation[2], lambda answer: self._reply(number, rid, answer))
        return None

    # Reading.

    def _read(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        if operation[0] == Op.LEASES:
            return self._queue_page(session, rid, operation)
        name, consistent = operation[1], operation[2]
        if consistent:
            self._after_log(session.number, rid, lambda: self._queue_page(session, rid, operation))
            return None
        return self._state(name)

    def _queue_page(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        """A page costs a look at every lease, the state of a name one at each of its holders: one in a turn of the loop, so that many
        at once do not keep the node from its other work."""
        if len(self._pages) >= PAGES_QUEUED_MAX:
            return answers.overloaded("PAGES_QUEUED_MAX")
        self._pages.append((session, rid, operation))
        if len(self._pages) == 1:
            self._env.call_soon(self._next_page)
        return None

    def _next_page(self) -> None:
        while self._pages:
            session, rid, operation = self._pages.popleft()
            if session.connection.reason is None:
                if self._pages:
                    self._env.call_soon(self._next_page)
                session.connection.write(answers.reply(rid, self._page(operation)))
                return

    def _page(self, operation: list[Any]) -> bytes:
        if not self._host.batcher.serving:
            return answers.not_leader(self._host.log.leader, 0)
        if operation[0] == Op.STATE:
            return self._state(operation[1])
        _, prefix, after_name, after_slot, limit = operation
        now_ms = self._host.keeper.stamp()
        after_slot, limit = min(after_slot, MAX_LEADERS_MAX), min(max(limit, 1), LEASES_PAGE_MAX)
        rows, more = self._host.table.scan(prefix, after_name, after_slot, limit, now_ms)
        return pack([int(Status.OK), now_ms, rows, more])

    def _state(self, name: bytes) -> bytes:
        now_ms = self._host.keeper.stamp()
        return pack([int(Status.OK), now_ms, self._host.table.rows(name, now_ms), self._waiting.length(name)])

    def _after_log(self, number: int, rid: int, read: Callable[[], bytes | None]) -> None:
        """Answer with ``read`` once an entry proposed after the request is applied: what was acknowledged before the request is seen."""

        def tell() -> None:
            said = read() if self._host.batcher.serving else answers.not_leader(self._host.log.leader, 0)
            if said is not None:
                self._reply(number, rid, said)

        def answered(answer: bytes) -> None:
            # In slices, with all else that comes after this batch: what is read may be large, and a thousand may have asked.
            if answer != answers.OK:
                self._reply(number, rid, answer)
            elif not self._host.batcher.after_flight(tell):
                self._reply(number, rid, answers.overloaded("REQUESTS_QUEUED_MAX"))

        if self._host.batcher.intake.takes(False):
            self._host.batcher.submit(_TICK, answered)
        else:
            self._reply(number, rid, answers.overloaded("REQUESTS_QUEUED_MAX"))

    def _reply(self, number: int, rid: int, answer: bytes) -> None:
        self._host.sessions.write(number, answers.reply(rid, answer))
