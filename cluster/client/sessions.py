"""Sessions: this process's liveness, one for each lease time, renewed by one operation whatever hangs on it.

Knows: when a session is renewed, what an answer means for all of its leases. Must not know: the work under the leases, connections.

A session is renewed from a third of its lease time on, while a lease hangs on it or an acquisition that joins it stands in line (which
would lose its place if its session ended before its turn); an idle one is left to run out. Its deadline moves only by answers whose
``revoked_count`` is the known one. Another count means that some lease has left the session: each is checked by itself first, and only
then does the new deadline count for those that are still on it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cluster.client import answers
from cluster.client.answers import Answer
from cluster.client.call import Call
from cluster.client.core import LeaseCore, counted_from, local_deadline
from cluster.client.errands import CheckCall
from cluster.opcodes import Op, Status
from cluster.ports import Handle

if TYPE_CHECKING:
    from cluster.client.attempt import AcquireCall
    from cluster.client.engine import Engine

logger = logging.getLogger(__name__)

RENEW_AT: Final = 1 / 3
RENEW_SPREAD: Final = 0.1
RETRY_SHARE: Final = 0.05


class OpenCall(Call):
    """Open a session. One that is opened without our knowledge ends by itself; nothing is undone."""

    changes = False

    def __init__(self, session: Session) -> None:
        self._session = session

    def operation(self, now: float) -> Sequence[int | bytes]:
        return (int(Op.SESSION_OPEN), self._session.lease_ms, self._session.engine.node_id)

    def answered(self, answer: Answer, base: float) -> None:
        if answer[0] == Status.OK:
            self._session.opened(answers.number(answer, 1), base, answers.number(answer, 2))
        else:
            self._session.refused(answer)

    def broken(self) -> None:
        self._session.refused([int(Status.INVALID), 0])

    def overdue(self, unknown: bool) -> float | None:
        return self._session.late()


class RenewCall(Call):
    """Renew one session."""

    urgent = True

    def __init__(self, session: Session) -> None:
        self._session = session

    def operation(self, now: float) -> Sequence[int]:
        return (int(Op.SESSION_RENEW), self._session.id)

    def answered(self, answer: Answer, base: float) -> None:
        self._session.renewed(answer, base)

    def broken(self) -> None:
        self._session.renewal_failed()

    def overdue(self, unknown: bool) -> float | None:
        self._session.renewal_failed()
        return None


class Session:
    """One session, from its opening to its end.

    Attributes:
        id: the cluster's number for it; 0 while it is not open.
        deadline: until when it certainly lives, by this process's clock.
        leases: the live leases that hang on it.
        waiting: the acquisitions in line that will join it.
        ended: no lease may join any more.
    """

    def __init__(self, engine: Engine, lease_ms: int) -> None:
        self.engine = engine
        self.lease_ms = lease_ms
        self.id = 0
        self.deadline = 0.0
        self.leases: dict[LeaseCore, None] = {}
        self.waiting: set[AcquireCall] = set()
        self.ended = False
        self._anchor = 0.0
        self._revoked = 0
        self._joining: list[AcquireCall] = []
        self._open: OpenCall | None = None
        self._renewal: RenewCall | None = None
        self._timer: Handle | None = None
        self._loss_timer: Handle | None = None
        self._checks = 0
        self._next_deadline = 0.0
        self._next_revoked = 0
        self._all_checked = True

    @property
    def renewing(self) -> bool:
        """Whether it goes on living: something else hangs on it."""
        return bool(self.leases or self.waiting) and not self.ended

    @property
    def revoked(self) -> int:
        """How many of its leases were revoked, as far as those that hang on it have been checked, or are being checked, for it."""
        return self._next_revoked if self._checks else self._revoked

    @property
    def timers(self) -> int:
        return (self._timer is not None) + (self._loss_timer is not None)

    # Opening.

    def join(self, attempt: AcquireCall) -> None:
        if self.id:
            attempt.joined(self)
            return
        self._joining.append(attempt)
        if self._open is None:
            self._open = OpenCall(self)
            self.engine.submit(self._open, attempt.limit)
        elif attempt.limit < self._open.deadline:
            self.engine.date(self._open, attempt.limit)

    def leave(self, attempt: AcquireCall) -> None:
        if attempt in self._joining:
            self._joining.remove(attempt)

    def opened(self, number: int, base: float, remaining_ms: int) -> None:
        self._open = None
        self.id = number
        self._anchor = base
        self.deadline = local_deadline(base, remaining_ms)
        logger.info("session.opened session=%d lease_ms=%d", number, self.lease_ms)
        joining, self._joining = self._joining, []
        for attempt in joining:
            attempt.joined(self)

    def refused(self, answer: Answer) -> None:
        self._open = None
        self.ended = True
        self.engine.sessions.forget(self)
        joining, self._joining = self._joining, []
        for attempt in joining:
            attempt.fail(answers.refusal(answer, attempt.about))

    def late(self) -> float | None:
        """Some attempts are out of time. Returns the next one's limit, or None: nobody waits for the opening any more."""
        now = self.engine.clock()
        late = [attempt for attempt in self._joining if attempt.limit <= now]
        self._joining = [attempt for attempt in self._joining if attempt.limit > now]
        for attempt in late:
            attempt.overdue(attempt.unknown)
        if self._joining:
            return min(attempt.limit for attempt in self._joining)
        self._open = None
        self.ended = True
        self.engine.sessions.forget(self)
        return None

    # Leases come and go.

    def attach(self, core: LeaseCore) -> None:
        first = not self.leases
        self.leases[core] = None
        if first:
            # The acquisition has renewed the session in the same step, which may have been a while ago.
            self._anchor = max(self._anchor, counted_from(core.own_deadline, self.lease_ms))
            self._arm_renewal()
        self._arm_loss()

    def detach(self, core: LeaseCore) -> None:
        if self.leases.pop(core, core) is core:
            return
        if not self.leases and not self.waiting:
            self._rest()

    def stand_in_line(self, attempt: AcquireCall) -> None:
        self.waiting.add(attempt)
        self._arm_renewal()

    def step_out(self, attempt: AcquireCall) -> None:
        """Granted or given up. A grant that hangs on this session is attached before."""
        self.waiting.discard(attempt)
        if not self.leases and not self.waiting:
            self._rest()

    def _rest(self) -> None:
        """Nothing hangs on it: no timer, no renewal."""
        for timer in (self._timer, self._loss_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._loss_timer = None
        if self._renewal is not None:
            self.engine.withdraw(self._renewal)
            self._renewal = None

    def end(self, reason: str) -> None:
        """It is over: every lease on it is lost, at once. One that is not open yet goes on: whoever leads by then will open it."""
        if self.ended or not self.id:
            return
        self.ended = True
        self.engine.sessions.forget(self)
        if self.leases:
            logger.warning("session.ended session=%d leases=%d reason=%s", self.id, len(self.leases), reason)
        for core in list(self.leases):
            self.engine.lose(core, reason)
        self._rest()

    # Renewing.

    def _arm_renewal(self, *, pause_s: float | None = None) -> None:
        if self._timer is not None or self._renewal is not None or self.ended or not (self.leases or self.waiting):
            return
        if pause_s is None:
            lease_s = self.lease_ms / 1000
            spread = 1 + RENEW_SPREAD * self.engine.random.random()
            pause_s = self._anchor + lease_s * RENEW_AT * spread - self.engine.clock()
        self._timer = self.engine.call_later(max(0.0, pause_s), self._renew)

    def _renew(self) -> None:
        self._timer = None
        self._renewal = RenewCall(self)
        # The dispatcher asks again by itself, across connections and raft leaders, until nothing is left to be saved.
        self.engine.submit(self._renewal, max(self._horizon(), self.engine.clock() + self.lease_ms / 1000 * RETRY_SHARE))

    def _horizon(self) -> float:
        return max([self.deadline, *(core.own_deadline for core in self.leases)])

    def renewed(self, answer: Answer, base: float) -> None:
        self._renewal = None
        status = answer[0]
        if status == Status.SESSION_ENDED:
            self.end("session_ended")
        elif status != Status.OK:
            logger.warning("session.renewal_refused session=%d answer=%s", self.id, status)
            self.renewal_failed()
        else:
            deadline = local_deadline(base, answers.number(answer, 1))
            revoked = answers.number(answer, 2)
            self._anchor = base
            if revoked == self._revoked:
                self.deadline = max(self.deadline, deadline)
                self._arm_loss()
            else:
                self._recheck(deadline, revoked)
            self._arm_renewal()

    def renewal_failed(self) -> None:
        """No answer, or a strange one: once more soon, as long as there is something to save."""
        self._renewal = None
        self._arm_renewal(pause_s=self.lease_ms / 1000 * RETRY_SHARE)

    def _recheck(self, deadline: float, revoked: int) -> None:
        if self._checks:
            # The checks under way end with the older count, so the next renewal sees a difference again.
            return
        self._next_deadline, self._next_revoked, self._all_checked = deadline, revoked, True
        cores = list(self.leases)
        self._checks = len(cores)
        for core in cores:
            self.engine.submit(CheckCall(core, self._checked), max(core.deadline(), self.engine.clock()))

    def _checked(self, core: LeaseCore, status: str, deadline: float) -> None:
        if status == "held":
            core.own_deadline = max(core.own_deadline, deadline)
        elif status == "unknown":
            self._all_checked = False
        else:
            self.engine.lose(core, status)
        self._checks -= 1
        if not self._checks and self._all_checked and not self.ended:
            self._revoked = self._next_revoked
            self.deadline = max(self.deadline, self._next_deadline)
            self._arm_loss()

    # The end of time.

    def _arm_loss(self) -> None:
        if self._loss_timer is None and self.leases:
            self._loss_timer = self.engine.call_later(max(0.0, self._loss_due() - self.engine.clock()), self._look)

    def _loss_due(self) -> float:
        """The earliest moment at which a lease can be over. While the session lives that is its deadline, without a look at each lease."""
        now = self.engine.clock()
        if self.deadline > now:
            return self.deadline
        return min(core.own_deadline for core in self.leases)

    def _look(self) -> None:
        self._loss_timer = None
        if self.engine.clock() >= self.deadline:
            for core in list(self.leases):
                if core.over():
                    self.engine.lose(core, "expired")
        self._arm_loss()

    def look_now(self) -> None:
        """The clock has jumped: timers may be late."""
        if self._loss_timer is not None:
            self._loss_timer.cancel()
        self._look()


class Sessions:
    """The sessions of one client, by lease time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._by_lease_ms: dict[int, Session] = {}

    def join(self, attempt: AcquireCall) -> None:
        """Give the attempt a session of its lease time, opening one if need be."""
        lease_ms = attempt.spec.lease_ms
        session = self._by_lease_ms.get(lease_ms)
        if session is not None and session.id and not session.renewing and session.deadline <= self._engine.clock():
            # Idle for longer than it lives. It may still be there, but a new one costs no more than being refused.
            session.end("session_ended")
            session = None
        if session is None:
            session = self._by_lease_ms[lease_ms] = Session(self._engine, lease_ms)
        session.join(attempt)

    def leave(self, attempt: AcquireCall) -> None:
        session = self._by_lease_ms.get(attempt.spec.lease_ms)
        if session is not None:
            session.leave(attempt)

    def forget(self, session: Session) -> None:
        if self._by_lease_ms.get(session.lease_ms) is session:
            del self._by_lease_ms[session.lease_ms]

    def all(self) -> list[Session]:
        return list(self._by_lease_ms.values())

    def end_all(self, reason: str) -> None:
        for session in self.all():
            session.end(reason)
