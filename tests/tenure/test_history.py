"""History: what is recorded of runs in every form, and that no sink harms a run.

Knows: the public electors, decorators and sinks. Must not know: how records travel.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure import ElectionOptions, Unavailable, UsageError, history, leader_only
from tenure._feed import BATCH_MAX, QUEUED_MAX, Feed
from tenure._history import MESSAGE_MAX
from tenure.history import History, LoggingSink, MemorySink, RunRecord, SQLiteSink, overlaps, takeovers
from tests.support import eventually
from tests.tenure import support_forms
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_forms import FORMS, Form, failing

pytestmark = pytest.mark.fast


class Broken(Exception):
    pass


class Unsayable(Exception):
    def __str__(self) -> str:
        raise Broken


def blocking(coordinator: Any, kept: History, action: Callable[[], Any]) -> Any:
    return support_forms.blocking(coordinator, {"history": kept}, action)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_records_each_run_once_with_its_ending(form: Form) -> None:
    memory = MemorySink()
    coordinator: Any = FakeCoordinator()
    with History(memory, skipped=True) as kept:
        assert form(coordinator, {"history": kept}, lambda: 5) in (5, [5])
        with pytest.raises(Broken):
            form(coordinator, {"history": kept}, lambda: failing(Broken("x" * 1000)))
        with pytest.raises(tenure.LeaseLostError):
            form(coordinator, {"history": kept}, lambda: coordinator.lose("job"))
        with tenure.LeaderElector(coordinator).leading("job"):
            assert form(coordinator, {"history": kept}, lambda: 5) is None
    runs = memory.runs("job")
    assert [run.status for run in runs] == ["completed", "failed", "lost", "skipped"]
    assert [(run.token, run.slot, run.node_id) for run in runs] == [(n, 0, "fake") for n in (1, 2, 3)] + [(None,) * 3]
    assert [run.error_type for run in runs] == [None, "Broken", None, None]
    assert runs[1].message == "x" * MESSAGE_MAX
    assert len({run.run_id for run in runs}) == 4
    assert all(run.ended_at is not None and run.began_at <= run.ended_at for run in runs)
    assert (kept.dropped, kept.failed) == (0, 0)


def test_a_run_is_there_while_it_runs_and_a_cancelled_one_is_told_as_such() -> None:
    memory = MemorySink()
    coordinator: Any = FakeCoordinator()
    with History(memory) as kept:

        def work() -> None:
            assert kept.flush()
            (run,) = memory.runs()
            assert (run.status, run.ended_at, run.token) == ("acquired", None, 1)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            blocking(coordinator, kept, work)
        coordinator.born_lost = True
        with pytest.raises(tenure.LeaseLostError):
            blocking(coordinator, kept, work)
        coordinator.held["other"] = coordinator
        assert tenure.LeaderElector(coordinator, history=kept).run_if_leader("other", work) is None
    assert [(run.status, run.error_type) for run in memory.runs()] == [
        ("cancelled", "KeyboardInterrupt"),
        ("lost", None),
    ]


@pytest.mark.parametrize("mode", ["skip", "run_anyway"])
def test_a_run_without_a_lease_is_no_completed_one(mode: Any) -> None:
    memory = MemorySink()
    coordinator: Any = FakeCoordinator()
    coordinator.grant = lambda *_: failing(Unavailable("no majority"))
    how: dict[str, Any] = {"failure_mode": mode}
    with History(memory, skipped=True) as kept:
        elector = tenure.LeaderElector(coordinator, history=kept)
        tasks = tenure.AsyncLeaderElector(coordinator, history=kept)

        async def work() -> int:
            return 5

        def steps() -> Any:
            yield 5

        async def async_steps() -> Any:
            yield 5

        async def collected() -> list[Any]:
            return [item async for item in leader_only(tasks, "job", **how)(async_steps)()]

        leader_only(elector, "job", **how)(lambda: 5)()
        list(leader_only(elector, "job", **how)(steps)())
        asyncio.run(leader_only(tasks, "job", **how)(work)())
        asyncio.run(collected())
        if mode == "run_anyway":
            with pytest.raises(Broken):
                leader_only(elector, "job", **how)(lambda: failing(Broken()))()
    expected: list[Any] = [("skipped", None, "Unavailable")] * 4
    if mode == "run_anyway":
        expected = [("unled", None, None)] * 4 + [("unled", None, "Broken")]
    assert [(run.status, run.token, run.error_type) for run in memory.runs()] == expected
    assert all(run.ended_at is not None for run in memory.runs())


class BadSink:
    """Fails, or hangs until it is let go."""

    def __init__(self, error: type[BaseException] = Broken, *, hangs: bool = False) -> None:
        self.error = error
        self.go_on = threading.Event()
        self.begun = threading.Event()
        self.hangs = hangs
        self.taken = 0

    def write(self, records: Sequence[RunRecord]) -> None:
        self.begun.set()
        if not self.hangs:
            raise self.error("disk full")
        self.go_on.wait(60)
        self.taken += len(records)

    def close(self) -> None:
        raise self.error("close")


@pytest.mark.parametrize("error", [Broken, SystemExit])
def test_a_sink_that_fails_harms_neither_a_run_nor_another_sink(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    memory = MemorySink()
    with tenure.local() as coordinator, History(BadSink(error), memory) as kept:
        for _ in range(3):
            assert blocking(coordinator, kept, lambda: 5) == 5
            assert kept.flush()
        assert kept.failed == 6
        assert kept.close()
    assert len(memory.runs()) == 3
    assert {record.getMessage().split()[0] for record in caplog.records if record.name.startswith("tenure")} == {
        "history.failed"
    }


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_feed_whose_thread_has_died_does_not_say_that_all_is_taken() -> None:
    def die(_: object) -> None:
        raise SystemExit

    feed: Feed[int] = Feed("history", die)
    feed.put(1)
    eventually(lambda: not feed._thread.is_alive(), 10, "the thread has died")
    feed.put(2)
    assert not feed.mark().wait(0.01)
    assert not feed.close(0.01)


def test_a_sink_that_hangs_harms_no_run_and_its_queue_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    sink, memory = BadSink(hangs=True), MemorySink()
    coordinator: Any = FakeCoordinator()
    kept = History(sink, memory)
    assert blocking(coordinator, kept, lambda: 5) == 5
    assert sink.begun.wait(20)
    for _ in range(QUEUED_MAX // 2 + 2 * BATCH_MAX):
        assert blocking(coordinator, kept, lambda: 5) == 5
    assert kept.dropped > 0
    assert kept._feeds[0]._queue.qsize() <= QUEUED_MAX
    assert not kept.flush(limit=0)
    assert not kept.close(limit=0.01)
    sink.go_on.set()
    assert kept.close(limit=20)
    assert sink.taken >= QUEUED_MAX - BATCH_MAX
    assert [record.getMessage().split()[0] for record in caplog.records if record.name.startswith("tenure")].count(
        "history.full"
    ) >= 1


def test_an_error_that_cannot_be_said_and_a_closed_history_harm_no_run() -> None:
    memory = MemorySink()
    coordinator: Any = FakeCoordinator()
    with History(memory) as kept, pytest.raises(Unsayable):
        blocking(coordinator, kept, lambda: failing(Unsayable()))
    assert [run.message for run in memory.runs()] == ["its text could not be made: Broken"]
    assert blocking(coordinator, kept, lambda: 5) == 5
    assert kept.dropped == 2
    assert kept.close()
    assert kept.flush()


def test_the_file_keeps_what_came_last_and_can_be_shared(tmp_path: Path) -> None:
    path = str(tmp_path / "runs.db")
    coordinator: Any = FakeCoordinator()
    for _ in range(2):
        with History(SQLiteSink(path, keep=5)) as kept:
            for _ in range(4):
                blocking(coordinator, kept, lambda: 5)
    runs = SQLiteSink(path).runs("job")
    assert [run.token for run in runs] == [4, 5, 6, 7, 8]
    assert {run.status for run in runs} == {"completed"}
    assert SQLiteSink(path).runs("other") == []
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE tenure_runs SET began_at = began_at - 100 WHERE token < 6")
    connection.close()
    sink = SQLiteSink(path, keep_for=50)
    sink.write([RunRecord("id", "job", "skipped", runs[-1].began_at)])
    assert [run.token for run in sink.runs()] == [6, 7, 8, None]


def test_a_file_that_cannot_be_used_harms_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "text").write_text("no database at all, " * 100)
    coordinator: Any = FakeCoordinator()
    for path in (tmp_path / "text", tmp_path, tmp_path / "missing" / "runs.db"):
        with History(SQLiteSink(str(path))) as kept:
            assert blocking(coordinator, kept, lambda: 5) == 5
        assert kept.failed == 2


def test_the_log_has_a_line_for_each_step(caplog: pytest.LogCaptureFixture) -> None:
    coordinator: Any = FakeCoordinator()
    with caplog.at_level(logging.INFO, "tenure.runs"), History(LoggingSink()) as kept:
        blocking(coordinator, kept, lambda: 5)
        with pytest.raises(Broken):
            blocking(coordinator, kept, lambda: failing(Broken("mine")))
    lines = [
        (record.levelname, *record.getMessage().split()[:2])
        for record in caplog.records
        if record.name.startswith("tenure")
    ]
    assert [line[1] for line in lines] == ["run.acquired", "run.completed", "run.acquired", "run.failed"]
    assert lines[3] == ("WARNING", "run.failed", "name=job")
    assert "error=Broken message='mine'" in caplog.text


def test_memory_keeps_the_newest() -> None:
    memory = MemorySink(keep=2)
    memory.write([RunRecord(str(n), "job", "acquired", n) for n in range(4)])
    memory.write([RunRecord("2", "job", "completed", 2, 3)])
    assert [(run.run_id, run.status) for run in memory.runs()] == [("2", "completed"), ("3", "acquired")]


def run(
    name: str, token: int | None, node: str | None, began: float, ended: float | None, slot: int | None = 0
) -> RunRecord:
    status: Any = "completed" if token else "unled"
    return RunRecord(f"{name}{began}{node}", name, status, began, ended, node, slot, token)


def test_takeovers_go_by_tokens_and_not_by_clocks() -> None:
    a1, b2, b3 = run("x", 1, "a", 9, 10), run("x", 2, "b", 5, 6), run("x", 3, "b", 7, 8)
    others = [run("y", 4, "a", 1, 2), run("x", 5, "a", 1, 2, slot=1), run("x", None, None, 5, 6, slot=None)]
    assert [(t.before, t.after) for t in takeovers([b3, *others, b2, a1])] == [(a1, b2)]


def test_overlaps_are_those_of_one_name_and_slot() -> None:
    first, inside, after = run("x", 1, "a", 0, 10), run("x", 2, "b", 5, 6), run("x", 3, "b", 10, 11)
    others = [run("y", 4, "a", 5, 6), run("x", 5, "a", 5, 6, slot=1), run("x", 6, "c", -1, None)]
    assert [(o.first, o.second) for o in overlaps([after, inside, *others, first])] == [(first, inside)]
    unled = run("x", None, None, 9, 12, slot=None)
    assert [(o.first, o.second) for o in overlaps([unled, first, after])] == [(first, unled), (unled, after)]
    skipped = RunRecord("s", "x", "skipped", 5, 6)
    assert overlaps([first, skipped]) == []


def test_bad_arguments_are_refused_at_once(tmp_path: Path) -> None:
    coordinator: Any = FakeCoordinator()
    wrong: list[Callable[[], Any]] = [
        History,
        lambda: History(MemorySink),  # type: ignore[arg-type]
        lambda: History(7),  # type: ignore[arg-type]
        lambda: History(MemorySink(), skipped=1),  # type: ignore[arg-type]
        lambda: MemorySink(0),
        lambda: MemorySink(True),
        lambda: SQLiteSink(""),
        lambda: SQLiteSink(":memory:"),
        lambda: SQLiteSink(str(tmp_path / "x"), keep=0),
        lambda: SQLiteSink(str(tmp_path / "x"), keep_for=0.5),
        lambda: tenure.LeaderElector(coordinator, history=MemorySink()),  # type: ignore[arg-type]
        lambda: tenure.ThreadLeaderElector(coordinator, history=7),  # type: ignore[arg-type]
    ]
    for make in wrong:
        with pytest.raises(UsageError):
            make()
    assert not list(tmp_path.iterdir())
    assert set(history.__all__) <= set(vars(history))


def test_a_tenants_elector_records_stored_names_and_a_forked_child_nothing() -> None:
    memory = MemorySink()
    coordinator: Any = FakeCoordinator()
    with History(memory) as kept:
        elector = tenure.LeaderElector(coordinator, ElectionOptions(), history=kept).for_tenant("acme")
        elector.run_if_leader("job", lambda: 5)
        kept._feeds[0]._process = -1
        elector.run_if_leader("job", lambda: 5)
        assert kept.dropped == 2
    assert [run.name for run in memory.runs()] == ["tenant:acme:job"]


def test_a_sink_that_hangs_does_not_keep_the_interpreter_from_ending() -> None:
    script = """
import threading, tenure
from tenure.history import History
class Sink:
    def write(self, records): threading.Event().wait()
    def close(self): pass
with tenure.local() as coordinator:
    tenure.LeaderElector(coordinator, history=History(Sink())).run_if_leader("job", print)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
