"""Scorers: how good a candidate is, as a number.

Knows: what the cluster counted of one candidate, and the cluster time of the view. Must not know: other candidates, how a winner is
chosen, any clock. A scorer is a pure function, so that whoever asks with the same view gets the same numbers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from cluster.client import CandidateInfo, checks
from cluster.errors import UsageError

# A candidate and the view's cluster time in seconds; the higher the number the better.
Scorer: TypeAlias = Callable[[CandidateInfo, float], float]


@dataclass(frozen=True)
class SuccessRateScorer:
    """The share of runs that succeeded, between 0 and 1, as if each candidate had one success and one failure before: 0.5 for a new one.

    >>> SuccessRateScorer()(CandidateInfo("a", success_count=8, failure_count=0), 0.0)
    0.9
    """

    def __call__(self, candidate: CandidateInfo, cluster_time: float) -> float:
        return (candidate.success_count + 1) / (candidate.success_count + candidate.failure_count + 2)


@dataclass(frozen=True)
class IdleTimeScorer:
    """Seconds since the candidate last began or ended work, or since it registered: who has rested longest is best.

    >>> IdleTimeScorer()(CandidateInfo("a", registered_at=10.0, last_start=20.0, last_completion=25.0), 60.0)
    35.0
    """

    def __call__(self, candidate: CandidateInfo, cluster_time: float) -> float:
        marks = (candidate.registered_at, candidate.last_start, candidate.last_completion)
        return max(0.0, cluster_time - max(mark for mark in marks if mark is not None))


@dataclass(frozen=True)
class RecentSuccessScorer:
    """The success rate, halved after each ``half_life`` since the candidate last ended work; 0 for one that never did.

    Args:
        half_life: seconds, above 0.

    >>> RecentSuccessScorer(half_life=60)(CandidateInfo("a", last_completion=40.0, success_count=8), 100.0)
    0.45
    """

    half_life: float = 3600.0

    def __post_init__(self) -> None:
        if not _is_number(self.half_life) or not 0 < self.half_life <= sys.float_info.max:
            raise UsageError(f"half_life={checks.shown(self.half_life)} s is out of range", "give a number of seconds above 0")

    def __call__(self, candidate: CandidateInfo, cluster_time: float) -> float:
        if candidate.last_completion is None:
            return 0.0
        age_s = max(0.0, cluster_time - candidate.last_completion)
        return SuccessRateScorer()(candidate, cluster_time) * math.pow(0.5, age_s / self.half_life)


@dataclass(frozen=True)
class WeightScorer:
    """The candidate's own weight.

    >>> WeightScorer()(CandidateInfo("a", weight=2.5), 0.0)
    2.5
    """

    def __call__(self, candidate: CandidateInfo, cluster_time: float) -> float:
        return candidate.weight


class WeightedScorer:
    """The sum of other scorers' numbers, each times its factor, added in the order given.

    The numbers are not brought to one scale: rates are between 0 and 1, idle times are seconds, so choose factors accordingly.

    Args:
        parts: ``(scorer, factor)``, at least one; factors are finite numbers, negative ones too.

    >>> WeightedScorer((WeightScorer(), 2.0), (SuccessRateScorer(), 10.0))(CandidateInfo("a", weight=3.0), 0.0)
    11.0
    """

    def __init__(self, *parts: tuple[Scorer, float]) -> None:
        if not parts:
            raise UsageError("WeightedScorer has no parts", "give (scorer, factor) at least once")
        for part in parts:
            if not isinstance(part, tuple) or len(part) != 2 or not is_scorer(part[0]):
                raise UsageError(
                    f"the part {part!r} of WeightedScorer is no (scorer, factor)", "give a callable and a number"
                )
            if not _is_number(part[1]) or not abs(part[1]) <= sys.float_info.max:
                raise UsageError(
                    f"the factor {checks.shown(part[1])} of WeightedScorer is no finite number", "give a number such as 0.5"
                )
        self._parts = parts

    def __call__(self, candidate: CandidateInfo, cluster_time: float) -> float:
        # Not ``sum``, which rounds otherwise from Python 3.12 on: whoever has the same view must get the same number.
        total: float = 0
        for scorer, factor in self._parts:
            total += factor * scorer(candidate, cluster_time)
        return total

    def __repr__(self) -> str:
        return f"WeightedScorer({', '.join(map(repr, self._parts))})"


def is_scorer(value: object) -> bool:
    """A class, such as one whose brackets were forgotten, would give a scorer for a score."""
    return callable(value) and not isinstance(value, type)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
