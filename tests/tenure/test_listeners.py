"""Listeners and metrics: every form tells the same of a run, and whoever is told harms none.

Knows: the public electors, latches, decorators, listeners and metrics. Must not know: how what is told travels.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tenure
from tenure import ElectionEvent, ElectionListener, Unavailable, UsageError, leader_only
from tenure._feed import QUEUED_MAX
from tenure.listeners import flush
from tenure.metrics import MemoryMetrics, Observed
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_forms import FORMS, Form, failing

pytestmark = pytest.mark.fast


class Broken(Exception):
    pass


class Notes(ElectionListener):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ElectionEvent]] = []

    def on_elected(self, event: ElectionEvent) -> None:
        self.told.append(("elected", event))

    def on_lost(self, event: ElectionEvent) -> None:
        self.told.append(("lost", event))

    def on_released(self, event: ElectionEvent) -> None:
        self.told.append(("released", event))

    def on_skipped(self, event: ElectionEvent) -> None:
        self.told.append(("skipped", event))

    def on_action_failed(self, event: ElectionEvent) -> None:
        self.told.append(("failed", event))

    def take(self) -> list[tuple[str, str, int | None]]:
        assert flush(20)
        told, self.told = self.told, []
        return [(what, event.reason, event.token) for what, event in told]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_each_run_with_its_ending(form: Form) -> None:
    notes = Notes()
    coordinator: Any = FakeCoordinator()
    to: dict[str, Any] = {"listeners": [notes]}
    assert form(coordinator, to, lambda: 5) in (5, [5])
    assert notes.take() == [("elected", "", 1), ("released", "completed", 1)]
    error = Broken("mine")
    with pytest.raises(Broken):
        form(coordinator, to, lambda: failing(error))
    assert notes.told[0][1] == ElectionEvent("job", "", "fake", 0, 2) if flush(20) else None
    assert notes.told[1][1].error is error
    assert notes.take() == [("elected", "", 2), ("failed", "Broken", 2), ("released", "failed", 2)]
    with pytest.raises(tenure.LeaseLostError):
        form(coordinator, to, lambda: coordinator.lose("job"))
    assert notes.take() == [("elected", "", 3), ("lost", "expired", 3)]
    with tenure.LeaderElector(coordinator).leading("job"):
        assert form(coordinator, to, lambda: 5) is None
    assert notes.take() == [("skipped", "held", None)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_measured(form: Form) -> None:
    metrics = MemoryMetrics()
    coordinator: Any = FakeCoordinator()
    to: dict[str, Any] = {"metrics": metrics}
    for _ in range(2):
        form(coordinator, to, lambda: 5)
    with pytest.raises(Broken):
        form(coordinator, to, lambda: failing(Broken()))
    with pytest.raises(tenure.LeaseLostError):
        form(coordinator, to, lambda: coordinator.lose("job"))
    with tenure.LeaderElector(coordinator).leading("job"):
        form(coordinator, to, lambda: 5)
    coordinator.grant = lambda *_: failing(Unavailable("no majority"))
    with pytest.raises(Unavailable):
        form(coordinator, to, lambda: 5)
    assert flush(20)
    elections = {
        result: metrics.counted("elections", result=result) for result in ("elected", "skipped", "unavailable")
    }
    assert elections == {"elected": 4, "skipped": 1, "unavailable": 1}
    runs = {result: metrics.counted("runs", result=result, name="job") for result in ("completed", "failed", "lost")}
    assert runs == {"completed": 2, "failed": 1, "lost": 1}
    assert metrics.counted("lost", reason="expired") == 1
    assert (metrics.observed("wait_seconds").count, metrics.observed("held_seconds").count) == (6, 4)
    assert metrics.observed("held_seconds", name="other") == Observed(0, 0.0, 0.0)


def test_a_loss_is_told_while_the_work_still_runs_and_only_once() -> None:
    notes = Notes()
    coordinator: Any = FakeCoordinator()

    def work() -> None:
        lease = tenure.current_lease()
        assert lease is not None
        coordinator.lose("job")
        assert notes.take() == [("elected", "", 1), ("lost", "expired", 1)]

    with pytest.raises(tenure.LeaseLostError):
        tenure.LeaderElector(coordinator, listeners=[notes]).run_if_leader("job", work)
    assert notes.take() == []


def test_what_never_began_and_what_was_interrupted_is_told_as_such() -> None:
    notes = Notes()
    coordinator: Any = FakeCoordinator()
    elector = tenure.LeaderElector(coordinator, listeners=[notes])
    with pytest.raises(KeyboardInterrupt):
        elector.run_if_leader("job", lambda: failing(KeyboardInterrupt()))
    assert notes.take() == [("elected", "", 1), ("released", "cancelled", 1)]
    coordinator.born_lost = True
    with pytest.raises(tenure.LeaseLostError):
        elector.run_if_leader("job", lambda: 5)
    assert notes.take() == [("elected", "", 2), ("lost", "expired", 2)]


def test_a_latch_tells_each_time_that_it_leads() -> None:
    notes, metrics = Notes(), MemoryMetrics()
    with tenure.local() as coordinator:
        with tenure.LeaderLatch(coordinator, listeners=[notes], metrics=metrics) as latch:
            latch.start("job")
            assert latch.wait(20)

        async def main() -> None:
            async with tenure.AsyncLeaderLatch(coordinator, listeners=[notes], metrics=metrics) as latch:
                await latch.for_tenant("acme").close()
                await latch.start("job")
                assert await latch.wait(20)

        asyncio.run(main())
    told = notes.take()
    assert [(what, reason) for what, reason, _ in told] == [("elected", ""), ("released", "completed")] * 2
    assert metrics.counted("runs", result="completed", name="job") == 2


@pytest.mark.parametrize("mode", ["skip", "run_anyway"])
def test_an_outage_is_a_skip_or_an_unled_run_where_it_was_asked_for(mode: Any) -> None:
    notes, metrics = Notes(), MemoryMetrics()
    coordinator: Any = FakeCoordinator()
    outage = Unavailable("no majority")
    coordinator.grant = lambda *_: failing(outage)
    elector = tenure.LeaderElector(coordinator, listeners=[notes], metrics=metrics)
    leader_only(elector, "job", failure_mode=mode)(lambda: 5)()
    assert flush(20)
    if mode == "skip":
        assert notes.told[0][1] == ElectionEvent("job", "unavailable", error=outage)
    assert notes.take() == ([("skipped", "unavailable", None)] if mode == "skip" else [])
    assert metrics.counted("elections", result="unavailable") == 1
    assert metrics.counted("unled") == (mode == "run_anyway")


class BadListener(Notes):
    """Raises, or hangs until it is let go."""

    def __init__(self, *, hangs: bool = False) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.hangs = hangs
        self.calls = 0

    def on_elected(self, event: ElectionEvent) -> None:
        self.calls += 1
        if not self.hangs:
            raise SystemExit("mine")
        self.go_on.wait(60)


class BadMetrics:
    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def count(self, metric: str, labels: Any, amount: int) -> None:
        raise self.error

    observe: Any = count


def test_a_listener_that_raises_harms_neither_a_run_nor_another_listener(caplog: pytest.LogCaptureFixture) -> None:
    bad, notes, metrics = BadListener(), Notes(), MemoryMetrics()
    coordinator: Any = FakeCoordinator()
    elector = tenure.LeaderElector(coordinator, listeners=[bad, notes], metrics=metrics)
    for _ in range(3):
        assert elector.run_if_leader("job", lambda: 5) == 5
    assert len(notes.take()) == 6
    assert [what for what, _, _ in bad.take()] == ["released"] * 3
    assert flush(20)
    assert metrics.counted("listener_errors", name="job") == 3
    assert "listener.failed listener=BadListener call=on_elected name=job token=1" in caplog.text


@pytest.mark.parametrize("error", [Broken, SystemExit])
def test_metrics_that_raise_harm_no_run(error: type[BaseException], caplog: pytest.LogCaptureFixture) -> None:
    coordinator: Any = FakeCoordinator()
    elector = tenure.LeaderElector(coordinator, metrics=BadMetrics(error))
    for _ in range(3):
        assert elector.run_if_leader("job", lambda: 5) == 5
        assert flush(20)
    # Of each run: that it was elected and what it waited, how it ended and how long it held.
    assert caplog.text.count("metrics.failed metrics=BadMetrics") == 3 * 4


def test_a_listener_that_hangs_delays_no_release_and_its_queue_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    bad, notes = BadListener(hangs=True), Notes()
    coordinator: Any = FakeCoordinator()
    elector = tenure.LeaderElector(coordinator, listeners=[bad, notes])
    with caplog.at_level(logging.WARNING, "tenure._feed"):
        for _ in range(QUEUED_MAX // 2 + 300):
            assert elector.run_if_leader("job", lambda: 5) == 5
    assert coordinator.held == {}
    assert "listener.full" in caplog.text
    assert not flush(0.01)
    bad.go_on.set()
    assert flush(20)
    assert bad.calls <= QUEUED_MAX // 2 + 300
    assert notes.told[-1][0] == "released"


def test_one_listener_of_many_electors_is_called_on_one_thread_in_order() -> None:
    class Threads(Notes):
        def on_elected(self, event: ElectionEvent) -> None:
            super().on_elected(event)
            threads.add(threading.get_ident())

    threads: set[int] = set()
    notes = Threads()
    coordinator: Any = FakeCoordinator()
    for name in ("a", "b", "c"):
        tenure.LeaderElector(coordinator, listeners=[notes]).for_tenant("acme").run_if_leader(name, lambda: 5)
    assert [token for _, _, token in notes.take()] == [1, 1, 2, 2, 3, 3]
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_the_thread_of_a_listener_ends_with_its_last_elector() -> None:
    before = {thread for thread in threading.enumerate() if thread.name == "tenure-listener"}
    elector = tenure.LeaderElector(FakeCoordinator(), listeners=[Notes()])  # type: ignore[arg-type]
    elector.run_if_leader("job", lambda: 5)
    (mine,) = {thread for thread in threading.enumerate() if thread.name == "tenure-listener"} - before
    del elector
    gc.collect()
    mine.join(20)
    assert not mine.is_alive()


def test_the_end_of_the_interpreter_waits_for_listeners_but_not_for_ever() -> None:
    script = """
import sys, threading, tenure
class Listener(tenure.ElectionListener):
    def on_released(self, event):
        if sys.argv[1] == "hang":
            threading.Event().wait()
        print("told", event.reason)
with tenure.local() as coordinator:
    tenure.LeaderElector(coordinator, listeners=[Listener()]).run_if_leader("job", int)
"""
    for what, printed in (("tell", "told completed\n"), ("hang", "")):
        done = subprocess.run(
            [sys.executable, "-c", script, what], check=True, timeout=60, capture_output=True, text=True
        )
        assert done.stdout == printed


def test_nearly_over_is_counted() -> None:
    metrics = MemoryMetrics()
    with tenure.local() as coordinator:
        options = tenure.ElectionOptions(lease_time=0.1)
        elector = tenure.LeaderElector(coordinator, options, metrics=metrics)
        with pytest.raises(tenure.LeaseLostError), elector.leading("job") as lease:
            lease.lost.wait(20)
    assert flush(20)
    assert metrics.counted("nearly_over", name="job") == 1
    assert metrics.counted("lost", reason="expired") == 1


def test_bad_arguments_are_refused_at_once() -> None:
    class Coroutines(ElectionListener):
        async def on_elected(self, event: ElectionEvent) -> None:  # type: ignore[override]
            """Nobody would await it."""

    class Nothing(ElectionListener):
        on_lost = None  # type: ignore[assignment]

    coordinator: Any = FakeCoordinator()
    wrong: list[dict[str, Any]] = [
        {"listeners": Notes()},
        {"listeners": 7},
        {"listeners": [7]},
        {"listeners": [Notes]},
        {"listeners": [Coroutines()]},
        {"listeners": [Nothing()]},
        {"metrics": 7},
        {"metrics": MemoryMetrics},
    ]
    makers: list[Callable[..., Any]] = [tenure.LeaderElector, tenure.ThreadLeaderGroupElector, tenure.LeaderLatch]
    for make in makers:
        for arguments in wrong:
            with pytest.raises(UsageError):
                make(coordinator, **arguments)


def test_a_listener_of_electors_that_are_gone_is_told_in_order_never_twice_at_once_and_waited_for() -> None:
    class Slow(Notes):
        def __init__(self) -> None:
            super().__init__()
            self.at_once = self.most = 0
            self.go = threading.Event()

        def on_elected(self, event: ElectionEvent) -> None:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            self.go.wait(20)
            super().on_elected(event)
            self.at_once -= 1

    slow = Slow()
    with tenure.local() as coordinator:
        for _ in range(5):
            tenure.LeaderElector(coordinator, listeners=[slow]).run_if_leader("job", int)
            gc.collect()
        assert not flush(0.01)
        slow.go.set()
        tokens = [token for what, _, token in slow.take() if what == "elected"]
    assert (slow.most, len(tokens)) == (1, 5)
    assert tokens == sorted(token for token in tokens if token is not None)
