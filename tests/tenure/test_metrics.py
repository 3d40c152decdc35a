"""Metrics: each run is counted once, under how it ended, and names are shown only where that was asked for (G1, G2).

Knows: the public electors and metrics. Must not know: how what is told travels. Every form at once: ``test_listeners.py``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from typing import Any

import prometheus_client
import pytest

import tenure
from tenure import UsageError
from tenure.listeners import flush
from tenure.metrics import COUNTERS, HISTOGRAMS, MemoryMetrics, PrometheusMetrics
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_forms import FORMS, Form, failing

pytestmark = pytest.mark.fast

CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)


@pytest.mark.parametrize("form", FORMS)
def test_who_gives_up_before_the_grant_is_counted_and_timed_as_such__G1(form: Form) -> None:
    metrics = MemoryMetrics()
    coordinator: Any = FakeCoordinator()
    coordinator.grant = lambda *_: failing(asyncio.CancelledError())
    with pytest.raises(CANCELLED):
        form(coordinator, {"metrics": metrics}, lambda: 5)
    assert flush(20)
    assert metrics.counted("elections", result="given_up") == metrics.counted("elections") == 1
    assert metrics.observed("wait_seconds", result="given_up").count == 1
    assert metrics.counted("runs") == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_cancelled_run_is_no_failed_one_and_none_leads_for_ever__G1(form: Form) -> None:
    metrics = MemoryMetrics()
    coordinator: Any = FakeCoordinator()
    with pytest.raises(CANCELLED):
        form(coordinator, {"metrics": metrics}, lambda: failing(asyncio.CancelledError()))
    assert flush(20)
    assert metrics.counted("runs", result="cancelled") == metrics.counted("runs") == 1
    # How many lead now: none.
    assert metrics.counted("elections", result="elected") - metrics.counted("runs") == 0
    assert metrics.observed("held_seconds").count == 1


def test_prometheus_shows_what_was_counted_and_no_name__G2() -> None:
    registry = prometheus_client.CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    coordinator: Any = FakeCoordinator()
    elector = tenure.LeaderElector(coordinator, metrics=metrics)
    elector.run_if_leader("job", lambda: 5)
    with pytest.raises(tenure.LeaseLostError):
        elector.run_if_leader("job", lambda: coordinator.lose("job"))
    assert flush(20)
    text = metrics.text().decode()
    assert 'tenure_elections_total{result="elected"} 2.0' in text
    assert 'tenure_lost_total{reason="expired"} 1.0' in text
    assert "tenure_held_seconds_count 2.0" in text
    assert "tenure_unled_total 0.0" in text
    assert "job" not in text


@pytest.mark.parametrize(
    ("names", "shown"),
    [("all", "job/7"), ("hash", "0d0c91d3"), ({"job/7"}, "job/7"), (["job"], "(other names)"), ((), "(other names)")],
)
def test_prometheus_shows_names_as_it_was_asked_to__G2(names: Any, shown: str) -> None:
    metrics = PrometheusMetrics(prometheus_client.CollectorRegistry(), names=names)
    coordinator: Any = FakeCoordinator()
    tenure.LeaderElector(coordinator, metrics=metrics).run_if_leader("job/7", lambda: 5)
    assert flush(20)
    text = metrics.text().decode()
    assert f'tenure_runs_total{{name="{shown}",result="completed"}} 1.0' in text
    assert f'tenure_held_seconds_count{{name="{shown}"}} 1.0' in text
    assert ("job" in text) == (shown == "job/7")


@pytest.mark.parametrize("names", ["none", True, 7, [7], None])
def test_other_ways_to_show_names_are_refused(names: Any) -> None:
    with pytest.raises(UsageError, match="names"):
        PrometheusMetrics(prometheus_client.CollectorRegistry(), names=names)


@pytest.mark.parametrize("registry", [5, "tenure", prometheus_client.CollectorRegistry])
def test_what_is_no_registry_is_refused(registry: Any) -> None:
    with pytest.raises(UsageError, match="registry is"):
        PrometheusMetrics(registry)


def test_prometheus_without_its_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match=r"tenure\[prometheus\]"):
        PrometheusMetrics()


def test_every_metric_has_its_labels_named() -> None:
    kinds = {**COUNTERS, **HISTOGRAMS}
    assert all("name" in labels and says.endswith(".") for labels, says in kinds.values())
    metrics = MemoryMetrics()
    with pytest.raises(UsageError, match="held_seconds"):
        metrics.observed("elections")
    with pytest.raises(UsageError, match="elections"):
        metrics.counted("held_seconds")
    # Never a silent 0 for a word that is misspelt.
    with pytest.raises(UsageError, match="no label 'reslt'"):
        metrics.counted("elections", reslt="elected")
    with pytest.raises(UsageError, match="no label 'result'"):
        metrics.observed("held_seconds", result="elected")
