"""A campaign goes on whatever becomes of the processes that play it, and says of each seed what happened."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sim import coverage
from tests.sim.__main__ import main
from tests.sim.campaign import Campaign, Outcome, conduct, outcomes
from tests.sim.crew import Crew

LIMIT_S = 10.0
PLAYER = """
import os, sys, time
from tests.sim import crew
def play(job):
    seed = job["seed"]
    if seed == 3:
        sys.stderr.write("the last words")
        sys.stderr.flush()
        os.kill(os.getpid(), 9)
    if seed == 5:
        time.sleep(60)
    return {"seed": seed, "seconds": 1.5, "counts": {"granted": 2}}
crew.serve(play)
"""


def jobs(*seeds: int) -> Iterator[dict[str, Any]]:
    return iter([{"seed": seed} for seed in seeds])


def test_a_player_that_dies_or_hangs_fails_its_seed_and_the_campaign_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = Campaign(tmp_path / "results.jsonl")
    player = [sys.executable, "-c", PLAYER]
    conduct(campaign, outcomes(jobs(*range(12)), 2, LIMIT_S, player), 20.0, 0, "all", float("inf"))
    assert campaign.played == set(range(12))
    assert sorted(campaign.failed) == [3, 5]
    assert campaign.simulated == pytest.approx(15.0)
    told = capsys.readouterr().out
    assert "seed 3 FAILED; again: python -m tests.sim --seed 3 " in told
    assert "it died (status -9): the last words" in told
    assert f"no answer for {LIMIT_S:g} s" in told


def test_a_campaign_goes_on_from_its_file(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    first = Campaign(results)
    for seed in (0, 1, 4):
        first.add(Outcome(seed, 2.0, {"granted": 1}, failure="bad" if seed == 1 else ""))
    second = Campaign(results)
    assert list(second.seeds(0, 6)) == [2, 3, 5]
    assert second.failed == [1]
    assert second.counts == {"granted": 3}
    assert second.summary() == first.summary()
    assert "3 seeds" in second.progress(0, 0.0, 1.0)


@pytest.mark.timeout(300)
def test_hours_end_and_leave_results_that_a_process_gives_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    options = ["--results", str(results), "--seconds", "2", "--workers", "1"]
    assert main([*options, "--hours", "0.0001"]) == 0
    told = capsys.readouterr().out
    assert "not covered: " in told
    assert "0 failed" in told
    played = Campaign(results)
    assert 0 in played.played
    alone = next(iter(outcomes(iter([{"seed": 0, "seconds": 2.0, "nodes": 0, "history": "", "work": "all"}]), 0, LIMIT_S)))
    assert alone.fingerprint in results.read_text()


@pytest.mark.fast
def test_children_end_when_nobody_waits_any_more() -> None:
    run = Crew([sys.executable, "-c", PLAYER], 1, 60.0).run(jobs(1, 5))
    assert next(run).answer["seed"] == 1
    run.close()


@pytest.mark.fast
def test_what_never_came_while_something_was_at_stake_is_not_covered() -> None:
    everything = coverage.not_covered(Counter())
    assert {"crash of a leader", "wall clock step", "pause during election", "member removed of a leader"} <= set(everything)
    assert not {"wall clock step of a leader", "member added of a leader", "member removed"} & set(everything)
    idle = Counter({"fault crash: leader": 5, "fault wall clock step: ": 5, "fault power cut: leader held": 1})
    missing = coverage.not_covered(idle)
    assert set(everything) - set(missing) == {"power cut of a leader"}, "a fault of which nobody could be the victim does not count"
    met = Counter({"fault crash: leader held": 1, "fault wall clock step: held": 1, "fault pause: follower election": 1})
    assert set(everything) - set(coverage.not_covered(met)) == {"crash of a leader", "wall clock step", "pause during election"}


@pytest.mark.fast
def test_the_table_of_coverage_has_every_kind() -> None:
    counts = Counter({"fault crash: leader held": 2, "fault crash: follower election": 3, "granted": 7})
    lines = coverage.table(counts).splitlines()
    row = next(line for line in lines if line.startswith("crash "))
    assert row.split() == ["crash", "5", "2", "3", "0", "0", "3", "0", "2"]
    assert any(line.startswith("wipe ") for line in lines)
    assert lines[-1].split() == ["7", "granted"]
