"""Schedules: which time is run for, by whom, once; what is made up for (B6, D7).

Knows: the public decorator, the plan of one schedule. Must not know: how a run goes. Every coordinator:
``tests/contract/test_schedules.py``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import tenure
from cluster.limits import SCHEDULE_EVERY_MAX_MS, SCHEDULE_EVERY_MIN_MS, SCHEDULE_JITTER_MAX_MS
from tenure import UsageError, _ticks, leader_scheduled, schedules
from tenure._ticks import Every, Plan
from tenure.testing import FakeCoordinator
from tests.support import eventually
from tests.tenure.fake import FakeCoordinator as Unasked
from tests.tenure.support_tasks import waiting

pytestmark = pytest.mark.fast

HOUR_MS = 3_600_000
# 2026-12-01 00:00 UTC.
MIDNIGHT_MS = 1_796_083_200_000


def test_the_times_of_an_interval_are_its_multiples() -> None:
    ticks = Every(1000)
    assert [ticks.newest(at) for at in (5000, 5001, 5999)] == [5000] * 3
    assert [ticks.after(at) for at in (5000, 5001, 5999)] == [6000] * 3


def test_the_times_of_a_cron_expression_are_in_utc() -> None:
    pytest.importorskip("cronsim")
    ticks = _ticks.Cron("30 4 * * *")
    at = MIDNIGHT_MS + 4 * HOUR_MS + HOUR_MS // 2
    assert [ticks.after(MIDNIGHT_MS + 7), ticks.after(at - 1), ticks.after(at)] == [at, at, at + 24 * HOUR_MS]
    assert [ticks.newest(at + 5), ticks.newest(at), ticks.newest(at - 1)] == [at, at, at - 24 * HOUR_MS]


@pytest.mark.parametrize(
    ("catch_up", "last_h", "expected_h"),
    [
        ("latest", None, None),  # Nobody ran before: nothing was missed.
        ("latest", -5, 0),
        ("latest", 0, None),
        ("latest", 2, None),  # A clock that was ahead has run for it.
        ("all", None, None),
        ("all", -5, -4),
        ("all", 0, None),
        ("none", None, None),
        ("none", -5, None),
    ],
)
def test_what_is_due_at_the_start(catch_up: Any, last_h: int | None, expected_h: int | None) -> None:
    plan = Plan(3600, None, 0, catch_up)
    plan.begin(MIDNIGHT_MS + 5)
    last_ms = None if last_h is None else MIDNIGHT_MS + last_h * HOUR_MS
    expected = None if expected_h is None else MIDNIGHT_MS + expected_h * HOUR_MS
    assert plan.due(last_ms, MIDNIGHT_MS + 5) == expected


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_it_sleeps_until_the_next_time_and_runs_for_it(catch_up: Any) -> None:
    plan = Plan(3600, None, 60, catch_up)
    plan.begin(MIDNIGHT_MS)
    plan.sleep(MIDNIGHT_MS + 5, 0.5, failed=False)
    assert plan.left_ms(MIDNIGHT_MS + 5) == HOUR_MS - 5 + 30_000
    woken = MIDNIGHT_MS + HOUR_MS + 30_000
    assert plan.left_ms(woken) == 0
    assert plan.due(MIDNIGHT_MS, woken) == MIDNIGHT_MS + HOUR_MS
    # Nobody could be asked: asked again soon where it is made up for, else at the next time.
    plan.sleep(woken, 0.0, failed=True)
    again = _ticks.RETRY_MS if catch_up != "none" else HOUR_MS - 30_000
    assert plan.left_ms(woken) == again
    assert plan.due(MIDNIGHT_MS, woken + 1) == (None if catch_up == "none" else MIDNIGHT_MS + HOUR_MS)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "every="),
        ({"every": 1, "cron": "* * * * *"}, "cron="),
        ({"every": SCHEDULE_EVERY_MIN_MS / 1000 - 0.001}, "every=0.099 s"),
        ({"every": SCHEDULE_EVERY_MAX_MS / 1000 + 1}, "every="),
        ({"every": float("nan")}, "every"),
        ({"every": "1"}, "every"),
        ({"every": 1, "jitter": -1}, "jitter=-1 s"),
        ({"every": 1, "jitter": SCHEDULE_JITTER_MAX_MS / 1000 + 1}, "jitter="),
        ({"every": 1, "catch_up": "some"}, "catch_up='some'"),
        ({"every": 1, "name": "a b"}, "name"),
        ({"every": 1, "name": "a" * 247}, "record"),
        ({"every": 1, "elector": "group"}, "LeaderGroupElector"),
    ],
)
def test_what_makes_no_schedule_is_refused_at_once__B6(given: dict[str, Any], says: str) -> None:
    coordinator: Any = Unasked()
    grouped = given.pop("elector", None)
    elector: Any = (tenure.LeaderGroupElector if grouped else tenure.LeaderElector)(coordinator)
    with pytest.raises(UsageError, match=says):
        leader_scheduled(elector, **{"name": "job", **given})


@pytest.mark.parametrize("cron", ["", "a b c d e", "0 0 30 2 *", "60 * * * *", 7])
def test_a_bad_cron_expression_is_refused(cron: Any) -> None:
    pytest.importorskip("cronsim")
    coordinator: Any = Unasked()
    with pytest.raises(UsageError, match="cron"):
        leader_scheduled(tenure.LeaderElector(coordinator), "job", cron=cron)


def test_both_ends_of_the_ranges_are_taken__B6() -> None:
    coordinator: Any = Unasked()
    elector = tenure.LeaderElector(coordinator)
    jitter = timedelta(milliseconds=SCHEDULE_JITTER_MAX_MS)
    for every_ms in (SCHEDULE_EVERY_MIN_MS, SCHEDULE_EVERY_MAX_MS):
        leader_scheduled(elector, "a" * 246, every=timedelta(milliseconds=every_ms), jitter=jitter)


def test_functions_that_do_not_fit_their_elector_are_refused__D7() -> None:
    async def work(due: datetime) -> None:
        """Nothing."""

    coordinator: Any = Unasked()
    with pytest.raises(UsageError, match="coroutine"):
        leader_scheduled(tenure.LeaderElector(coordinator), "job", every=1)(work)

    def plain(due: datetime) -> Any:
        """No coroutine function."""

    with pytest.raises(UsageError, match="coroutine"):
        leader_scheduled(tenure.AsyncLeaderElector(coordinator), "job", every=1)(plain)


class Runs:
    """What a schedule was run for, and what it saw: the mark had been written by then."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self.due: list[datetime] = []
        self.marks: list[int] = []
        self.fails = 0

    def run(self, due: datetime) -> None:
        self.marks.append(int(self._coordinator.records.get("schedule:job").value))
        self.due.append(due)
        if len(self.due) <= self.fails:
            raise ValueError("mine")

    async def arun(self, due: datetime) -> None:
        await asyncio.to_thread(self.run, due)


def mark(coordinator: Any, at_ms: int) -> None:
    with coordinator.acquire("job") as lease:
        coordinator.records.put("schedule:job", str(at_ms).encode(), lease=lease)


@pytest.mark.parametrize(("catch_up", "times"), [("latest", [0]), ("all", [-2, -1, 0])])
def test_what_was_missed_is_made_up_for(catch_up: Any, times: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "_now_ms", lambda: MIDNIGHT_MS + 5)
    with tenure.local() as coordinator:
        mark(coordinator, MIDNIGHT_MS - 3 * HOUR_MS)
        runs = Runs(coordinator)
        with leader_scheduled(tenure.LeaderElector(coordinator), "job", every=3600, catch_up=catch_up)(runs.run):
            eventually(lambda: len(runs.due) >= len(times), 20)
        midnight = datetime(2026, 12, 1, tzinfo=timezone.utc)
        assert runs.due == [midnight + timedelta(hours=hours) for hours in times]
        assert runs.marks == [MIDNIGHT_MS + hours * HOUR_MS for hours in times]


def test_a_run_that_raises_is_logged_and_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    with tenure.local() as coordinator:
        runs = Runs(coordinator)
        runs.fails = 1
        with leader_scheduled(tenure.LeaderElector(coordinator), "job", every=0.1)(runs.run):
            eventually(lambda: len(runs.due) >= 3, 20)
    assert runs.due == sorted(set(runs.due))
    failed = [record for record in caplog.records if record.message.startswith("schedule.failed name=job")]
    assert len(failed) == 1


@pytest.mark.parametrize("form", ["blocking", "asyncio"])
def test_a_cancellation_of_the_functions_own_ends_that_run_alone(form: str, caplog: pytest.LogCaptureFixture) -> None:
    due: list[datetime] = []

    async def cancelled(at: datetime) -> None:
        due.append(at)
        if len(due) == 1:
            inner = asyncio.ensure_future(waiting())
            inner.cancel()
            await inner

    with tenure.local() as coordinator:
        if form == "blocking":
            elector = tenure.LeaderElector(coordinator)
            with leader_scheduled(elector, "job", every=0.1)(lambda at: asyncio.run(cancelled(at))):
                eventually(lambda: len(due) >= 3, 20)
        else:
            schedule = leader_scheduled(tenure.AsyncLeaderElector(coordinator), "job", every=0.1)(cancelled)

            async def main() -> None:
                async with schedule:
                    await asyncio.to_thread(eventually, lambda: len(due) >= 3, 20)

            asyncio.run(main())
    failed = [record for record in caplog.records if record.message.startswith("schedule.failed name=job")]
    assert len(failed) == 1


def test_a_schedule_whose_task_is_cancelled_ends_with_its_function__rule_5() -> None:
    ended: list[str] = []

    async def main(coordinator: Any) -> None:
        begun = asyncio.Event()

        async def work(at: datetime) -> None:
            begun.set()
            try:
                await waiting()
            finally:
                ended.append("cancelled")

        schedule = leader_scheduled(tenure.AsyncLeaderElector(coordinator), "job", every=0.1)(work)
        schedule.start()
        await asyncio.wait_for(begun.wait(), 20)
        assert schedule._task is not None
        schedule._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await schedule._task

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))
        assert coordinator.state("job", consistent=True).leader is None
    assert ended == ["cancelled"]


def test_an_outage_is_waited_for_and_made_up_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_ticks, "RETRY_MS", 50)
    now = [MIDNIGHT_MS + 5]
    monkeypatch.setattr(schedules, "_now_ms", lambda: now[0])
    coordinator = FakeCoordinator(real_time=True, timeout=0.1)
    with coordinator:
        mark(coordinator, MIDNIGHT_MS - HOUR_MS)
        runs = Runs(coordinator)
        schedule = leader_scheduled(tenure.LeaderElector(coordinator), "job", every=3600)(runs.run)
        with coordinator.outage():
            schedule.start()
            eventually(lambda: "schedule.retry" in caplog.text, 20)
            assert runs.due == []
        now[0] += 100
        eventually(lambda: runs.due, 20)
        schedule.close()


def test_a_schedule_is_closed_by_its_own_function_and_started_once() -> None:
    with tenure.local() as coordinator:
        done = threading.Event()

        @leader_scheduled(tenure.LeaderElector(coordinator), "job", every=0.1)
        def once(due: datetime) -> None:
            once.close()
            done.set()

        once.close()
        with pytest.raises(UsageError, match="closed"), once:
            pass

        @leader_scheduled(tenure.LeaderElector(coordinator), "job", every=0.1)
        def again(due: datetime) -> None:
            again.close()
            done.set()

        with again:
            assert done.wait(20)
            with pytest.raises(UsageError, match="started"):
                again.start()


def test_a_record_that_is_no_mark_ends_the_schedule(caplog: pytest.LogCaptureFixture) -> None:
    with tenure.local() as coordinator:
        coordinator.records.put("schedule:job", b"mine")
        with leader_scheduled(tenure.LeaderElector(coordinator), "job", every=0.1)(print):
            eventually(lambda: "schedule.ended" in caplog.text, 20)
    assert "no mark of a schedule" in caplog.text
    assert not [record for record in caplog.records if record.levelno > logging.ERROR]


@pytest.mark.parametrize("form", ["blocking", "asyncio"])
def test_a_schedule_that_is_closed_makes_up_for_nothing_more(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "_now_ms", lambda: MIDNIGHT_MS + 5)
    due: list[datetime] = []
    with tenure.local() as coordinator:
        mark(coordinator, MIDNIGHT_MS - 50 * HOUR_MS)
        if form == "blocking":

            @leader_scheduled(tenure.LeaderElector(coordinator), "job", every=3600, catch_up="all")
            def once(at: datetime) -> None:
                due.append(at)
                once.close()

            once.start()
            eventually(lambda: due, 20)
            once.close()
        else:

            @leader_scheduled(tenure.AsyncLeaderElector(coordinator), "job", every=3600, catch_up="all")
            async def aonce(at: datetime) -> None:
                due.append(at)
                await aonce.close()
                ran.set()

            ran = asyncio.Event()

            async def main() -> None:
                async with aonce:
                    await asyncio.wait_for(ran.wait(), 20)

            asyncio.run(main())
    assert len(due) == 1


def test_a_schedule_that_is_collected_on_the_io_thread_is_waited_for_by_nobody__D5() -> None:
    """What runs needs that thread for its end."""
    runs, go_on, left = threading.Event(), threading.Event(), threading.Event()

    def work(due: datetime) -> None:
        runs.set()
        go_on.wait(20)

    def steps(coordinator: Any) -> Any:
        with leader_scheduled(tenure.LeaderElector(coordinator), "job", every=SCHEDULE_EVERY_MIN_MS / 1000)(work):
            yield

    with tenure.local() as coordinator:
        suspended = [steps(coordinator)]
        next(suspended[0])
        assert runs.wait(20)

        def drop() -> None:
            suspended.clear()
            left.set()

        coordinator._port.hand_over(drop)
        try:
            assert left.wait(20)
        finally:
            go_on.set()
        eventually(lambda: coordinator.state("job").status == "free", 20, "the last run has ended")
