"""Schedules: times that came while another was elected, that passed during a run, whose work would come late (D7).

Knows: the public decorator, the clock of schedules. Must not know: when times are (``test_schedules``), how a run goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import tenure
from tenure import ElectionOptions, RankedStrategy, leader_scheduled, schedules
from tenure._engine import Run
from tenure._ticks import AGAIN_MIN_MS, RETRY_MS, Plan
from tenure.testing import FakeCoordinator
from tests.support import eventually

pytestmark = pytest.mark.fast

HOUR_MS = 3_600_000
# 2026-12-01 00:00 UTC.
MIDNIGHT_MS = 1_796_083_200_000
MIDNIGHT = datetime(2026, 12, 1, tzinfo=timezone.utc)
WITHIN_S = 20.0

FORMS = pytest.mark.parametrize("form", ["blocking", "asyncio"])


def beside(
    form: str, elector: Any, function: Callable[[datetime], Any], check: Callable[[Any], object], **rhythm: Any
) -> None:
    """Run the schedule of ``function``, and meanwhile ``check``, which is given the schedule."""
    scheduled: Any = leader_scheduled(elector, "job", **rhythm)
    if form == "blocking":
        with scheduled(function) as schedule:
            check(schedule)
        return

    async def work(due: datetime) -> None:
        await asyncio.to_thread(function, due)

    async def main() -> None:
        async with scheduled(work) as schedule:
            await asyncio.to_thread(check, schedule)

    asyncio.run(main())


def test_who_waits_for_its_turn_asks_for_the_same_time_again() -> None:
    for catch_up in ("latest", "all", "none"):
        plan = Plan(3600, None, 0, catch_up)
        plan.begin(MIDNIGHT_MS - 1)
        now_ms = MIDNIGHT_MS + 5
        for in_ms, waits_ms in ((700, 700), (0, AGAIN_MIN_MS), (RETRY_MS + 1, RETRY_MS)):
            assert plan.due(None, now_ms) == MIDNIGHT_MS
            plan.again(now_ms, in_ms)
            assert plan.left_ms(now_ms) == waits_ms
            now_ms += waits_ms
        # The next time is not slept over.
        plan.again(MIDNIGHT_MS + HOUR_MS - 10, 700)
        assert plan.left_ms(MIDNIGHT_MS + HOUR_MS - 10) == 10


@FORMS
@pytest.mark.parametrize("catch_up", ["latest", "none"])
def test_a_time_is_run_for_when_the_winner_of_the_election_does_not_come(
    form: str, catch_up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.monotonic()
    monkeypatch.setattr(schedules, "_now_ms", lambda: MIDNIGHT_MS - 100 + round((time.monotonic() - began) * 1000))
    due: list[datetime] = []
    kind: Any = tenure.StrategicLeaderElector if form == "blocking" else tenure.AsyncStrategicLeaderElector
    with tenure.local() as coordinator, contextlib.ExitStack() as stack:
        # It stands, as one whose process has died does until its ``ttl`` is over, and never claims.
        coordinator.register_candidate("job", tenure.CandidateInfo("dead", rank=0), ttl=600)
        elector = kind(coordinator, ElectionOptions(node_id="me"), strategy=RankedStrategy(), rank=1, claim_timeout=0.2)
        stack.callback(elector.close)
        beside(form, elector, due.append, lambda _: eventually(lambda: due, WITHIN_S), every=3600, catch_up=catch_up)
    assert due == [MIDNIGHT]


def test_a_lease_that_is_lost_before_the_function_begins_leaves_the_time_to_be_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    began = time.monotonic()
    monkeypatch.setattr(schedules, "_now_ms", lambda: MIDNIGHT_MS - 100 + round((time.monotonic() - began) * 1000))
    monkeypatch.setattr(schedules, "RETRY_MS", 100)
    due: list[datetime] = []
    lost: list[bool] = []
    with FakeCoordinator(real_time=True) as coordinator:
        elector = tenure.LeaderElector(coordinator)
        may_begin = Run.may_begin

        def lost_once(run: Any) -> bool:
            if lost:
                return may_begin(run)
            lost.append(True)
            coordinator.lose("job")
            return may_begin(run)

        monkeypatch.setattr(Run, "may_begin", lost_once)
        with leader_scheduled(elector, "job", every=3600)(due.append):
            eventually(lambda: due, WITHIN_S)
    assert (due, lost) == ([MIDNIGHT], [True])


@pytest.mark.parametrize(("catch_up", "expected_h"), [("latest", 2), ("all", 1), ("none", None)])
def test_times_that_passed_during_a_run_are_missed(catch_up: Any, expected_h: int | None) -> None:
    plan = Plan(3600, None, 0, catch_up)
    plan.begin(MIDNIGHT_MS - 1)
    assert plan.due(None, MIDNIGHT_MS) == MIDNIGHT_MS
    ended = MIDNIGHT_MS + 2 * HOUR_MS + 5
    plan.ran(ended)
    expected = None if expected_h is None else MIDNIGHT_MS + expected_h * HOUR_MS
    assert plan.due(MIDNIGHT_MS, ended) == expected
    plan.sleep(ended, 0.0, failed=False)
    assert plan.left_ms(ended) == HOUR_MS - 5
    assert plan.due(ended - 5, MIDNIGHT_MS + 3 * HOUR_MS) == MIDNIGHT_MS + 3 * HOUR_MS


@FORMS
@pytest.mark.parametrize(("catch_up", "hours"), [("none", [0, 2]), ("latest", [0, 1, 2])])
def test_a_run_that_takes_long_is_made_up_for_or_not(
    form: str, catch_up: str, hours: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [MIDNIGHT_MS - 1]
    monkeypatch.setattr(schedules, "_now_ms", lambda: now[0])
    monkeypatch.setattr(schedules, "NAP_S", 0.01)
    due: list[datetime] = []

    def work(at: datetime) -> None:
        if not due:
            now[0] += HOUR_MS
        due.append(at)

    def check(schedule: Any) -> None:
        def rests() -> bool:
            left: int = schedule._plan.left_ms(now[0])
            return left > 0

        eventually(rests, WITHIN_S)
        now[0] += 6
        eventually(lambda: due and rests(), WITHIN_S)
        now[0] += HOUR_MS
        eventually(lambda: due[-1].hour == 2, WITHIN_S)

    kind: Any = tenure.LeaderElector if form == "blocking" else tenure.AsyncLeaderElector
    with tenure.local() as coordinator:
        beside(form, kind(coordinator), work, check, every=3600, catch_up=catch_up)
    assert due == [MIDNIGHT + timedelta(hours=hour) for hour in hours]


@pytest.mark.parametrize("returns", ["future", "coroutine"])
def test_work_that_would_come_after_the_lease_is_called_off_and_said(
    returns: str, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Any] = []
    called = threading.Event()

    async def coroutine(due: datetime) -> None:
        raise AssertionError("ran without a lease")

    @functools.wraps(coroutine)
    def wrapped(due: datetime) -> Any:
        made.append(coroutine(due))
        called.set()
        return made[-1]

    def begin(due: datetime) -> Any:
        made.append(Future())
        called.set()
        return made[-1]

    function = begin if returns == "future" else wrapped
    with tenure.local() as coordinator, leader_scheduled(tenure.LeaderElector(coordinator), "job", every=0.1)(function):
        assert called.wait(WITHIN_S)
        eventually(lambda: "schedule.failed name=job" in caplog.text, WITHIN_S)
    assert f"returned a {returns}" in caplog.text
    if returns == "future":
        assert all(future.cancelled() for future in made)


def test_a_callable_that_gives_an_async_schedule_nothing_to_await_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def main(coordinator: Any) -> None:
        # A lambda is judged by what it returns.
        nothing: Any = lambda due: None  # noqa: E731
        async with leader_scheduled(tenure.AsyncLeaderElector(coordinator), "job", every=0.1)(nothing):
            await asyncio.to_thread(eventually, lambda: "schedule.failed name=job" in caplog.text, WITHIN_S)

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))
    assert "nothing to await" in caplog.text
