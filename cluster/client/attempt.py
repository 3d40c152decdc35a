"""One acquisition: asked until it is settled or its time is over, and undone when nobody wants it any more.

Knows: what a grant, a refusal, and silence mean for the caller; when something must be abandoned. Must not know: connections, threads
other than the I/O thread.

An attempt has one acquisition id for as long as what it was granted may be of use. Whoever gives it up leaves it here as an orphan until
it is known that it holds nothing: a frame that is out is answered first, a waiting one is cancelled, and whatever may have been granted
is abandoned.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from cluster.client import answers
from cluster.client.answers import Answer, Grant
from cluster.client.call import Call, State
from cluster.client.checks import AcquireSpec
from cluster.client.core import LeaseCore, local_deadline
from cluster.client.errands import AbandonCall, CancelCall, CheckCall
from cluster.client.handoff import Waiter
from cluster.errors import CoordinationError
from cluster.opcodes import Op, Status

if TYPE_CHECKING:
    from cluster.client.engine import Engine
    from cluster.client.sessions import Session

logger = logging.getLogger(__name__)

# A grant counts from the frame that was heard before it, maybe a ping of a second ago. If that cost more than this share of
# the lease, its true deadline is asked for before the lease is handed out.
STALE_SHARE: Final = 0.2
CONFIRMATIONS_MAX: Final = 3
CONFIRM_LEAST_S: Final = 1.0


class Phase(IntEnum):
    WAITING = 0
    CONFIRMING = 1
    DELIVERED = 2
    OVER = 3
    ORPHAN = 4


class AcquireCall(Call):
    """See the module. ``begin`` and ``give_up`` are run on the I/O thread."""

    phase = Phase.WAITING
    session: Session | None = None
    limit = 0.0
    _wait_until = 0.0
    _confirmations = 0
    _unconfirmed = 0
    _revoked = 0
    _owed = False
    _cores: Sequence[LeaseCore] = ()

    def __init__(self, engine: Engine, spec: AcquireSpec, acq_id: bytes, timeout_s: float, waiter: Waiter, *, many: bool) -> None:
        self._engine = engine
        self._acq_id = acq_id
        self._timeout_s = timeout_s
        self._waiter: Waiter | None = waiter
        self._many = many
        self.spec = spec

    def begin(self) -> None:
        if self.phase is not Phase.WAITING:
            return
        engine = self._engine
        if engine.closing:
            self.fail(answers.closing(self.about))
            return
        self._wait_until = engine.clock() + self.spec.wait_ms / 1000
        self.limit = self._wait_until + self._timeout_s
        engine.attempts[self] = None
        self._ask()

    def _ask(self) -> None:
        if self.spec.auto_extend:
            self._engine.sessions.join(self)
        else:
            self._engine.submit(self, self.limit)

    def joined(self, session: Session) -> None:
        """Its session is open."""
        self.session = session
        if self.spec.wait_ms:
            session.stand_in_line(self)
        self._engine.submit(self, self.limit)

    @property
    def about(self) -> str:
        shown = ", ".join(repr(name.decode("ascii")) for name in self.spec.names[:3])
        more = f" and {len(self.spec.names) - 3} more" if len(self.spec.names) > 3 else ""
        return f"acquire {shown}{more}"

    # What the dispatcher asks.

    def operation(self, now: float) -> Sequence[Any]:
        spec = self.spec
        session = 0
        if self.session is not None:
            session, self._revoked = self.session.id, self.session.revoked
        what: Any = list(spec.names) if self._many else spec.names[0]
        op = (int(Op.ACQUIRE_ALL if self._many else Op.ACQUIRE), self._acq_id, what, spec.lease_ms, spec.max_leaders,
              spec.min_ms, session, spec.node_id, spec.metadata)  # fmt: skip
        left_ms = math.ceil((self._wait_until - now) * 1000) if spec.wait_ms else 0
        # A wait whose time ran out while nobody could be asked is still asked once: it may have been granted before.
        self.waits = left_ms > 0
        return (int(Op.WAIT), left_ms, op) if self.waits else op

    def again(self) -> bool:
        if self.phase is not Phase.ORPHAN:
            return True
        if self.unknown:
            self._abandon()
        return False

    def answered(self, answer: Answer, base: float) -> None:
        status = answer[0]
        if status == Status.OK:
            self._granted(answers.grants(answer, len(self.spec.names), many=self._many), base)
        elif self.phase is Phase.ORPHAN:
            # A refusal settles that nothing is held. A wait that was called off settles nothing about earlier frames.
            if self.unknown and status in (Status.CANCELLED, Status.SESSION_ENDED, Status.BAD_REQUEST):
                self._abandon()
        elif status == Status.HELD:
            self._deliver(None)
        elif status == Status.SESSION_ENDED and self.session is not None:
            ended, self.session = self.session, None
            ended.step_out(self)
            ended.end("session_ended")
            self._ask()
        else:
            self.fail(answers.refusal(answer, self.about))

    def broken(self) -> None:
        self.unknown = True
        if self.phase is not Phase.ORPHAN:
            self.fail(answers.malformed(self.about))
        self._abandon()

    def overdue(self, unknown: bool) -> float | None:
        if self.phase is Phase.ORPHAN:
            if unknown:
                # Its answer may still be a grant, and nobody looks at it any more.
                self._abandon()
            return None
        trouble = self._engine.trouble_of(self)
        waited_s = self._timeout_s + self.spec.wait_ms / 1000
        self.fail(answers.unanswered(self.about, waited_s, trouble, applied_unknown=unknown, undone=True))
        return self._orphan(unknown)

    def stopped(self) -> None:
        self.fail(answers.closing(self.about, applied_unknown=self.unknown))

    # Endings.

    def _settled(self) -> None:
        """Its caller waits no longer."""
        self._engine.attempts.pop(self, None)
        if self.session is not None:
            self.session.step_out(self)

    def fail(self, error: CoordinationError) -> None:
        waiter, self._waiter = self._waiter, None
        self.phase = Phase.OVER
        self._settled()
        if waiter is not None:
            waiter.finish(None, error)

    def give_up(self) -> None:
        """The caller is gone, before or after the grant was handed over."""
        if self.phase is Phase.DELIVERED:
            self.phase = Phase.OVER
            self._engine.let_go(self._cores)
        elif self.phase is Phase.WAITING:
            self._waiter = None
            self._settled()
            if self.state in (State.NEW, State.DONE):
                # It waits for its session to open.
                self.phase = Phase.OVER
                self._engine.sessions.leave(self)
                if self.unknown:
                    self._abandon()
            elif self._orphan(self.unknown or self.state is State.SENT) is None:
                self._engine.withdraw(self)
        elif self.phase is Phase.CONFIRMING:
            self._waiter = None
            self.phase = Phase.ORPHAN
            self._settled()

    def close(self) -> None:
        """The coordinator closes: the caller is told, and nothing is left behind."""
        self.fail_and_leave(answers.closing(self.about, applied_unknown=self.unknown or self.state is State.SENT))

    def fail_and_leave(self, error: CoordinationError) -> None:
        waiter, self._waiter = self._waiter, None
        self.give_up()
        if waiter is not None:
            waiter.finish(None, error)

    def _orphan(self, unknown: bool) -> float | None:
        """Nobody wants it. Returns until when its frame's answer is waited for, or None if there is no frame out."""
        self.phase = Phase.ORPHAN
        if self.state is not State.SENT:
            if unknown:
                self._abandon()
            return None
        until = self._engine.expiry(self.spec.lease_ms)
        self._engine.to_background(self, until)
        if self.waits:
            self._engine.submit_errand(CancelCall(self._acq_id), until)
        return until

    def _abandon(self) -> None:
        self.phase = Phase.OVER
        self._give_back(list(self.spec.names), self.session)

    def _give_back(self, names: list[bytes], session: Session | None) -> None:
        lease_ms = self.spec.lease_ms
        abandon = AbandonCall(self._engine, self._acq_id, names, lease_ms, session)
        self._engine.submit_errand(abandon, self._engine.expiry(lease_ms))

    def _begin_anew(self) -> None:
        """What the id holds is of no use: give it back, and ask with another id."""
        for name in self.spec.names:
            # All at once: they leave before the question does.
            self._give_back([name], None)
        self._acq_id, self.unknown = self._engine.new_id(), False
        self._ask()

    # Grants.

    def _granted(self, granted: list[Grant], base: float) -> None:
        if self.phase is Phase.ORPHAN:
            self._abandon()
            return
        spec, engine = self.spec, self._engine
        if self.session is not None and any(grant.token < self.session.id for grant in granted):
            # Tokens and the ids of sessions come from one counter: granted before this session was opened, it hangs on an earlier one,
            # which nobody renews any more.
            self._begin_anew()
            return
        cores = []
        stale = False
        late_s = engine.clock() - base
        for name, grant in zip(spec.names, granted, strict=True):
            core = LeaseCore(engine, name, self._acq_id, grant.token, grant.slot, spec.node_id, spec.lease_ms, spec.auto_extend)
            core.own_deadline = local_deadline(base, grant.remaining_ms)
            if grant.revoked:
                core.end("revoked", told=True)
            stale = stale or late_s > STALE_SHARE * grant.remaining_ms / 1000
            cores.append(core)
        self._cores = cores
        self._owed = self._missed()
        if not self._owed and (not stale or self._confirmations >= CONFIRMATIONS_MAX):
            self._hand_over()
            return
        self._confirmations += 1
        self._unconfirmed = len(cores)
        self._revoked = self.session.revoked if self.session is not None else 0
        self.phase = Phase.CONFIRMING
        until = max(self.limit, engine.clock() + CONFIRM_LEAST_S)
        for core in cores:
            engine.submit(CheckCall(core, self._confirmed), until)

    def _missed(self) -> bool:
        """Whether the session has asked about its leases meanwhile, because some were revoked: what is granted here was not among them."""
        return self.session is not None and self.session.revoked != self._revoked

    def _confirmed(self, core: LeaseCore, status: str, deadline: float) -> None:
        if status == "held":
            core.own_deadline = max(core.own_deadline, deadline)
        elif status in ("not_held", "revoked"):
            core.end(status, told=True)
        elif self._owed:
            self._revoked = -1
        self._unconfirmed -= 1
        if self._unconfirmed:
            return
        if self.phase is Phase.ORPHAN:
            self._abandon()
            return
        self.phase = Phase.WAITING
        if self._missed() or any(core.reason == "not_held" or core.deadline() <= self._engine.clock() for core in self._cores):
            # It ended before its holder learned of it. What is still held counts as obtained when asked again.
            self.unknown = True
            self._ask()
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        now = self._engine.clock()
        if any(core.deadline() <= now for core in self._cores):
            self.unknown = True
            trouble = self._engine.trouble_of(self)
            self.fail(answers.unanswered(self.about, self._timeout_s, trouble, applied_unknown=True, undone=True))
            self._abandon()
            return
        for core in self._cores:
            self._engine.track(core, self.session)
        self._deliver(self._cores)

    def _deliver(self, cores: Sequence[LeaseCore] | None) -> None:
        waiter, self._waiter = self._waiter, None
        self._settled()
        self.phase = Phase.OVER if cores is None else Phase.DELIVERED
        if cores is not None:
            bind_gone(waiter, self.gone)
        if waiter is not None and not waiter.finish(cores) and cores is not None:
            self.give_up()

    def gone(self) -> None:
        """The loop that the grant was handed to was closed before it arrived."""
        self.give_up()


def bind_gone(waiter: Waiter | None, gone: Any) -> None:
    """Only a loop can be closed under a result; a thread that waits is there."""
    if waiter is not None and hasattr(waiter, "gone"):
        waiter.gone = gone
