"""Rules of the design, each broken in the running code, to see whether the simulation would notice.

Knows: where each rule stands in the code. Must not know: how a mistake is found. Mutants of the raft adapter are in ``mutants_raft``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from cluster import backup
from cluster.client import core
from cluster.client.link import Link
from cluster.client.wire import Wire
from cluster.opcodes import Status
from cluster.raft.quorum import Quorum
from cluster.server import server as server_module
from cluster.server.batcher import Batcher
from cluster.server.clients import Session, Sessions
from cluster.server.control import Control
from cluster.server.server import Server
from cluster.server.timekeeper import TimeKeeper
from cluster.server.waiting import WaitingDesk
from tests.sim.model_table import in_place, table_of
from tests.table.model import Lease, Model, Terms
from tests.table.mutants import ExtensionShortens, JoiningDoesNotRenew, LiveUntilSwept, RestoresWithoutTheWait
from tests.table.packing import HEADER

Mutant = Callable[[], AbstractContextManager[object]]


def replaced(owner: Any, name: str, make: Callable[[Any], Any]) -> Mutant:
    """``make`` gets what stands there, and gives what shall stand there instead."""

    @contextmanager
    def broken() -> Iterator[None]:
        with patch.object(owner, name, make(getattr(owner, name))):
            yield

    return broken


# Time.


class BaseTakenEarly(TimeKeeper):
    """The base is what was applied when this node was elected, not what it had applied before its own epoch entry."""

    elected: tuple[int, float] | None = None

    def begin(self) -> None:
        super().begin()
        if self.elected is not None:
            self._base_ms, self._base_at = self.elected


@contextmanager
def base_taken_early() -> Iterator[None]:
    changed = Server.role_changed

    def role_changed(self: Any, leading: bool, term: int, leader: str | None) -> None:
        if leading:
            self.keeper.elected = (self.keeper._last_ms, self.keeper._last_at)
        changed(self, leading, term, leader)

    with patch.object(server_module, "TimeKeeper", BaseTakenEarly), patch.object(Server, "role_changed", role_changed):
        yield


class BaseRenewed(TimeKeeper):
    def applied(self, time_ms: int) -> None:
        super().applied(time_ms)
        if self.leading:
            self.begin()


@contextmanager
def epoch_entry_is_a_base() -> Iterator[None]:
    """Every node takes the moment at which it applied an epoch entry, its own or another's, for that of the batch before it."""
    apply, opened = Server.apply, Server._open

    def applying(self: Any, index: int, term: int, command: bytes) -> None:
        before = self.table.epoch
        apply(self, index, term, command)
        if self.table.epoch != before and not self.keeper.leading:
            self.keeper.applied(self.table.time_ms)

    def opening(self: Any, epoch: int) -> None:
        self.keeper.applied(self.table.time_ms)
        opened(self, epoch)

    with patch.object(Server, "apply", applying), patch.object(Server, "_open", opening):
        yield


@contextmanager
def deadline_without_drift_and_margin() -> Iterator[None]:
    with patch.object(core, "CLOCK_DRIFT", 0.0), patch.object(core, "MARGIN_S", 0.0):
        yield


def _by_what_was_applied(stock: Any) -> Any:
    """What is sealed is stamped as ever."""

    def bind(self: Any, log: Any) -> None:
        stock(self, log)
        self.keeper.stamp = lambda: self.table.time_ms

    return bind


def _by_the_wall(stock: type[TimeKeeper]) -> Callable[[Any], TimeKeeper]:
    return lambda clock: stock(clock.__self__.wall)


def _from_receipt(stock: Any) -> Any:
    def replied(self: Any, wire: Any, call: Any, answer: Any, base: float) -> None:
        stock(self, wire, call, answer, self._env.clock())

    return replied


def _from_last_frame(stock: Any) -> Any:
    def heard(self: Any, heard: Any, rid: int, own: float) -> float:
        last: float = self._sent._times[-1]
        return max(own, last)

    return heard


# The table.


class NoEpochCheck(Model):
    def answers(self, data: bytes) -> list[list[Any]]:
        epoch = HEADER.unpack_from(data)[4] if len(data) >= HEADER.size else self.epoch
        current, self.epoch = self.epoch, min(self.epoch, epoch)
        try:
            return super().answers(data)
        finally:
            self.epoch = max(current, self.epoch)


class ExpiryBySweep(LiveUntilSwept):
    """Only a tick sweeps, and what was not swept is live."""

    def answers(self, data: bytes) -> list[list[Any]]:
        self.ticks = [10] in self.readable(data, 1) if len(data) > HEADER.size else False
        return super().answers(data)

    def sweep(self) -> None:
        if self.ticks:
            super().sweep()

    def remaining(self, lease: Lease) -> int:
        return max(0, super().remaining(lease))


class AnyToken(Model):
    """Whoever names the lease may end or extend it."""

    def holder(self, acq_id: bytes, name: bytes, token: int) -> Lease | None:
        return next(iter(self.occupants(name)), None)


class RetryWithoutRemaining(Model):
    """Who asks again is told the whole lease time, not what is left of it."""

    def obtain(self, names: list[bytes], terms: Terms) -> list[Any]:
        answer = super().obtain(names, terms)
        if answer[0] == Status.OK:
            answer = [
                answer[0],
                [[token, slot, max(left, terms.lease_ms), *more] for token, slot, left, *more in answer[1]],
            ]
        return answer


class TokensFromTheLiving(Model):
    """After a restart from a snapshot the next token is the one after the largest that is still there."""

    def restore(self, data: bytes) -> None:
        super().restore(data)
        self.next_token = 1 + max([0, *self.sessions, *(lease.token for lease in self.leases)])


@contextmanager
def late_batches() -> Iterator[None]:
    """Whoever is elected proposes, after its epoch entry, once more what it had sealed last in an earlier reign. It breaks no rule."""
    seal, propose_epoch = Batcher._seal, Server._propose_epoch

    def sealing(self: Any) -> None:
        seal(self)
        if self._flying is not None:
            self.late = self._flying.batch

    def proposing(self: Any, term: int) -> None:
        propose_epoch(self, term)
        late = vars(self.batcher).get("late")
        if late is not None:
            self.log.propose(late)

    with patch.object(Batcher, "_seal", sealing), patch.object(Server, "_propose_epoch", proposing):
        yield


@contextmanager
def no_epoch_check() -> Iterator[None]:
    """Alone it would not show, since a server that is told of the end of its reign seals nothing more."""
    with in_place(NoEpochCheck), late_batches():
        yield


def _table(model: type[Model]) -> Mutant:
    return lambda: in_place(model)


# The server.


def _any_epoch(stock: Any) -> Any:
    def answer(self: Any, session: Any, rid: int, epoch: int, operation: list[Any]) -> bytes | None:
        result: bytes | None = stock(self, session, rid, self._host.batcher.intake.epoch or epoch, operation)
        return result

    return answer


def _replaced_is_heard(stock: Any) -> Any:
    def add(self: Any, connection: Any) -> None:
        self._by_client.pop(connection.hello.incarnation, None)
        stock(self, connection)

    return add


def _queue_outlives_reign(stock: Any) -> Any:
    def close(self: Any, queued: bytes, flying: bytes) -> None:
        self.intake.epoch = 0
        sealed, self._flying = self._flying, None
        if sealed is not None:
            self._hand_out(sealed.refuse(flying))

    return close


@contextmanager
def unsealed_is_kept() -> Iterator[None]:
    class Keeps:
        def drop(self, number: int) -> int:
            return 0

    gone = Sessions._gone

    def kept(self: Any, session: Session) -> None:
        intake, self._intake = self._intake, Keeps()
        gone(self, session)
        self._intake = intake

    with patch.object(Sessions, "_gone", kept):
        yield


def _from_memory(stock: Any) -> Any:
    def after_log(self: Any, number: int, rid: int, read: Callable[[], bytes | None]) -> None:
        said = read()
        if said is not None:
            self._reply(number, rid, said)

    return after_log


def _also_in_a_handover(stock: Any) -> Any:
    def has_fresh_majority(self: Any) -> bool:
        void, self._lease_void = self._lease_void, False
        try:
            fresh: bool = stock(self)
            return fresh
        finally:
            self._lease_void = void

    return has_fresh_majority


def _before_its_epoch(stock: Any) -> Any:
    def propose_epoch(self: Any, term: int) -> None:
        stock(self, term)
        if self._opening == term and self.table.epoch:
            self._open(term)
            self._opening = term

    return propose_epoch


@contextmanager
def restore_without_the_wait() -> Iterator[None]:
    with in_place(RestoresWithoutTheWait), patch.object(backup, "LeaseTable", table_of(RestoresWithoutTheWait)):
        yield


MUTANTS: dict[str, Mutant] = {
    "clock base taken early": base_taken_early,
    "clock base renewed at every batch": replaced(server_module, "TimeKeeper", lambda stock: BaseRenewed),
    "epoch entry taken for a base": epoch_entry_is_a_base,
    "wall-clock expiry": replaced(server_module, "TimeKeeper", _by_the_wall),
    "deadline counted from the receipt": replaced(Link, "replied", _from_receipt),
    "deadline counted from the last frame sent": replaced(Wire, "_heard", _from_last_frame),
    "deadline without drift and margin": deadline_without_drift_and_margin,
    "no epoch check in the table": no_epoch_check,
    "session joined without renewal": _table(JoiningDoesNotRenew),
    "extension that shortens": _table(ExtensionShortens),
    "expiry judged by the sweep": _table(ExpiryBySweep),
    "stale token accepted": _table(AnyToken),
    "retry answered without remaining": _table(RetryWithoutRemaining),
    "tokens used again after a restart": _table(TokensFromTheLiving),
    "requests of another epoch accepted": replaced(Control, "_answer", _any_epoch),
    "replaced connection heard": replaced(Sessions, "add", _replaced_is_heard),
    "unsealed requests of a gone connection kept": unsealed_is_kept,
    "queue kept after the reign": replaced(Batcher, "close", _queue_outlives_reign),
    "waiter proposed unheard": replaced(WaitingDesk, "alive", lambda stock: lambda self, waiter: True),
    "answers from memory without a fresh majority": replaced(
        Quorum, "has_fresh_majority", lambda stock: lambda self: self.is_leader
    ),
    "answers from memory in a handover": replaced(Quorum, "has_fresh_majority", _also_in_a_handover),
    "liveness judged by the last applied time": replaced(Server, "bind", _by_what_was_applied),
    "consistent read from memory": replaced(Control, "_after_log", _from_memory),
    "restore without the wait": restore_without_the_wait,
    "serves before its epoch is applied": replaced(Server, "_propose_epoch", _before_its_epoch),
}
