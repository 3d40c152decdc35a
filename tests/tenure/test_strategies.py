"""Strategies and scorers: pure, agreed on by all who see the same view, and never electing what cannot be compared (F5)."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tenure
from tenure import CandidateInfo, Candidates, ElectionResult
from tenure.scorers import Scorer

pytestmark = pytest.mark.fast

STRATEGIES: list[tenure.Strategy] = [
    tenure.FifoStrategy(),
    tenure.RankedStrategy(),
    tenure.RandomStrategy(),
    tenure.RandomStrategy(seed=7),
    tenure.WeightedRandomStrategy(),
    tenure.ScoredStrategy(tenure.SuccessRateScorer()),
    tenure.ScoredStrategy(tenure.IdleTimeScorer()),
    tenure.ScoredStrategy(tenure.RecentSuccessScorer()),
    tenure.ScoredStrategy(tenure.WeightScorer()),
    tenure.ScoredStrategy(tenure.WeightedScorer((tenure.WeightScorer(), 2.0), (tenure.IdleTimeScorer(), -0.5))),
]

times = st.integers(0, 10**9).map(lambda ms: ms / 1000)
infos = st.builds(
    CandidateInfo,
    st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=1, max_size=5),
    weight=st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0, 1e300, math.nan, math.inf, -1.0]),
    rank=st.integers(-3, 3),
    registered_at=times,
    last_start=st.none() | times,
    last_completion=st.none() | times,
    success_count=st.integers(0, 2**53),
    failure_count=st.integers(0, 2**53),
)
views = st.builds(
    Candidates,
    st.just("job"),
    st.integers(1, 2**53),
    times,
    st.integers(0, 2**53),
    st.lists(infos, unique_by=lambda info: info.node_id, max_size=6).map(tuple),
)


def view(*candidates: CandidateInfo, revision: int = 1, last_token: int = 0) -> Candidates:
    return Candidates("job", revision, 100.0, last_token, candidates)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@given(views, st.randoms(use_true_random=False))
@settings(max_examples=30, derandomize=True, database=None, deadline=None)
def test_every_strategy_keeps_the_common_rules(
    strategy: tenure.Strategy, candidates: Candidates, rng: random.Random
) -> None:
    result = strategy.elect(candidates)
    everybody = {info.node_id: info for info in candidates}
    assert set(result.scores) | set(result.eliminations) == set(everybody)
    assert not set(result.scores) & set(result.eliminations)
    assert all(math.isfinite(score) for score in result.scores.values()), "NaN and infinities are not elected"
    assert result.winner == next(iter(result.scores), None)
    order = [(-score, everybody[who].registered_at, who) for who, score in result.scores.items()]
    assert order == sorted(order), "the best first, ties by (registered_at, node_id)"
    assert [result.place_of(who) for who in result.scores] == list(range(len(order)))
    shuffled = list(candidates.infos)
    rng.shuffle(shuffled)
    again = strategy.elect(replace(candidates, infos=tuple(shuffled)))
    assert again == result, "who sees the same candidates elects the same"
    assert list(again.scores) == list(result.scores)


def test_ties_go_to_who_registered_first_then_to_the_smaller_node_id() -> None:
    late = CandidateInfo("a", registered_at=9.0)
    early = [CandidateInfo(who, registered_at=3.0) for who in ("c", "b")]
    result = tenure.RankedStrategy().elect(view(late, *early))
    assert list(result.scores) == ["b", "c", "a"]


def test_nobody_stands() -> None:
    for strategy in STRATEGIES:
        assert strategy.elect(view()) == ElectionResult(None, {}, {})


@pytest.mark.parametrize(
    ("score", "why"),
    [
        (math.nan, "its score is nan"),
        (math.inf, "its score is inf"),
        (-math.inf, "its score is -inf"),
        (10**400, "its score is too large for a float"),
        ("9", "its score is str, no number"),
        (None, "its score is NoneType, no number"),
        (True, "its score is bool, no number"),
    ],
)
def test_what_cannot_be_compared_is_eliminated_with_the_reason__F5(score: Any, why: str) -> None:
    strategy = tenure.ScoredStrategy(lambda candidate, now: score if candidate.node_id == "bad" else 1.0)
    result = strategy.elect(view(CandidateInfo("bad"), CandidateInfo("good", registered_at=50.0)))
    assert result == ElectionResult("good", {"good": 1.0}, {"bad": why})


def test_a_scorer_that_raises_eliminates_whom_it_raised_for__F5() -> None:
    def scorer(candidate: CandidateInfo, now: float) -> float:
        if candidate.node_id != "good":
            raise KeyError("no such load")
        return 1.0

    result = tenure.ScoredStrategy(scorer).elect(view(CandidateInfo("bad"), CandidateInfo("good")))
    assert result.winner == "good"
    assert result.eliminations == {"bad": "scoring raised KeyError: 'no such load'"}
    assert tenure.ScoredStrategy(scorer).elect(view(CandidateInfo("bad"))).winner is None


def test_what_interrupts_a_scorer_is_no_elimination() -> None:
    def scorer(candidate: CandidateInfo, now: float) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tenure.ScoredStrategy(scorer).elect(view(CandidateInfo("a")))


def test_a_random_draw_changes_with_the_view_unless_it_has_a_seed() -> None:
    crowd = [CandidateInfo(f"n{i}") for i in range(4)]
    drawn = {tenure.RandomStrategy().elect(view(*crowd, revision=revision)).winner for revision in range(50)}
    assert drawn == {"n0", "n1", "n2", "n3"}
    drawn = {tenure.RandomStrategy().elect(view(*crowd, last_token=token)).winner for token in range(50)}
    assert drawn == {"n0", "n1", "n2", "n3"}
    assert len({tenure.RandomStrategy(3).elect(view(*crowd, revision=revision)).winner for revision in range(50)}) == 1
    assert len({tenure.RandomStrategy(seed).elect(view(*crowd)).winner for seed in range(50)}) == 4


def test_a_weighted_draw_is_in_proportion_and_leaves_out_the_weightless() -> None:
    crowd = [CandidateInfo("light"), CandidateInfo("heavy", weight=3.0), CandidateInfo("none", weight=0.0)]
    results = [tenure.WeightedRandomStrategy().elect(view(*crowd, revision=revision)) for revision in range(2_000)]
    assert 0.71 < sum(result.winner == "heavy" for result in results) / len(results) < 0.79
    assert all("not above 0" in result.eliminations["none"] for result in results)


def test_scorers_say_what_they_say() -> None:
    veteran = CandidateInfo(
        "v", weight=4.0, registered_at=10.0, last_start=60.0, last_completion=80.0, success_count=3, failure_count=1
    )
    novice = CandidateInfo("n", registered_at=90.0)
    busy = replace(veteran, last_start=95.0)
    assert tenure.SuccessRateScorer()(veteran, 100.0) == pytest.approx(4 / 6)
    assert tenure.SuccessRateScorer()(novice, 100.0) == 0.5
    assert [tenure.IdleTimeScorer()(who, 100.0) for who in (veteran, novice, busy)] == [20.0, 10.0, 5.0]
    assert tenure.IdleTimeScorer()(novice, 80.0) == 0.0
    assert tenure.RecentSuccessScorer(20.0)(veteran, 100.0) == pytest.approx(4 / 6 / 2)
    assert tenure.RecentSuccessScorer()(novice, 100.0) == 0.0
    assert tenure.WeightScorer()(veteran, 100.0) == 4.0
    mixed = tenure.WeightedScorer((tenure.WeightScorer(), 2.0), (tenure.IdleTimeScorer(), -0.1))
    assert mixed(veteran, 100.0) == pytest.approx(6.0)


def _says(number: float) -> Scorer:
    return lambda candidate, cluster_time: number


@pytest.mark.parametrize(
    ("numbers", "total"),
    [
        ([0.1] * 10, 0.9999999999999999),
        ([1e16, 1.0, -1e16], 0.0),
        ([1e308, 1e308, -1e308], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([2**70, 1], 2**70 + 1),
    ],
)
def test_a_weighted_score_is_the_same_number_on_every_python__F5(numbers: list[float], total: float) -> None:
    scorer = tenure.WeightedScorer(*((_says(number), 1) for number in numbers))
    assert repr(scorer(CandidateInfo("a"), 0.0)) == repr(total)
    result = tenure.ScoredStrategy(scorer).elect(view(CandidateInfo("a")))
    assert (result.winner is not None) == math.isfinite(total)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: tenure.RecentSuccessScorer(0), "half_life=0 s"),
        (lambda: tenure.RecentSuccessScorer(math.inf), "half_life=inf s"),
        (lambda: tenure.RecentSuccessScorer(math.nan), "half_life=nan s"),
        (lambda: tenure.RecentSuccessScorer(10**400), "half_life=1000"),
        (lambda: tenure.WeightedScorer((tenure.WeightScorer(), 10**400)), "factor 1000"),
        (lambda: tenure.WeightedScorer((tenure.WeightScorer(), 10**5000)), "factor an int"),
        (lambda: tenure.WeightedScorer((tenure.WeightScorer, 1.0)), r"no \(scorer, factor\)"),  # type: ignore[arg-type]
        (lambda: tenure.ScoredStrategy(tenure.SuccessRateScorer), "scorer is the class"),  # type: ignore[arg-type]
        (tenure.WeightedScorer, "no parts"),
        (lambda: tenure.WeightedScorer((tenure.WeightScorer(), math.nan)), "factor nan"),
        (lambda: tenure.WeightedScorer((1, 2.0)), r"no \(scorer, factor\)"),  # type: ignore[arg-type]
        (lambda: tenure.ScoredStrategy(3), "scorer is int"),  # type: ignore[arg-type]
        (lambda: tenure.RandomStrategy(1.5), "seed must be an int, not float"),  # type: ignore[arg-type]
    ],
)
def test_a_bad_strategy_is_refused_where_it_is_written(make: Any, says: str) -> None:
    with pytest.raises(tenure.UsageError, match=says):
        make()
