"""The lease table as its rules are written, to be read and believed: lists, loops, no haste.

Knows: "Batches" and "Operations" of ``docs/protocol.md``. Must not know: how the compiled table does it. The product does not use it; tests
compare the two, byte by byte. Each rule has its own method, so that a test can break one and see whether the comparison notices.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cluster import limits
from tests.table.arguments import bad_argument, has_shape
from tests.table.model_candidates import CandidateRules, Claim
from tests.table.model_parts import Lease as Lease
from tests.table.model_parts import Session
from tests.table.model_parts import Terms as Terms
from tests.table.model_records import RecordRules
from tests.table.packing import HEADER, Unreadable, decode, pack

OK, HELD, NOT_HELD, SESSION_ENDED, NOT_YET, WRONG_EPOCH, INVALID, LIMIT, REVOKED = range(9)
GRANTED, RELEASED, EXPIRED, MARKED, FREED, VACATED, ABANDONED, EXTENDED = range(1, 9)
LEVEL_KNOWN = 1


class Model(RecordRules, CandidateRules):
    """The same ``apply`` and ``snapshot`` as ``LeaseTable``."""

    def __init__(
        self,
        *,
        leases_max: int = limits.LEASES_MAX,
        text_max: int = limits.LEASES_TEXT_MAX_BYTES,
        sessions_max: int = limits.SESSIONS_MAX,
        sweep_max: int = limits.SWEEP_MAX_PER_BATCH,
        candidates_max: int = limits.CANDIDATES_MAX,
        candidates_bytes_max: int = limits.CANDIDATES_MAX_BYTES,
        **of_records: int,
    ) -> None:
        RecordRules.__init__(self, **of_records)
        CandidateRules.__init__(self, candidates_max=candidates_max, candidates_bytes_max=candidates_bytes_max)
        self.leases_max, self.text_max = leases_max, text_max
        self.sessions_max, self.sweep_max = sessions_max, sweep_max
        self.level, self.epoch, self.now, self.next_token = 1, 0, 0, 1
        self.next_event = 1
        self.cluster_id, self.grants_from, self.longest_ms = b"", 0, 0
        self.leases: list[Lease] = []
        self.sessions: dict[int, Session] = {}
        self.events: list[list[Any]] = []

    # Batches

    def apply(self, data: bytes) -> tuple[bytes, bytes]:
        self.events = []
        replies = self.answers(data)
        return b"".join(map(pack, replies)), b"".join(map(pack, self.events))

    def answers(self, data: bytes) -> list[list[Any]]:
        if len(data) < HEADER.size:
            return []
        level, zero, zeros, count, epoch, stamp = HEADER.unpack_from(data)
        if not 1 <= level <= LEVEL_KNOWN or zero or zeros or count > len(data) - HEADER.size:
            return []
        operations = self.readable(data, count)
        if count == 1 and operations == [[8]] and epoch >= self.epoch:
            self.epoch = epoch
            return [[OK, self.now]]
        if epoch != self.epoch:
            return [[WRONG_EPOCH]] * count
        if stamp <= limits.STAMP_MAX_MS:
            self.advance(stamp)
        self.sweep()
        return [self.operate(operation) for operation in operations] + [[INVALID, 0]] * (count - len(operations))

    def readable(self, data: bytes, count: int) -> list[list[Any]]:
        operations: list[list[Any]] = []
        at = HEADER.size
        try:
            while len(operations) < count:
                operation, at = decode(data, at)
                if not isinstance(operation, list) or not operation or not has_shape(operation):
                    break
                operations.append(operation)
        except Unreadable:
            pass  # It and what follows is not in the list.
        return operations

    def operate(self, operation: list[Any]) -> list[Any]:
        code, *arguments = operation
        if code == 8:
            return [INVALID, 0]
        bad = bad_argument(code, arguments)
        if bad:
            return [INVALID, bad]
        handlers: dict[int, Any] = {
            1: self.acquire, 2: self.acquire_all, 3: self.extend, 4: self.session_renew, 5: self.release, 6: self.abandon, 7: self.revoke,
            9: self.format_level, 10: lambda: [OK], 11: self.init, 12: self.session_open, 13: self.check,
            31: self.end_for_restore,
            14: self.record_put, 15: self.record_delete,
            16: self.candidate_register, 17: self.candidate_refresh, 18: self.candidate_unregister, 19: self.elect,
        }  # fmt: skip
        answer: list[Any] = handlers[code](*arguments)
        return answer

    # Time

    def advance(self, stamp: int) -> None:
        self.now = max(self.now, stamp)
        for session in [session for session in self.sessions.values() if session.deadline <= self.now]:
            for lease in self.leases:
                if lease.session == session.id:
                    lease.deadline, lease.session = self.ends(lease), 0
            del self.sessions[session.id]

    def ends(self, lease: Lease) -> int:
        return max(lease.deadline, self.sessions[lease.session].deadline) if lease.session else lease.deadline

    def over(self) -> list[Lease]:
        """In the order in which they are swept."""
        return sorted(
            (lease for lease in self.leases if self.ends(lease) <= self.now),
            key=lambda lease: (self.ends(lease), lease.token),
        )

    def sweep(self) -> None:
        for lease in self.over()[: self.sweep_max]:
            self.expire(lease)

    def expire(self, lease: Lease) -> None:
        self.remove(lease, VACATED if lease.dead else EXPIRED)

    def remove(self, lease: Lease, kind: int, reason: int = 0) -> None:
        self.leases.remove(lease)
        self.tell(kind, lease, reason)

    def tell(self, kind: int, lease: Lease, reason: int = 0) -> None:
        self.events.append([kind, lease.name, lease.slot, lease.token, lease.node_id, reason])
        self.next_event += 1

    # Looking

    def occupants(self, name: bytes) -> list[Lease]:
        """By slot; who is over does not count, swept or not."""
        return sorted(
            (lease for lease in self.leases if lease.name == name and self.ends(lease) > self.now),
            key=lambda lease: lease.slot,
        )

    def live(self, name: bytes, acq_id: bytes) -> Lease | None:
        for lease in self.occupants(name):
            if lease.acq_id == acq_id and not lease.dead:
                return lease
        return None

    def holder(self, acq_id: bytes, name: bytes, token: int) -> Lease | None:
        """Dead ones too."""
        for lease in self.occupants(name):
            if lease.acq_id == acq_id and lease.token == token:
                return lease
        return None

    def live_tokens(self, name: bytes) -> set[int]:
        return {lease.token for lease in self.occupants(name) if not lease.dead}

    def remaining(self, lease: Lease) -> int:
        return self.ends(lease) - self.now

    def has_free_slot(self, name: bytes, max_leaders: int) -> bool:
        occupants = self.occupants(name)
        return len(occupants) < min([max_leaders] + [occupant.max_leaders for occupant in occupants])

    def held(self, name: bytes) -> list[Any]:
        leaver = min(self.occupants(name), key=lambda lease: (self.ends(lease), lease.slot))
        return [HELD, leaver.node_id, self.remaining(leaver), leaver.token, leaver.slot]

    # Granting

    def acquire(self, acq_id: bytes, name: bytes, *terms: Any) -> list[Any]:
        answer = self.obtain([name], Terms(acq_id, *terms))
        if answer[0] == OK:
            return [OK, *answer[1][0]]
        return answer[:-1] if answer[0] == HELD else answer

    def elect(self, acq_id: bytes, name: bytes, *terms: Any) -> list[Any]:
        answer = self.obtain([name], replace(Terms(acq_id, *terms[:6]), claim=Claim(*terms[6:])))
        if answer[0] == OK:
            return [OK, *answer[1][0]]
        return answer[:-1] if answer[0] == HELD else answer

    def acquire_all(self, acq_id: bytes, names: list[bytes], *terms: Any) -> list[Any]:
        return self.obtain(names, Terms(acq_id, *terms))

    def obtain(self, names: list[bytes], terms: Terms) -> list[Any]:
        """All or none; an ACQUIRE is an ACQUIRE_ALL of one name."""
        missing = [name for name in names if self.live(name, terms.acq_id) is None]
        refusal = self.refusal(names, missing, terms) if missing else None
        if refusal:
            return refusal
        for name in missing:
            self.grant(name, terms)
        if missing and terms.session:
            self.renew(self.sessions[terms.session])
        held = [self.live(name, terms.acq_id) for name in names]
        return [OK, [[lease.token, lease.slot, self.remaining(lease), lease.revoked] for lease in held if lease]]

    def refusal(self, names: list[bytes], missing: list[bytes], terms: Terms) -> list[Any] | None:
        if terms.session and terms.session not in self.sessions:
            return [SESSION_ENDED]
        if self.now < self.grants_from:
            return [NOT_YET, self.grants_from - self.now]
        for name in missing:
            if not self.has_free_slot(name, terms.max_leaders):
                return [*self.held(name), names.index(name)]
        if terms.claim and (refused := self.claim_refusal(names[0], terms.node_id, terms.claim)):
            return refused
        for name in missing:
            self.expire_leftovers(name)
        if self.next_token + len(missing) - 1 > limits.TOKEN_MAX:
            return [LIMIT, 3]
        while limit := self.reached_limit(missing, terms):
            if not self.over():
                return [LIMIT, limit]
            self.expire(self.over()[0])
        return None

    def reached_limit(self, missing: list[bytes], terms: Terms) -> int:
        if len(self.leases) + len(missing) > self.leases_max:
            return 1
        text = sum(len(lease.name) + len(lease.node_id) + len(lease.metadata) for lease in self.leases)
        more = sum(len(name) + len(terms.node_id) + len(terms.metadata) for name in missing)
        return 4 if text + more > self.text_max else 0

    def expire_leftovers(self, name: bytes) -> None:
        for lease in sorted(self.over(), key=lambda lease: lease.slot):
            if lease.name == name:
                self.expire(lease)

    def new_token(self) -> int:
        self.next_token += 1
        return self.next_token - 1

    def grant(self, name: bytes, terms: Terms) -> None:
        taken = {lease.slot for lease in self.occupants(name)}
        slot = min(set(range(limits.MAX_LEADERS_MAX)) - taken)
        lease = Lease(
            terms.acq_id, name, slot, self.new_token(), self.now, self.now + terms.lease_ms,
            terms.lease_ms, terms.min_ms, terms.max_leaders, terms.session, terms.node_id, terms.metadata,
        )  # fmt: skip
        self.leases.append(lease)
        self.longest_ms = max(self.longest_ms, terms.lease_ms)
        self.tell(GRANTED, lease)
        self.note_start(name, lease.node_id, lease.token)

    # Holding and ending

    def extend(self, acq_id: bytes, name: bytes, token: int, lease_ms: int) -> list[Any]:
        answer = self.check(acq_id, name, token)
        lease = self.holder(acq_id, name, token)
        if answer[0] != OK or lease is None:
            return answer
        before, lease.deadline = lease.deadline, self.extended(lease, lease_ms)
        if lease.deadline > before:
            self.tell(EXTENDED, lease)
        self.longest_ms = max(self.longest_ms, lease_ms)
        return [OK, self.remaining(lease)]

    def extended(self, lease: Lease, lease_ms: int) -> int:
        return max(lease.deadline, self.now + lease_ms)

    def check(self, acq_id: bytes, name: bytes, token: int) -> list[Any]:
        lease = self.holder(acq_id, name, token)
        if lease is None or lease.dead:
            return [NOT_HELD]
        return [REVOKED if lease.revoked else OK, self.remaining(lease)]

    def release(self, acq_id: bytes, name: bytes, token: int, outcome: int) -> list[Any]:
        lease = self.holder(acq_id, name, token)
        if lease is None:
            return [NOT_HELD]
        if lease.dead:
            return [OK]
        occupied_until = lease.granted + lease.min_ms
        if outcome == 0 or lease.revoked or occupied_until <= self.now:
            self.remove(lease, RELEASED, outcome)
        else:
            lease.dead, lease.session, lease.deadline = True, 0, occupied_until
            self.tell(RELEASED, lease, outcome)
        self.count_outcome(name, lease.node_id, token, outcome)
        return [OK]

    def abandon(self, acq_id: bytes, name: bytes) -> list[Any]:
        lease = self.live(name, acq_id)
        if lease:
            self.remove(lease, ABANDONED)
        return [OK]

    def revoke(self, name: bytes, slot: int | None, force: bool) -> list[Any]:
        chosen = [lease for lease in self.occupants(name) if slot in (None, lease.slot)]
        if not force:
            chosen = [lease for lease in chosen if not lease.dead and not lease.revoked]
        for lease in chosen:
            if lease.session:
                self.sessions[lease.session].revoked_count += 1
            if force:
                self.remove(lease, FREED)
            else:
                self.mark(lease)
        return [OK, len(chosen)]

    def mark(self, lease: Lease) -> None:
        lease.deadline, lease.session, lease.revoked = self.ends(lease), 0, True
        self.tell(MARKED, lease)

    # Sessions and the raft group

    def session_open(self, lease_ms: int, node_id: bytes) -> list[Any]:
        if len(self.sessions) >= self.sessions_max:
            return [LIMIT, 2]
        if self.next_token > limits.TOKEN_MAX:
            return [LIMIT, 3]
        session = Session(self.new_token(), self.now + lease_ms, lease_ms, node_id)
        self.sessions[session.id] = session
        self.longest_ms = max(self.longest_ms, lease_ms)
        return [OK, session.id, lease_ms]

    def session_renew(self, session_id: int) -> list[Any]:
        session = self.sessions.get(session_id)
        if session is None:
            return [SESSION_ENDED]
        self.renew(session)
        return [OK, session.deadline - self.now, session.revoked_count]

    def renew(self, session: Session) -> None:
        session.deadline = max(session.deadline, self.now + session.lease_ms)

    def init(self, cluster_id: bytes, wall_ms: int) -> list[Any]:
        if not self.cluster_id:
            self.cluster_id = cluster_id
            self.next_token = max(self.next_token, (wall_ms // 1000) << 21)
            self.next_event = max(self.next_event, (wall_ms // 1000) << 21)
            if self.grants_from:
                self.wait_for_holders()
        return [OK, self.cluster_id, self.next_token]

    def end_for_restore(self, lease_ms: int) -> list[Any]:
        for lease in sorted(self.leases, key=lambda lease: (self.ends(lease), lease.token)):
            if self.ends(lease) > self.now:
                self.remove(lease, FREED)
            else:
                self.expire(lease)
        self.sessions = {}
        self.cluster_id, self.longest_ms = b"", max(self.longest_ms, lease_ms)
        self.wait_for_holders()
        return [OK, self.grants_from - self.now]

    def wait_for_holders(self) -> None:
        self.grants_from = max(self.grants_from, self.now + self.longest_ms)

    def format_level(self, level: int) -> list[Any]:
        self.level = max(self.level, level)
        return [OK, self.level]

    # State

    def snapshot(self) -> bytes:
        sessions = [
            [s.id, s.deadline, s.lease_ms, s.revoked_count, s.node_id] for _, s in sorted(self.sessions.items())
        ]
        leases = [
            [
                lease.acq_id, lease.name, lease.slot, lease.token, lease.granted, lease.deadline, lease.lease_ms, lease.min_ms,
                lease.max_leaders, lease.session, lease.revoked + 2 * lease.dead, lease.node_id, lease.metadata,
            ]
            for lease in sorted(self.leases, key=lambda lease: lease.token)
        ]  # fmt: skip
        numbers = [self.level, self.epoch, self.now, self.next_token]
        head = [b"tenure table", *numbers, self.cluster_id, self.grants_from, self.longest_ms]
        return pack([*head, sessions, leases, *self.records_state(), self.candidates_state(), self.next_event])

    def restore(self, data: bytes) -> None:
        """Only what ``snapshot`` made: nothing is checked."""
        state, _ = decode(data)
        (self.level, self.epoch, self.now, self.next_token, self.cluster_id, self.grants_from, self.longest_ms) = state[1:8]
        self.sessions = {row[0]: Session(row[0], row[1], row[2], row[4], row[3]) for row in state[8]}
        self.leases = []
        for row in state[9]:
            lease = Lease(*row[:10], *row[11:])
            lease.revoked, lease.dead = bool(row[10] & 1), bool(row[10] & 2)
            self.leases.append(lease)
        self.restore_records(*state[10:13])
        self.restore_candidates(state[13])
        self.next_event = state[14]
