"""Strategies: which candidate is to lead.

Knows: one view of a name's candidates. Must not know: clocks, random sources, the network, leases. A strategy is a pure function of the
view: all who look at the same view choose the same candidate, and can say why.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from cluster.client import CandidateInfo, Candidates
from cluster.errors import UsageError
from tenure.scorers import Scorer, is_scorer

_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """Who is to lead, and why.

    Attributes:
        winner: its node id; None: nobody can be elected.
        scores: by node id, the best first: the order in which candidates may claim the name. Higher is better.
        eliminations: by node id, why a candidate cannot be elected.
    """

    winner: str | None
    scores: Mapping[str, float] = field(default_factory=dict)
    eliminations: Mapping[str, str] = field(default_factory=dict)

    def place_of(self, node_id: str) -> int | None:
        """0 for the winner, 1 for who comes next …; None: not elected, or no candidate."""
        return next((place for place, scored in enumerate(self.scores) if scored == node_id), None)


class Strategy(Protocol):
    """Anything that elects, the same for the same view."""

    def elect(self, candidates: Candidates, /) -> ElectionResult: ...


class _Scoring(ABC):
    """The common way: a number for each candidate, the highest wins; ties by (registered_at, node_id)."""

    def elect(self, candidates: Candidates, /) -> ElectionResult:
        """Choose. What has no finite number, or whose scoring raised, is not elected, and ``eliminations`` says why.

        >>> first, second = CandidateInfo("b", registered_at=1.0), CandidateInfo("a", registered_at=5.0)
        >>> FifoStrategy().elect(Candidates("job", 2, 9.0, 0, (first, second)))
        ElectionResult(winner='b', scores={'b': -1.0, 'a': -5.0}, eliminations={})
        """
        scored: list[tuple[float, float, str]] = []
        eliminations: dict[str, str] = {}
        for candidate in candidates:
            try:
                score = self._score(candidate, candidates)
            except Exception as error:
                eliminations[candidate.node_id] = f"scoring raised {type(error).__name__}: {error}"
                continue
            why = _not_a_score(score)
            if why:
                eliminations[candidate.node_id] = why
            else:
                scored.append((-score, candidate.registered_at, candidate.node_id))
        scored.sort()
        # 0.0 - x, so that no score is shown as -0.0.
        scores = {node_id: 0.0 - negative for negative, _, node_id in scored}
        return ElectionResult(next(iter(scores), None), scores, eliminations)

    @abstractmethod
    def _score(self, candidate: CandidateInfo, candidates: Candidates) -> float: ...


def _not_a_score(score: object) -> str:
    """Why this cannot be compared with others' scores; empty if it can."""
    if isinstance(score, bool) or not isinstance(score, (int, float)):
        return f"its score is {type(score).__name__}, no number"
    try:
        return "" if math.isfinite(score) else f"its score is {float(score)}"
    except OverflowError:
        return "its score is too large for a float"


@dataclass(frozen=True)
class FifoStrategy(_Scoring):
    """Who registered first. Scores are ``-registered_at``."""

    def _score(self, candidate: CandidateInfo, candidates: Candidates) -> float:
        return -candidate.registered_at


@dataclass(frozen=True)
class RankedStrategy(_Scoring):
    """The lowest rank. Scores are ``-rank``."""

    def _score(self, candidate: CandidateInfo, candidates: Candidates) -> float:
        return -candidate.rank


@dataclass(frozen=True)
class RandomStrategy(_Scoring):
    """Any candidate with the same chance, another draw after every grant and every change of the registry.

    Args:
        seed: None: drawn from the name, the registry's revision and the name's last token, so that all who see one view agree. With a
            seed: from the seed alone, the same order of node ids each time.
    """

    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and type(self.seed) is not int:
            raise UsageError(
                f"seed must be an int, not {type(self.seed).__name__}", "leave it out for a new draw each time"
            )

    def _score(self, candidate: CandidateInfo, candidates: Candidates) -> float:
        return _draw(candidate, candidates, self.seed)


@dataclass(frozen=True)
class WeightedRandomStrategy(_Scoring):
    """A draw in which chances are in proportion to weights; who has the weight 0 is not elected.

    Drawn from the name, the registry's revision and its last token. The order of all is one of draws without putting back
    (Efraimidis and Spirakis, "Weighted random sampling with a reservoir").
    """

    def _score(self, candidate: CandidateInfo, candidates: Candidates) -> float:
        weight = candidate.weight
        if not weight > 0 or math.isinf(weight):
            raise ValueError(f"its weight is {weight}, not above 0 and finite")
        return math.log(_draw(candidate, candidates, None)) / weight


@dataclass(frozen=True)
class ScoredStrategy(_Scoring):
    """The highest number of a scorer.

    Args:
        scorer: a callable ``(candidate, cluster_time) -> number`` that is pure: see ``tenure.scorers``.
    """

    scorer: Scorer

    def __post_init__(self) -> None:
        if not is_scorer(self.scorer):
            shown = f"the class {self.scorer.__name__}" if isinstance(self.scorer, type) else type(self.scorer).__name__
            raise UsageError(f"scorer is {shown}, no scorer", "give a scorer such as SuccessRateScorer()")

    def _score(self, candidate: CandidateInfo, candidates: Candidates) -> float:
        return self.scorer(candidate, candidates.cluster_time)


def _draw(candidate: CandidateInfo, candidates: Candidates, seed: int | None) -> float:
    """A number between 0 and 1, neither included, that nobody can choose and everybody can compute."""
    what = f"{candidates.name} {candidates.revision} {candidates.last_token}" if seed is None else f"seed {seed}"
    digest = hashlib.blake2b(
        f"{what} {candidate.node_id}".encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES
    ).digest()
    # 52 bits and a half: exact in a float, and never 0 or 1.
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / 2**52
