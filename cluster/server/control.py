"""What a request means that did not take the hot path: waits, reads, status, refusals.

Knows: the control requests of docs/protocol.md and in which order to check them. Must not know: sockets, the log's workings.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from cluster._table import LeaseTable
from cluster.codec import pack, unpack
from cluster.limits import (
    LEASES_PAGE_MAX,
    MAX_LEADERS_MAX,
    PAGES_QUEUED_MAX,
    WAITER_UNHEARD_S,
    WAITERS_MAX,
    WAITERS_MAX_BYTES,
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
from cluster.server.waiters import Waiter, WaitQueues
from cluster.server.watches import Watches

TICK_S = 0.001
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
    """Answers diverted frames, and is the host of the wait queues."""

    def __init__(self, env: Env, host: Host) -> None:
        self._env = env
        self._host = host
        self._queues = WaitQueues(env, self, host.batcher.intake.waited)
        self._watches = Watches(env, host.events, self._reply)
        self._records = RecordDesk(host, self._reply, self._after_log)
        self._candidates = CandidateDesk(host, self._after_log)
        # Acquisitions of waiters that are proposed and not answered, whether their connection is still there or not.
        self._under_way: Counter[bytes] = Counter()
        self._revocations = 0
        self._pages: deque[tuple[Session, int, list[Any]]] = deque()

    @property
    def wants_events(self) -> bool:
        """Whether anybody would do something about the events of a batch: they are decoded only then."""
        return self._queues.count > 0 or self._revocations > 0

    @property
    def waiter_count(self) -> int:
        return self._queues.count

    @property
    def watcher_count(self) -> int:
        return len(self._watches)

    def told(self) -> None:
        """There are new events."""
        self._watches.happened()

    def names_changed(self, names: Iterable[bytes]) -> None:
        self._queues.changed(names)

    def session_gone(self, session: Session) -> None:
        self._queues.drop_connection(session.number)
        self._watches.drop_connection(session.number)

    def end_reign(self, refusal: bytes) -> None:
        """The waiters are told to ask the next raft leader; the answers of proposed ones come by the batcher."""
        self._revocations = 0
        for waiter in self._queues.drain():
            if not waiter.proposed:
                self._reply(waiter.conn_id, waiter.rid, refusal)
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
        if code == Op.STATE or code == Op.LEASES:
            return self._read(session, rid, operation)
        if code == Op.RECORD_GET:
            return self._records.get(session, rid, operation[1])
        if code == Op.CANDIDATES:
            return self._candidates.look(session, rid, operation[1])
        if code == Op.RECORD_PUT or code == Op.RECORD_DELETE:
            return self._records.write(session, rid, operation)
        if code == Op.WAIT:
            return self._wait(session, rid, operation)
        if code == Op.WATCH:
            return self._watches.ask(session.number, rid, operation)
        if code == Op.CANCEL:
            return self._cancel(session, operation[1])
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
            ahead = next((name for name in names if self._queues.length(name)), None)
            if ahead is not None and not self._holds(operation[1], names):
                return self._turn_away(session.number, rid, operation[1], names, pack(operation))
        if code == Op.REVOKE:
            if session.connection.hello.role != "admin":
                return answers.bad_request("revoking needs the admin role")
            self._revocations += 1
        number = session.number

        def answered(answer: bytes) -> None:
            if code == Op.REVOKE and self._revocations:
                # After the events of this batch, which the server decodes next.
                self._env.call_soon(self._revocation_done)
            self._reply(number, rid, answer)

        self._host.batcher.submit(pack(operation), answered)
        return None

    def _revocation_done(self) -> None:
        self._revocations = max(0, self._revocations - 1)

    def _turn_away(self, number: int, rid: int, acq_id: bytes, names: Sequence[bytes], operation: bytes) -> bytes | None:
        """Refuse an acquisition without asking the log, but not before every older copy of it that is under way, from a connection that is
        gone, has been decided: whoever is refused asks no more, and what that copy was granted would be held by nobody."""
        batcher = self._host.batcher

        def decide() -> None:
            answer = None
            if not batcher.serving:
                answer = answers.not_leader(self._host.log.leader, 0)
            elif acq_id in self._under_way:
                answer = self._later(decide)
            elif self._holds(acq_id, names):
                batcher.submit(operation, lambda granted: self._reply(number, rid, granted))
            else:
                answer = self._stand_back(next((name for name in names if self._queues.length(name)), names[0]))
            if answer is not None:
                self._reply(number, rid, answer)

        return self._later(decide)

    def _holds(self, acq_id: bytes, names: Sequence[bytes]) -> bool:
        now_ms = self._host.keeper.stamp()
        return all(self._host.table.holds(name, acq_id, now_ms) for name in names)

    def _later(self, decide: Callable[[], None]) -> bytes | None:
        return None if self._host.batcher.after_flight(decide) else answers.overloaded("REQUESTS_QUEUED_MAX")

    def _stand_back(self, name: bytes) -> bytes:
        """Others wait for the name: one that will not wait is refused, and one that may not overtake."""
        if not self._host.log.has_fresh_majority():
            return answers.not_leader(self._host.log.leader, self._host.batcher.intake.epoch)
        return self._held(name)

    def _held(self, name: bytes) -> bytes:
        left_ms = self._host.table.grants_from - self._host.keeper.stamp()
        if left_ms > 0:
            # Nobody holds it, and still it is not granted: who waited in vain must not take that for contention.
            return answers.not_yet(left_ms)
        rows = self._host.table.rows(name, self._host.keeper.stamp())
        if not rows:
            return answers.held(b"", 0, 0, 0)
        row = min(rows, key=lambda row: (row[4], row[1]))
        return answers.held(row[3], row[4], row[2], row[1])

    def _backup(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        """Any node answers: its state is one that the group had."""
        if session.connection.hello.role != "admin":
            return answers.bad_request("a backup needs the admin role")
        number = session.number
        self._host.backups.ask(operation[1], operation[2], lambda answer: self._reply(number, rid, answer))
        return None

    # Waiting.

    def _wait(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        wait_ms, inner = operation[1], operation[2]
        acq_id = inner[1]
        names = (inner[2],) if inner[0] == Op.ACQUIRE else tuple(inner[2])
        if len(set(names)) != len(names):
            return answers.bad_request("names are given twice")
        if self._holds(acq_id, names):
            # Granted before, and the reply was lost. All who stand in line wait for this very lease, so it must not stand behind them.
            return self._operate(session, rid, inner)
        if self._queues.count >= WAITERS_MAX:
            return answers.overloaded("WAITERS_MAX")
        if self._queues.weight >= WAITERS_MAX_BYTES:
            return answers.overloaded("WAITERS_MAX_BYTES")
        older = self._queues.of(session.number, acq_id)
        if older is not None:
            return answers.bad_request("this acquisition waits already")
        until = self._env.clock() + min(wait_ms, 1 << 40) / 1000.0
        client = session.connection.hello.incarnation
        # What is out of range the table will refuse; until then it must be a number that the table's questions can take.
        max_leaders = min(inner[4], MAX_LEADERS_MAX)
        waiter = Waiter(session.number, rid, acq_id, names, max_leaders, pack(inner), until, client=client)
        self._queues.arrive(waiter)
        overloaded = None if waiter.proposed else self._later(lambda: self._overtaken(waiter))
        if overloaded is not None:
            self._queues.remove(waiter)
        return overloaded

    def _overtaken(self, waiter: Waiter) -> None:
        """What was under way when it arrived is decided. If that was an older copy of it, from a connection that is gone, and was granted,
        it must not stand behind those who wait for this very lease."""
        if waiter.proposed or self._queues.of(waiter.conn_id, waiter.acq_id) is not waiter:
            return
        if waiter.acq_id in self._under_way:
            self._later(lambda: self._overtaken(waiter))
        elif self._holds(waiter.acq_id, waiter.names):
            waiter.proposed = True
            self.propose(waiter)

    def _cancel(self, session: Session, acq_id: bytes) -> bytes:
        waiter = self._queues.of(session.number, acq_id)
        if waiter is not None and not waiter.proposed:
            self._queues.remove(waiter)
            self._reply(waiter.conn_id, waiter.rid, answers.CANCELLED)
        self._watches.cancel(session.number, acq_id)
        return answers.OK

    def alive(self, waiter: Waiter) -> bool:
        session = self._host.sessions.get(waiter.conn_id)
        return session is not None and self._env.clock() - session.connection.heard_at <= WAITER_UNHEARD_S

    def free_in_s(self, waiter: Waiter, name: bytes) -> float:
        host = self._host
        if host.table.holds(name, waiter.acq_id, host.keeper.stamp()):
            return 0.0
        at_ms = host.table.next_free(name, waiter.max_leaders, host.keeper.stamp())
        # Cluster time moves in whole milliseconds: looking again sooner would find the same.
        return max(TICK_S, host.keeper.delay_s(at_ms)) if at_ms else 0.0

    def propose(self, waiter: Waiter) -> None:
        session = self._host.sessions.get(waiter.conn_id)
        waiter.heard = session.heard_rid if session is not None else waiter.rid
        self._under_way[waiter.acq_id] += 1
        self._host.batcher.submit(waiter.operation, lambda answer: self._proposed(waiter, answer))

    def _proposed(self, waiter: Waiter, answer: bytes) -> None:
        """The answer to a waiter's acquisition."""
        self._under_way[waiter.acq_id] -= 1
        if not self._under_way[waiter.acq_id]:
            del self._under_way[waiter.acq_id]
        fields = unpack(answer)
        status = fields[0]
        if status == Status.HELD:
            self._queues.refused(waiter)
            return
        if status == Status.NOT_YET:
            self._queues.refused(waiter, again_in_s=fields[1] / 1000.0)
            return
        self._queues.remove(waiter)
        session = self._host.sessions.get(waiter.conn_id)
        if session is not None:
            session.connection.write(answers.reply(waiter.rid, answer, waiter.heard))
        elif status == Status.OK:
            self._orphaned(waiter)

    def _orphaned(self, waiter: Waiter) -> None:
        """Granted to a connection that is gone.

        If the client has no other connection here, nothing of it is queued or under way, and whatever it asks later is ordered
        after this: the grant can be given back at once. It never learned of it. Otherwise it asks again with the same id, or abandons.
        """
        if waiter.client and not self._host.sessions.has_client(waiter.client) and self._host.batcher.serving:
            for name in waiter.names:
                self._host.batcher.submit(pack([int(Op.ABANDON), waiter.acq_id, name]), lambda answer: None)

    def unheard(self, waiter: Waiter) -> None:
        log = self._host.log
        self._reply(waiter.conn_id, waiter.rid, answers.not_leader(log.leader, self._host.batcher.intake.epoch))

    def timed_out(self, waiter: Waiter) -> None:
        answer = self._turn_away(waiter.conn_id, waiter.rid, waiter.acq_id, waiter.names, waiter.operation)
        if answer is not None:
            self._reply(waiter.conn_id, waiter.rid, answer)

    # Reading.

    def _read(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        if operation[0] == Op.LEASES:
            return self._queue_page(session, rid, operation)
        name, consistent = operation[1], operation[2]
        if consistent:
            self._after_log(session.number, rid, lambda: self._state(name))
            return None
        return self._state(name)

    def _queue_page(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        """A page costs a look at every lease: one in a turn of the loop, so that many at once do not keep the node from its other work."""
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
        _, prefix, after_name, after_slot, limit = operation
        now_ms = self._host.keeper.stamp()
        after_slot, limit = min(after_slot, MAX_LEADERS_MAX), min(max(limit, 1), LEASES_PAGE_MAX)
        rows, more = self._host.table.scan(prefix, after_name, after_slot, limit, now_ms)
        return pack([int(Status.OK), now_ms, rows, more])

    def _state(self, name: bytes) -> bytes:
        now_ms = self._host.keeper.stamp()
        return pack([int(Status.OK), now_ms, self._host.table.rows(name, now_ms), self._queues.length(name)])

    def _after_log(self, number: int, rid: int, read: Callable[[], bytes]) -> None:
        """Answer with ``read`` once an entry proposed after the request is applied: what was acknowledged before the request is seen."""

        def answered(answer: bytes) -> None:
            ok = answer == answers.OK and self._host.batcher.serving
            self._reply(number, rid, read() if ok else answer)

        self._host.batcher.submit(_TICK, answered)

    def _reply(self, number: int, rid: int, answer: bytes) -> None:
        self._host.sessions.write(number, answers.reply(rid, answer))
