"""Models that are wrong in one rule each, to see whether the tests would notice.

Knows: the model's methods. Must not know: how a mistake is found.
"""

from __future__ import annotations

from typing import Any

from tests.table import mutants_candidates, mutants_records
from tests.table.model import EXPIRED, EXTENDED, HELD, NOT_HELD, OK, VACATED, Lease, Model, Terms


class ExtensionShortens(Model):
    def extended(self, lease: Lease, lease_ms: int) -> int:
        return self.now + lease_ms


class JoiningDoesNotRenew(Model):
    def obtain(self, names: list[bytes], terms: Terms) -> list[Any]:
        session = self.sessions.get(terms.session)
        deadline = session.deadline if session else 0
        answer = super().obtain(names, terms)
        if session:
            session.deadline = deadline
        return answer


class LiveUntilSwept(Model):
    def occupants(self, name: bytes) -> list[Lease]:
        return sorted((lease for lease in self.leases if lease.name == name), key=lambda lease: lease.slot)


class LiveAtItsDeadline(Model):
    def occupants(self, name: bytes) -> list[Lease]:
        return [lease for lease in self.leases if lease.name == name and self.ends(lease) >= self.now]

    def over(self) -> list[Lease]:
        return [lease for lease in super().over() if self.ends(lease) < self.now]


class ExtensionsGoUntold(Model):
    def tell(self, kind: int, lease: Lease, reason: int = 0) -> None:
        if kind != EXTENDED:
            super().tell(kind, lease, reason)


class EventNumbersBeginAnew(Model):
    def restore(self, data: bytes) -> None:
        super().restore(data)
        self.next_event = 1


class TokenUsedAgain(Model):
    def remove(self, lease: Lease, kind: int, reason: int = 0) -> None:
        super().remove(lease, kind, reason)
        if lease.token == self.next_token - 1:
            self.next_token = lease.token


class SessionsTakeNoToken(Model):
    def session_open(self, lease_ms: int, node_id: bytes) -> list[Any]:
        answer = super().session_open(lease_ms, node_id)
        if answer[0] == OK:
            self.next_token -= 1
        return answer


class StaleTokenAccepted(Model):
    def holder(self, acq_id: bytes, name: bytes, token: int) -> Lease | None:
        return next((lease for lease in self.occupants(name) if lease.acq_id == acq_id), None)


class StrangersIdAccepted(Model):
    def holder(self, acq_id: bytes, name: bytes, token: int) -> Lease | None:
        return next((lease for lease in self.occupants(name) if lease.token == token), None)


class CallersLimitOnly(Model):
    def has_free_slot(self, name: bytes, max_leaders: int) -> bool:
        return len(self.occupants(name)) < max_leaders


class LeftoversUnreported(Model):
    def expire_leftovers(self, name: bytes) -> None:
        self.leases = [lease for lease in self.leases if lease.name != name or self.ends(lease) > self.now]


class SweptByToken(Model):
    def over(self) -> list[Lease]:
        return sorted(super().over(), key=lambda lease: lease.token)


class SweptWithoutCap(Model):
    def sweep(self) -> None:
        for lease in self.over():
            self.expire(lease)


class VacationsCalledExpiries(Model):
    def expire(self, lease: Lease) -> None:
        self.remove(lease, EXPIRED if lease.session == 0 else VACATED)


class RevokedIsExtended(Model):
    def check(self, acq_id: bytes, name: bytes, token: int) -> list[Any]:
        lease = self.holder(acq_id, name, token)
        return [NOT_HELD] if lease is None or lease.dead else [OK, self.remaining(lease)]


class RevokedStaysOnItsSession(Model):
    def mark(self, lease: Lease) -> None:
        session = lease.session
        super().mark(lease)
        lease.session = session


class AskedAgainGrantsAgain(Model):
    def live(self, name: bytes, acq_id: bytes) -> Lease | None:
        lease = super().live(name, acq_id)
        return lease if lease and lease.token == self.next_token - 1 else None


class DeadCountsAsLive(Model):
    def live(self, name: bytes, acq_id: bytes) -> Lease | None:
        return next((lease for lease in self.occupants(name) if lease.acq_id == acq_id), None)


class RestoresWithoutTheWait(Model):
    def wait_for_holders(self) -> None:
        self.grants_from = max(self.grants_from, self.now)


class RestoresWithItsLeases(Model):
    def end_for_restore(self, lease_ms: int) -> list[Any]:
        kept, sessions = list(self.leases), dict(self.sessions)
        answer = super().end_for_restore(lease_ms)
        self.leases, self.sessions = kept, sessions
        return answer


class WaitsFromTheBackupOnly(Model):
    def init(self, cluster_id: bytes, wall_ms: int) -> list[Any]:
        before = self.grants_from
        answer = super().init(cluster_id, wall_ms)
        self.grants_from = before
        return answer


class EarlyEndFreesAtOnce(Model):
    def release(self, acq_id: bytes, name: bytes, token: int, outcome: int) -> list[Any]:
        lease = self.holder(acq_id, name, token)
        if lease:
            lease.min_ms = 0
        return super().release(acq_id, name, token, outcome)


class RefusalTakesAToken(Model):
    def held(self, name: bytes) -> list[Any]:
        self.next_token += 1
        return super().held(name)


class AllButNotNone(Model):
    def obtain(self, names: list[bytes], terms: Terms) -> list[Any]:
        answer = super().obtain(names, terms)
        if answer[0] == HELD and answer[-1] > 0:
            super().obtain(names[: answer[-1]], terms)
        return answer


class TimeFollowsTheStamp(Model):
    def advance(self, stamp: int) -> None:
        super().advance(stamp)
        self.now = max(stamp, 0)


class SessionEndsItsLeases(Model):
    def ends(self, lease: Lease) -> int:
        return self.sessions[lease.session].deadline if lease.session else lease.deadline


class SessionComesBack(Model):
    def session_renew(self, session_id: int) -> list[Any]:
        answer = super().session_renew(session_id)
        if (
            answer[0] != OK
            and 0 < session_id < self.next_token
            and not any(lease.token == session_id for lease in self.leases)
        ):
            return [OK, 100, 0]
        return answer


# Which a witness alone must find, without a right answer beside it, and what it then says.
BREAKS_AN_INVARIANT: dict[type[Model], str] = {
    ExtensionShortens: "I4: a lease was shortened",
    LiveUntilSwept: "I7: a lease that was over was touched",
    TokenUsedAgain: "I2",
    SessionsTakeNoToken: "I2",
    CallersLimitOnly: "I1",
    LeftoversUnreported: "I7",
    SweptByToken: "I7",
    VacationsCalledExpiries: "I7",
    RevokedIsExtended: "I4",
    AskedAgainGrantsAgain: "I5",
    RefusalTakesAToken: "I4",
    RestoresWithoutTheWait: "I8",
    AllButNotNone: "I4: granted, and nobody was told",
    TimeFollowsTheStamp: "I3",
}

BREAKS_AN_INVARIANT |= mutants_records.BREAKS_AN_INVARIANT | mutants_candidates.BREAKS_AN_INVARIANT

ALL: list[type[Model]] = sorted(
    (mutant for mutant in Model.__subclasses__() if mutant.__module__ == __name__), key=lambda mutant: mutant.__name__
)
ALL += mutants_records.ALL + mutants_candidates.ALL
