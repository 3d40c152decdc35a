"""What is asked for a lease, and what is done in the background for nobody: check, extend, release, abandon, cancel.

Knows: what each answer means for one lease. Must not know: connections, who decides to send them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cluster.client import answers
from cluster.client.answers import Answer
from cluster.client.call import Call
from cluster.client.core import LeaseCore, local_deadline
from cluster.client.handoff import Waiter
from cluster.client.values import Extended, ExtendOutcome, NotHeld, Unknown
from cluster.opcodes import Op, Outcome, Status

if TYPE_CHECKING:
    from cluster.client.engine import Engine
    from cluster.client.sessions import Session

logger = logging.getLogger(__name__)


class CancelCall(Call):
    """Take a waiting request out of its queue. Its own answer follows; this one tells nothing."""

    changes = False

    def __init__(self, acq_id: bytes) -> None:
        self.background = True
        self._acq_id = acq_id

    def operation(self, now: float) -> Sequence[Any]:
        return (int(Op.CANCEL), self._acq_id)

    def again(self) -> bool:
        # With the connection gone, so is the waiter; the attempt takes care of what it may have been granted.
        return not self.unknown and self.tries < 2


class AbandonCall(Call):
    """Free whatever an acquisition id may hold, until it could have expired by itself."""

    def __init__(self, engine: Engine, acq_id: bytes, names: list[bytes], lease_ms: int, session: Session | None) -> None:
        self.background = True
        self._engine = engine
        self._acq_id = acq_id
        self._names = names
        self._lease_ms = lease_ms
        self._session = session

    def operation(self, now: float) -> Sequence[Any]:
        return (int(Op.ABANDON), self._acq_id, self._names[0])

    def answered(self, answer: Answer, base: float) -> None:
        if answer[0] != Status.OK:
            logger.warning("abandon.refused name=%s answer=%s", self._names[0].decode("ascii"), answer[0])
        self._names.pop(0)
        if self._names:
            self._engine.submit(self, self.deadline)

    def overdue(self, unknown: bool) -> float | None:
        if self._session is not None and self._session.renewing:
            # On a session that goes on, it would live as long as the session.
            return self._engine.expiry(self._lease_ms)
        return None


class CheckCall(Call):
    """Ask whether a lease lives, and how long. ``done(core, status, local deadline)`` with "held", "not_held", "revoked" or "unknown"."""

    changes = False

    def __init__(self, core: LeaseCore, done: Callable[[LeaseCore, str, float], None]) -> None:
        self._core = core
        self._done = done

    def operation(self, now: float) -> Sequence[Any]:
        core = self._core
        return (int(Op.CHECK), core.acq_id, core.name, core.token)

    def answered(self, answer: Answer, base: float) -> None:
        status = answer[0]
        if status == Status.OK:
            self._done(self._core, "held", local_deadline(base, answers.number(answer, 1)))
        elif status == Status.NOT_HELD:
            self._done(self._core, "not_held", 0.0)
        elif status == Status.REVOKED:
            self._done(self._core, "revoked", local_deadline(base, answers.number(answer, 1)))
        else:
            self._done(self._core, "unknown", 0.0)

    def broken(self) -> None:
        self._done(self._core, "unknown", 0.0)

    def overdue(self, unknown: bool) -> float | None:
        self._done(self._core, "unknown", 0.0)
        return None

    def stopped(self) -> None:
        self._done(self._core, "unknown", 0.0)


class VerifyCall(CheckCall):
    """Somebody waits to know whether a lease lives: None, or the error that says it does not, or is not known to."""

    def __init__(self, engine: Engine, core: LeaseCore, timeout_s: float, waiter: Waiter) -> None:
        super().__init__(core, self._told)
        self._engine = engine
        self._timeout_s = timeout_s
        self._waiter = waiter

    @property
    def about(self) -> str:
        return f"verify {self._core.shown!r}"

    def begin(self) -> None:
        self._engine.submit(self, self._engine.clock() + self._timeout_s)

    def _told(self, core: LeaseCore, status: str, deadline: float) -> None:
        if status == "unknown":
            trouble = self._engine.trouble_of(self)
            about, timeout_s = self.about, self._timeout_s
            self._waiter.finish(None, answers.unanswered(about, timeout_s, trouble, applied_unknown=False, undone=False))
            return
        if status != "held":
            self._engine.lose(core, status)
        # By this clock it may be over all the same: an answer does not bring a deadline back.
        self._waiter.finish(None, answers.lost(core.shown, core.token, core.reason) if core.over() else None)

    def stopped(self) -> None:
        self._waiter.finish(None, answers.closing(self.about))


class ExtendCall(Call):
    """Prolong one lease. The waiter gets an ``ExtendOutcome``, never an error: the old deadline holds whatever happens here."""

    urgent = True

    def __init__(self, engine: Engine, core: LeaseCore, lease_ms: int, timeout_s: float, waiter: Waiter) -> None:
        self._engine = engine
        self._core = core
        self._lease_ms = lease_ms
        self._timeout_s = timeout_s
        self._waiter = waiter

    def begin(self) -> None:
        now = self._engine.clock()
        if self._core.over():
            self._finish(NotHeld())
        else:
            # After its deadline the lease is lost here, whatever an answer would say.
            self._engine.submit(self, min(now + self._timeout_s, self._core.deadline()))

    def operation(self, now: float) -> Sequence[Any]:
        core = self._core
        return (int(Op.EXTEND), core.acq_id, core.name, core.token, self._lease_ms)

    def answered(self, answer: Answer, base: float) -> None:
        core, status = self._core, answer[0]
        if status == Status.OK:
            deadline = local_deadline(base, answers.number(answer, 1))
            if core.over():
                self._finish(NotHeld())
                return
            self._engine.prolong(core, deadline)
            self._finish(Extended(core.remaining()))
        elif status in (Status.NOT_HELD, Status.REVOKED):
            self._engine.lose(core, "revoked" if status == Status.REVOKED else "not_held")
            self._finish(NotHeld())
        else:
            self._finish(Unknown())

    def _finish(self, outcome: ExtendOutcome) -> None:
        self._waiter.finish(outcome)

    def broken(self) -> None:
        self._finish(Unknown())

    def overdue(self, unknown: bool) -> float | None:
        self._finish(NotHeld() if self._core.over() else Unknown())
        return None

    def stopped(self) -> None:
        self._finish(Unknown())


class ReleaseCall(Call):
    """Give one lease back. Goes on in the background, after its caller's time, until the lease could have expired."""

    def __init__(self, engine: Engine, core: LeaseCore, outcome: Outcome, timeout_s: float, waiter: Waiter | None) -> None:
        self.background = waiter is None
        self._engine = engine
        self._core = core
        self._outcome = outcome
        self._timeout_s = timeout_s
        self._waiter = waiter
        self._until = core.deadline()

    def begin(self) -> None:
        engine = self._engine
        engine.untrack(self._core)
        engine.submit(self, engine.clock() + self._timeout_s if self._waiter is not None else engine.expiry(0))

    @property
    def about(self) -> str:
        return f"release {self._core.shown!r}"

    def operation(self, now: float) -> Sequence[Any]:
        core = self._core
        return (int(Op.RELEASE), core.acq_id, core.name, core.token, int(self._outcome))

    def answered(self, answer: Answer, base: float) -> None:
        status = answer[0]
        if status in (Status.OK, Status.NOT_HELD):
            # After a lost reply, NOT_HELD may be the trace of our own first release: it was sent while the lease was ours, and what
            # has not reached its local deadline by now cannot have ended in any other way but by force.
            ours = status == Status.OK or (self.unknown and self._engine.clock() < self._until)
            if logger.isEnabledFor(logging.INFO):
                core = self._core
                logger.info("lease.released name=%s token=%d ours=%s", core.shown, core.token, ours)
            self._finish(ours)
        else:
            self._finish(False, answers.refusal(answer, self.about))

    def _finish(self, value: bool, error: BaseException | None = None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.finish(value, error)

    def broken(self) -> None:
        self._finish(False, answers.malformed(self.about))

    def overdue(self, unknown: bool) -> float | None:
        core = self._core
        session = core.session
        until = self._engine.expiry(core.lease_ms)
        if self._waiter is None:
            return until if session is not None and session.renewing else None
        trouble = self._engine.trouble_of(self)
        logger.warning("lease.release_unconfirmed name=%s token=%d; goes on in the background", core.shown, core.token)
        self._finish(False, answers.unanswered(self.about, self._timeout_s, trouble, applied_unknown=unknown, undone=False))
        self._engine.to_background(self, until)
        return until

    def stopped(self) -> None:
        self._finish(False, answers.closing(self.about, applied_unknown=True))


class PlainCall(Call):
    """A request with one answer and one waiter: ``parse`` makes the value of an OK."""

    def __init__(
        self, engine: Engine, about: str, op: Sequence[Any], parse: Callable[[Answer], Any], timeout_s: float, waiter: Waiter
    ) -> None:
        self._engine = engine
        self._about = about
        self._op = op
        self._parse = parse
        self._timeout_s = timeout_s
        self._waiter = waiter

    def begin(self) -> None:
        self._engine.submit(self, self._engine.clock() + self._timeout_s)

    def operation(self, now: float) -> Sequence[Any]:
        return self._op

    def answered(self, answer: Answer, base: float) -> None:
        if answer[0] == Status.OK:
            self._waiter.finish(self._parse(answer))
        else:
            self._waiter.finish(None, answers.refusal(answer, self._about))

    def broken(self) -> None:
        self._waiter.finish(None, answers.malformed(self._about))

    def overdue(self, unknown: bool) -> float | None:
        trouble = self._engine.trouble_of(self)
        self._waiter.finish(
            None, answers.unanswered(self._about, self._timeout_s, trouble, applied_unknown=unknown, undone=False)
        )
        return None

    def stopped(self) -> None:
        self._waiter.finish(None, answers.closing(self._about, applied_unknown=self.unknown))


class ReadCall(PlainCall):
    """Changes nothing, asked of the raft leader."""

    changes = False


class AnyNodeCall(ReadCall):
    """Changes nothing; any node can answer it."""

    anywhere = True


class ContactCall(AnyNodeCall):
    """The first contact. Ends as soon as every endpoint has refused this client for good."""

    def __init__(self, engine: Engine, endpoints: Sequence[str], timeout_s: float, waiter: Waiter) -> None:
        super().__init__(engine, "connect", (int(Op.PING),), lambda answer: None, timeout_s, waiter)
        self._endpoints = endpoints

    def begin(self) -> None:
        self._engine.contact = self
        super().begin()

    def answered(self, answer: Answer, base: float) -> None:
        self._engine.contact = None
        super().answered(answer, base)

    def overdue(self, unknown: bool) -> float | None:
        self._engine.contact = None
        self._waiter.finish(None, answers.unreachable(self._endpoints, self._timeout_s, self._engine.link.trouble()))
        return None

    def dial_failed(self) -> None:
        if self._engine.link.trouble().kind is not None:
            self.overdue(False)
            self._engine.withdraw(self)
