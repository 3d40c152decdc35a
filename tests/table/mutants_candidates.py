"""Models that are wrong in one rule of candidates each; see ``mutants``.

Knows: the model's methods. Must not know: how a mistake is found.
"""

from __future__ import annotations

from typing import Any

from tests.table.model import Model
from tests.table.model_candidates import Candidate, Claim


class RegisteringAgainWipesCounters(Model):
    def candidate_register(self, name: bytes, node_id: bytes, ttl_ms: int, info: bytes) -> list[Any]:
        candidate = self.standing(name, node_id)
        if candidate:
            candidate.successes = candidate.failures = 0
        return super().candidate_register(name, node_id, ttl_ms, info)


class RegisteringAgainMovesToTheEnd(Model):
    def candidate_register(self, name: bytes, node_id: bytes, ttl_ms: int, info: bytes) -> list[Any]:
        candidate = self.standing(name, node_id)
        if candidate:
            candidate.registered = self.now
        return super().candidate_register(name, node_id, ttl_ms, info)


class RefreshIsAChange(Model):
    def candidate_refresh(self, name: bytes, node_id: bytes, ttl_ms: int) -> list[Any]:
        answer = super().candidate_refresh(name, node_id, ttl_ms)
        if answer[0] == 0:
            self.rosters[name].revision = self.new_token()
        return answer


class RefreshRevives(Model):
    def candidate_refresh(self, name: bytes, node_id: bytes, ttl_ms: int) -> list[Any]:
        for candidate in self.rosters[name].candidates if name in self.rosters else []:
            if candidate.node_id == node_id:
                return self.prolong(name, candidate, ttl_ms)
        return super().candidate_refresh(name, node_id, ttl_ms)


class RefreshShortens(Model):
    def prolong(self, name: bytes, candidate: Candidate, ttl_ms: int) -> list[Any]:
        candidate.deadline = self.now + ttl_ms
        return super().prolong(name, candidate, 0)


class StandsUntilPruned(Model):
    def living(self, name: bytes) -> list[Candidate]:
        roster = self.rosters.get(name)
        return list(roster.candidates) if roster else []


class RevisionUnchecked(Model):
    def is_the_view(self, name: bytes, claim: Claim) -> bool:
        return claim.count == len(self.living(name))


class WhoRanOutIsNotMissed(Model):
    def is_the_view(self, name: bytes, claim: Claim) -> bool:
        return claim.revision == self.rosters[name].revision


class EveryTurnIsNow(Model):
    def claim_refusal(self, name: bytes, node_id: bytes, claim: Claim) -> list[Any] | None:
        return super().claim_refusal(name, node_id, Claim(claim.revision, claim.count, 0, 0))


class StrangersClaim(Model):
    def claim_refusal(self, name: bytes, node_id: bytes, claim: Claim) -> list[Any] | None:
        refusal = super().claim_refusal(name, node_id, claim)
        return None if refusal == [2] else refusal


class ElectionsStayOpen(Model):
    def note_start(self, name: bytes, node_id: bytes, token: int) -> None:
        before = self.rosters[name].open_since if name in self.rosters else None
        super().note_start(name, node_id, token)
        if name in self.rosters:
            self.rosters[name].open_since = before


class GrantIsNoChange(Model):
    def note_start(self, name: bytes, node_id: bytes, token: int) -> None:
        before = self.rosters[name].revision if name in self.rosters else 0
        super().note_start(name, node_id, token)
        if name in self.rosters:
            self.rosters[name].revision = before


class OutcomeIsNoChange(Model):
    def count_outcome(self, name: bytes, node_id: bytes, token: int, outcome: int) -> None:
        before = self.rosters[name].revision if name in self.rosters else 0
        super().count_outcome(name, node_id, token, outcome)
        if name in self.rosters:
            self.rosters[name].revision = before


class OutcomeOfAnEarlierLifeCounts(Model):
    def counting(self, name: bytes, node_id: bytes, token: int) -> Candidate | None:
        return self.standing(name, node_id)


class LateOutcomeRevives(Model):
    def counting(self, name: bytes, node_id: bytes, token: int) -> Candidate | None:
        for candidate in self.rosters[name].candidates if name in self.rosters else []:
            if candidate.node_id == node_id:
                candidate.deadline = max(candidate.deadline, self.now + 100)
        return super().counting(name, node_id, token)


class SecondReleaseCounts(Model):
    def release(self, acq_id: bytes, name: bytes, token: int, outcome: int) -> list[Any]:
        lease = self.holder(acq_id, name, token)
        if lease and lease.dead:
            self.count_outcome(name, lease.node_id, token, outcome)
        return super().release(acq_id, name, token, outcome)


# Which a witness alone must find, and what it then says.
BREAKS_AN_INVARIANT: dict[type[Model], str] = {
    RegisteringAgainWipesCounters: "F5: counters were wiped",
    RegisteringAgainMovesToTheEnd: "F5: it registered anew and kept its number",
    RefreshRevives: "F5: revived",
    LateOutcomeRevives: "F5: revived",
    RefreshShortens: "a candidate's time was shortened",
    RevisionUnchecked: "F4: granted against another view",
    WhoRanOutIsNotMissed: "F4: granted against another view",
    EveryTurnIsNow: "F4: granted before its turn",
    StrangersClaim: "F4: granted to who does not stand",
    GrantIsNoChange: "F4: a grant was no change",
    OutcomeIsNoChange: "F4: one revision, two views",
}

ALL: list[type[Model]] = sorted(
    (mutant for mutant in Model.__subclasses__() if mutant.__module__ == __name__), key=lambda mutant: mutant.__name__
)
