"""The judge of the demo must first convict the guilty: overlaps, falling tokens, unfinished runs.

Knows: runs and verdicts. Must not know: where runs come from.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.cli.runs import Run, RunLog, judge, read_runs

pytestmark = pytest.mark.fast


def test_runs_one_after_the_other_are_good__I1_I2() -> None:
    verdict = judge([Run(2, 12, 2.0, 3.0), Run(1, 11, 1.0, 2.0), Run(1, 13, 3.5, 4.0)])
    assert verdict.good


def test_two_runs_at_the_same_time_are_found__I1() -> None:
    verdict = judge([Run(1, 11, 1.0, 2.0), Run(2, 12, 1.9, 3.0)])
    assert [(a.token, b.token) for a, b in verdict.overlaps] == [(11, 12)]
    assert not verdict.good


def test_a_short_run_inside_a_long_one_does_not_hide_the_next_overlap__I1() -> None:
    verdict = judge([Run(1, 11, 1.0, 9.0), Run(2, 12, 2.0, 3.0), Run(3, 13, 5.0, 6.0)])
    assert [(a.token, b.token) for a, b in verdict.overlaps] == [(11, 12), (11, 13)]


def test_a_run_without_an_end_overlaps_whatever_follows__I1() -> None:
    verdict = judge([Run(1, 11, 1.0), Run(2, 12, 2.0, 3.0), Run(3, 13, 4.0, 5.0)])
    assert len(verdict.overlaps) == 2


@pytest.mark.parametrize("second", [11, 10])
def test_a_token_that_does_not_rise_is_found__I2(second: int) -> None:
    verdict = judge([Run(1, 11, 1.0, 2.0), Run(2, second, 2.5, 3.0)])
    assert [(a.token, b.token) for a, b in verdict.falls] == [(11, second)]


def test_a_log_reads_back_what_was_written(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "runs")
    log.begin(7)
    log.end(7)
    log.begin(9)
    log.close()
    first, second = read_runs(tmp_path / "runs", 3)
    assert (first.worker, first.token, second.token) == (3, 7, 9)
    assert first.end is not None
    assert first.start <= first.end <= second.start
    assert second.end is None


def test_a_missing_log_has_no_runs(tmp_path: Path) -> None:
    assert read_runs(tmp_path / "none", 1) == []
