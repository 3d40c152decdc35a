"""Requests that wait for a name, and who is refused because others wait.

Knows: when a waiter may be proposed, what becomes of one whose connection is gone.
Must not know: sockets, other requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cluster.codec import pack, unpack
from cluster.limits import MAX_LEADERS_MAX, REFUSALS_QUEUED_MAX_BYTES, WAITER_UNHEARD_S, WAITERS_MAX, WAITERS_MAX_BYTES
from cluster.opcodes import Op, Status
from cluster.ports import Env
from cluster.server import answers
from cluster.server.batcher import Answered
from cluster.server.clients import Session
from cluster.server.waiters import Waiter, WaitQueues

if TYPE_CHECKING:
    from cluster.server.control import Host

TICK_S = 0.001
Reply = Callable[[int, int, bytes], None]


class WaitingDesk:
    """Takes waiting requests, and is the host of the wait queues. ``reply(conn_id, rid, answer)`` answers late."""

    def __init__(self, env: Env, host: Host, reply: Reply) -> None:
        self._env = env
        self._host = host
        self._reply = reply
        self._queues = WaitQueues(env, self, host.batcher.intake.waited)
        # Acquisitions that were submitted and are not answered, whether their connection is still there or not.
        self._under_way: Counter[bytes] = Counter()
        self._undecided_bytes = 0

    @property
    def count(self) -> int:
        return self._queues.count

    def length(self, name: bytes) -> int:
        return self._queues.length(name)

    def names_freed(self, names: Iterable[bytes]) -> None:
        self._queues.freed(names)

    def drop_connection(self, number: int) -> None:
        self._queues.drop_connection(number)

    def end_reign(self, refusal: bytes) -> None:
        """The waiters are told to ask the next raft leader; the answers of proposed ones come by the batcher."""
        for waiter in self._queues.drain():
            if not waiter.proposed:
                self._reply(waiter.conn_id, waiter.rid, refusal)

    def ask(self, session: Session, rid: int, operation: list[Any]) -> bytes | None:
        wait_ms, inner = operation[1], operation[2]
        acq_id = inner[1]
        names = (inner[2],) if inner[0] == Op.ACQUIRE else tuple(inner[2])
        if len(set(names)) != len(names):
            return answers.bad_request("names are given twice")
        if self.holds(acq_id, names):
            # Granted before, and the reply was lost. All who stand in line wait for this very lease, so it must not stand behind them.
            return self._regrant(session.number, rid, acq_id, pack(inner))
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

    def submit(self, acq_id: bytes, operation: bytes, answered: Answered) -> None:
        """Have the log decide an acquisition. Unlike those of the hot path it travels also if its connection is gone meanwhile."""

        def decided(answer: bytes) -> None:
            self._under_way[acq_id] -= 1
            if not self._under_way[acq_id]:
                del self._under_way[acq_id]
            answered(answer)

        self._under_way[acq_id] += 1
        self._host.batcher.submit(operation, decided)

    def _regrant(self, number: int, rid: int, acq_id: bytes, operation: bytes) -> bytes | None:
        """Have the log answer an acquisition that holds already."""
        if not self._host.batcher.intake.takes(False):
            return answers.overloaded("REQUESTS_QUEUED_MAX")
        self.submit(acq_id, operation, lambda answer: self._reply(number, rid, answer))
        return None

    def _overtaken(self, waiter: Waiter) -> None:
        """What was under way when it arrived is decided. If that was an older copy of it, from a connection that is gone, and was granted,
        it must not stand behind those who wait for this very lease."""
        if waiter.proposed or self._queues.of(waiter.conn_id, waiter.acq_id) is not waiter:
            return
        if not self._host.batcher.serving:
            # The reign has ended meanwhile: who stands in line is told so.
            return
        if waiter.acq_id in self._under_way:
            self._later(lambda: self._overtaken(waiter))
        elif self.holds(waiter.acq_id, waiter.names):
            waiter.proposed = True
            self.propose(waiter)

    def cancel(self, number: int, acq_id: bytes) -> None:
        waiter = self._queues.of(number, acq_id)
        if waiter is None:
            return
        if waiter.proposed:
            # It may be granted; who called it off is told, and gives it back.
            waiter.cancelled = True
        else:
            self._call_off(waiter)

    def _call_off(self, waiter: Waiter) -> None:
        self._queues.remove(waiter)
        self._reply(waiter.conn_id, waiter.rid, answers.CANCELLED)

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
        self.submit(waiter.acq_id, waiter.operation, lambda answer: self._proposed(waiter, answer))

    def _proposed(self, waiter: Waiter, answer: bytes) -> None:
        """The answer to a waiter's acquisition."""
        fields = unpack(answer)
        status = fields[0]
        if waiter.cancelled and status in (Status.HELD, Status.NOT_YET):
            self._call_off(waiter)
            return
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
        answer = self.turn_away(waiter.conn_id, waiter.rid, waiter.acq_id, waiter.names, waiter.operation)
        if answer is not None:
            self._reply(waiter.conn_id, waiter.rid, answer)

    def turn_away(self, number: int, rid: int, acq_id: bytes, names: Sequence[bytes], operation: bytes) -> bytes | None:
        """Refuse an acquisition without asking the log, but not before every older copy of it that is under way, from a connection that is
        gone, has been decided: whoever is refused asks no more, and what that copy was granted would be held by nobody."""
        size = len(operation)
        if self._undecided_bytes + size > REFUSALS_QUEUED_MAX_BYTES:
            return answers.overloaded("REFUSALS_QUEUED_MAX_BYTES")
        self._undecided_bytes += size

        def decide() -> None:
            if acq_id in self._under_way and self._host.batcher.serving and self._host.batcher.after_flight(decide):
                return
            self._undecided_bytes -= size
            answer = self._decided(number, rid, acq_id, names, operation)
            if answer is not None:
                self._reply(number, rid, answer)

        overloaded = self._later(decide)
        if overloaded is not None:
            self._undecided_bytes -= size
        return overloaded

    def _decided(self, number: int, rid: int, acq_id: bytes, names: Sequence[bytes], operation: bytes) -> bytes | None:
        if self._host.sessions.get(number) is None:
            # Its client has come again since, and may have given up what it holds: this copy must not take it back.
            return None
        if not self._host.batcher.serving:
            return answers.not_leader(self._host.log.leader, 0)
        if acq_id in self._under_way:
            return answers.overloaded("REQUESTS_QUEUED_MAX")
        if self.holds(acq_id, names):
            return self._regrant(number, rid, acq_id, operation)
        return self._stand_back(next((name for name in names if self._queues.length(name)), names[0]))

    def holds(self, acq_id: bytes, names: Sequence[bytes]) -> bool:
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
        row = self._host.table.leaver(name, self._host.keeper.stamp())
        if row is None:
            return answers.held(b"", 0, 0, 0)
        return answers.held(row[3], row[4], row[2], row[1])
