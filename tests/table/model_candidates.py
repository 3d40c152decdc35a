"""The rules of candidates as they are written; a part of ``model.Model``.

Knows: CANDIDATE_REGISTER, CANDIDATE_REFRESH, CANDIDATE_UNREGISTER, what ELECT asks besides an acquisition. Must not know: leases, but for
the node id and the token of one that was granted or released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from cluster import limits

OK, NOT_HELD, LIMIT, VERSION_DIFFERS, NOT_YOUR_TURN = 0, 2, 7, 10, 12
COMPLETED, FAILED, LOST = 1, 2, 3


@dataclass(eq=False)
class Candidate:
    node_id: bytes
    number: int
    deadline: int
    registered: int
    info: bytes
    last_start: int | None = None
    last_completion: int | None = None
    successes: int = 0
    failures: int = 0


@dataclass(eq=False)
class Roster:
    revision: int = 0
    last_token: int = 0
    open_since: int | None = None
    candidates: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True)
class Claim:
    """What an ELECT carries besides an acquisition."""

    revision: int
    count: int
    place: int
    claim_ms: int


class CandidateRules(ABC):
    """Each rule has its own method, so that a test can break one."""

    now: int
    next_token: int

    def __init__(
        self, *, candidates_max: int = limits.CANDIDATES_MAX, candidates_bytes_max: int = limits.CANDIDATES_MAX_BYTES
    ) -> None:
        self.candidates_max, self.candidates_bytes_max = candidates_max, candidates_bytes_max
        self.rosters: dict[bytes, Roster] = {}

    @abstractmethod
    def new_token(self) -> int: ...

    def candidate_register(self, name: bytes, node_id: bytes, ttl_ms: int, info: bytes) -> list[Any]:
        self.prune(name)
        candidate = self.standing(name, node_id)
        if candidate is None:
            return self.register_anew(name, node_id, ttl_ms, info)
        if candidate.info != info:
            limit = self.candidate_limit(name, 0, len(info) - len(candidate.info))
            if limit:
                return limit
            candidate.info = info
            self.rosters[name].revision = self.new_token()
        return self.prolong(name, candidate, ttl_ms)

    def register_anew(self, name: bytes, node_id: bytes, ttl_ms: int, info: bytes) -> list[Any]:
        more = len(node_id) + len(info) + (0 if name in self.rosters else len(name))
        limit = self.candidate_limit(name, 1, more)
        if limit:
            return limit
        number = self.new_token()
        roster = self.rosters.setdefault(name, Roster())
        roster.candidates.append(Candidate(node_id, number, self.now + ttl_ms, self.now, info))
        roster.revision = number
        return [OK, number]

    def candidate_refresh(self, name: bytes, node_id: bytes, ttl_ms: int) -> list[Any]:
        candidate = self.standing(name, node_id)
        return [NOT_HELD] if candidate is None else self.prolong(name, candidate, ttl_ms)

    def prolong(self, name: bytes, candidate: Candidate, ttl_ms: int) -> list[Any]:
        candidate.deadline = max(candidate.deadline, self.now + ttl_ms)
        return [OK, self.rosters[name].revision]

    def candidate_unregister(self, name: bytes, node_id: bytes) -> list[Any]:
        candidate = self.standing(name, node_id)
        if candidate:
            self.rosters[name].candidates.remove(candidate)
            self.prune(name)
            if name in self.rosters and self.next_token <= limits.TOKEN_MAX:
                self.rosters[name].revision = self.new_token()
        return [OK]

    def living(self, name: bytes) -> list[Candidate]:
        roster = self.rosters.get(name)
        return [c for c in roster.candidates if c.deadline > self.now] if roster else []

    def standing(self, name: bytes, node_id: bytes) -> Candidate | None:
        return next((c for c in self.living(name) if c.node_id == node_id), None)

    def prune(self, name: bytes) -> None:
        if name in self.rosters:
            self.rosters[name].candidates = self.living(name)
            if not self.rosters[name].candidates:
                del self.rosters[name]

    def candidate_limit(self, name: bytes, more: int, more_bytes: int) -> list[Any] | None:
        if self.next_token > limits.TOKEN_MAX:
            return [LIMIT, 3]
        if len(self.living(name)) + more > limits.CANDIDATES_PER_NAME_MAX:
            return [LIMIT, 9]
        if self.over_candidate_limit(more, more_bytes):
            for other in list(self.rosters):
                self.prune(other)
        limit = self.over_candidate_limit(more, more_bytes)
        return [LIMIT, limit] if limit else None

    def over_candidate_limit(self, more: int, more_bytes: int) -> int:
        everybody = [c for roster in self.rosters.values() for c in roster.candidates]
        if len(everybody) + more > self.candidates_max:
            return 7
        size = sum(map(len, self.rosters)) + sum(len(c.node_id) + len(c.info) for c in everybody)
        return 8 if size + more_bytes > self.candidates_bytes_max else 0

    def claim_refusal(self, name: bytes, node_id: bytes, claim: Claim) -> list[Any] | None:
        if self.standing(name, node_id) is None:
            return [NOT_HELD]
        roster = self.rosters[name]
        if roster.open_since is None:
            roster.open_since = self.now
        if not self.is_the_view(name, claim):
            return [VERSION_DIFFERS, roster.revision]
        turn = roster.open_since + claim.place * claim.claim_ms
        return [NOT_YOUR_TURN, turn - self.now] if turn > self.now else None

    def is_the_view(self, name: bytes, claim: Claim) -> bool:
        return (claim.revision, claim.count) == (self.rosters[name].revision, len(self.living(name)))

    def note_start(self, name: bytes, node_id: bytes, token: int) -> None:
        roster = self.rosters.get(name)
        if roster is None:
            return
        roster.revision, roster.last_token, roster.open_since = token, token, None
        candidate = self.standing(name, node_id)
        if candidate:
            candidate.last_start = self.now

    def count_outcome(self, name: bytes, node_id: bytes, token: int, outcome: int) -> None:
        candidate = self.counting(name, node_id, token)
        if candidate is None or outcome == 0 or self.next_token > limits.TOKEN_MAX:
            return
        candidate.last_completion = self.now
        candidate.successes += outcome == COMPLETED
        candidate.failures += outcome in (FAILED, LOST)
        self.rosters[name].revision = self.new_token()

    def counting(self, name: bytes, node_id: bytes, token: int) -> Candidate | None:
        """Of whom the outcome of a lease is: not of one that registered after the grant."""
        candidate = self.standing(name, node_id)
        return candidate if candidate and candidate.number < token else None

    def candidates_state(self) -> list[Any]:
        return [
            [name, roster.revision, roster.last_token, roster.open_since, [
                [c.node_id, c.number, c.deadline, c.registered, c.last_start, c.last_completion, c.successes, c.failures, c.info]
                for c in roster.candidates
            ]]
            for name, roster in sorted(self.rosters.items(), key=lambda item: item[1].revision)
        ]  # fmt: skip

    def restore_candidates(self, state: list[Any]) -> None:
        self.rosters = {
            row[0]: Roster(row[1], row[2], row[3], [Candidate(c[0], c[1], c[2], c[3], c[8], *c[4:8]) for c in row[4]]) for row in state
        }
