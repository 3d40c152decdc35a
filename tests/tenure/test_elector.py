"""The blocking elector against leases that are granted and lost on command.

Knows: the public elector, the fake coordinator. Must not know: the engine.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from cluster.errors import CoordinationError, Indeterminate, LeaseLostError, NotLeaderError, Unavailable, UsageError
from cluster.opcodes import Outcome
from tenure import (
    ActionFailed,
    Elected,
    ElectionOptions,
    LeaderElector,
    LeaseLost,
    Skipped,
    current_lease,
)
from tests.tenure.fake import FakeCoordinator, FakeLease

pytestmark = pytest.mark.fast


def made(options: ElectionOptions | None = None) -> tuple[Any, LeaderElector]:
    coordinator: Any = FakeCoordinator()
    return coordinator, LeaderElector(coordinator, options)


def raising(error: BaseException) -> None:
    raise error


def ending(error: BaseException | None) -> None:
    if error is not None:
        raise error


def in_body(elector: LeaderElector, name: str, action: Callable[..., object], *args: object) -> None:
    """Run the action as the body of ``leading``."""
    with elector.leading(name):
        action(*args)


def test_arguments_go_to_the_action_and_options_to_the_acquisition() -> None:
    options = ElectionOptions(
        wait_time=1, lease_time=timedelta(minutes=1), node_id="me", min_lease_time=2, auto_extend=True
    )
    coordinator, elector = made(options)

    def action(*args: int, **kwargs: int) -> object:
        return args, kwargs

    # Also names that ``run_if_leader`` itself uses for its parameters.
    assert elector.run_if_leader("job", action, 1, 2, name=3, action=4) == ((1, 2), {"name": 3, "action": 4})
    expected = {"wait_time": 1.0, "lease_time": 60.0, "min_lease_time": 2.0, "auto_extend": True}
    assert coordinator.acquired == [{**expected, "node_id": "me", "max_leaders": 1, "metadata": None}]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.COMPLETED),
        (ValueError(), Outcome.FAILED),
        (KeyboardInterrupt(), Outcome.CANCELLED),
        (SystemExit(), Outcome.CANCELLED),
        (GeneratorExit(), Outcome.CANCELLED),
        (asyncio.CancelledError(), Outcome.CANCELLED),
    ],
)
def test_the_release_says_how_the_action_ended__rule_4(error: BaseException | None, outcome: Outcome) -> None:
    coordinator, elector = made()
    for run in (elector.run_if_leader, elector.run_if_leader_result, functools.partial(in_body, elector)):
        raised: BaseException | None = None
        try:
            run("job", ending, error)
        except BaseException as caught:
            raised = caught
        assert raised is (None if run == elector.run_if_leader_result and isinstance(error, Exception) else error)
    assert len(coordinator.outcomes) == 3
    assert set(coordinator.outcomes.values()) == {outcome}
    assert not coordinator.held


def test_the_lease_is_released_before_the_exception_reaches_the_caller__rule_3() -> None:
    coordinator, elector = made()
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        elector.run_if_leader("job", raising, error)
    assert caught.value is error
    assert error.__context__ is None
    assert coordinator.outcomes == {1: Outcome.FAILED}


def test_an_error_of_the_release_hides_nothing__D8(caplog: pytest.LogCaptureFixture) -> None:
    coordinator, elector = made()
    coordinator.release_error = Indeterminate("no answer")
    assert elector.run_if_leader("job", lambda: 1) == 1
    with pytest.raises(ValueError, match="mine"):
        elector.run_if_leader("job", raising, ValueError("mine"))
    with pytest.raises(ValueError, match="mine"), elector.leading("job"):
        raise ValueError("mine")
    with elector.leading("job"):
        pass
    assert [record.getMessage().split()[0] for record in caplog.records] == ["release.unconfirmed"] * 4


@pytest.mark.parametrize("error", [Unavailable("no majority"), Indeterminate("no answer"), UsageError("bad name")])
def test_an_error_of_the_acquisition_is_no_contention__rule_6(error: CoordinationError) -> None:
    coordinator, elector = made()
    coordinator.grant = lambda *_: raising(error)
    calls: list[int] = []
    for run in (elector.run_if_leader, elector.run_if_leader_result):
        with pytest.raises(type(error)) as caught:
            run("job", calls.append, 1)
        assert caught.value is error
    with pytest.raises(type(error)), elector.leading("job", optional=True):
        calls.append(1)
    assert calls == []


def test_a_lease_that_is_lost_before_the_start_runs_nothing__rule_7() -> None:
    coordinator, elector = made()
    coordinator.born_lost = True
    calls: list[int] = []
    assert elector.run_if_leader_result("job", calls.append, 1) == LeaseLost(None, None, 1)
    with pytest.raises(LeaseLostError):
        elector.run_if_leader("job2", calls.append, 1)
    with pytest.raises(LeaseLostError), elector.leading("job3"):
        calls.append(1)
    assert calls == []
    assert set(coordinator.outcomes.values()) == {Outcome.NOT_STARTED}


def test_a_lost_lease_is_told_with_the_value_and_the_cause__rule_7() -> None:
    coordinator, elector = made()

    def losing(error: Exception | None = None) -> int:
        coordinator.lose("job")
        if error is not None:
            raise error
        return 5

    error = ValueError("late")
    assert elector.run_if_leader_result("job", losing) == LeaseLost(5, None, 1)
    assert elector.run_if_leader_result("job", losing, error) == LeaseLost(None, error, 2)
    with pytest.raises(LeaseLostError) as caught:
        elector.run_if_leader("job", losing, error)
    assert caught.value.__cause__ is error
    with pytest.raises(KeyboardInterrupt):
        elector.run_if_leader("job", losing, KeyboardInterrupt())  # type: ignore[arg-type]
    assert set(coordinator.outcomes.values()) == {Outcome.LOST}


def test_a_lost_lease_does_not_hide_the_exception_of_a_body__D8() -> None:
    coordinator, elector = made()

    def losing(error: BaseException | None) -> None:
        coordinator.lose("job")
        ending(error)

    with pytest.raises(ValueError, match="mine"):
        in_body(elector, "job", losing, ValueError("mine"))
    with pytest.raises(LeaseLostError):
        in_body(elector, "job", losing, None)
    assert set(coordinator.outcomes.values()) == {Outcome.LOST}


def test_the_callers_own_release_inside_the_action_is_no_loss() -> None:
    coordinator, elector = made()

    def action() -> str:
        lease: Any = current_lease()
        lease.release(Outcome.FAILED)
        return "value"

    assert elector.run_if_leader_result("job", action) == Elected("value", "fake", 1)
    assert coordinator.outcomes == {1: Outcome.FAILED}


async def coroutine() -> None: ...


def test_what_cannot_run_here_is_refused_before_anything_is_acquired__D7() -> None:
    coordinator, elector = made()
    for run in (elector.run_if_leader, elector.run_if_leader_result):
        with pytest.raises(UsageError, match="AsyncLeaderElector"):
            run("job", coroutine)
    assert coordinator.acquired == []


def test_a_coroutine_that_comes_back_is_refused_after_the_release__D7() -> None:
    coordinator, elector = made()
    for run in (elector.run_if_leader, elector.run_if_leader_result):
        with pytest.raises(UsageError, match="AsyncLeaderElector"):
            run("job", lambda value: coroutine(), 1)
    assert coordinator.outcomes == {1: Outcome.FAILED, 2: Outcome.FAILED}


def test_a_running_function_cannot_be_cancelled_so_nobody_may_ask_for_it() -> None:
    with pytest.raises(UsageError, match="on_lost"):
        made(ElectionOptions(on_lost="cancel"))
    made(ElectionOptions(on_lost="signal"))


def test_a_nested_call_is_a_contender_and_the_outer_lease_is_still_seen__rule_8() -> None:
    _, elector = made()

    def inner() -> None:
        raise AssertionError("it ran")

    def outer() -> tuple[object, Any]:
        skipped = elector.run_if_leader("job", inner)
        return skipped, current_lease("job")

    skipped, lease = elector.run_if_leader("job", outer) or (1, None)
    assert skipped is None
    assert isinstance(lease, FakeLease)
    assert current_lease() is None


def test_skipped_asks_who_holds_and_goes_without_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator, elector = made()
    with elector.leading("job"):
        assert elector.run_if_leader_result("job", int) == Skipped("held", "fake")
        coordinator.state_error = Unavailable("no majority")
        assert elector.run_if_leader_result("job", int) == Skipped("held", None)
    with elector.leading("job"), pytest.raises(NotLeaderError, match="'job'"), elector.leading("job"):
        raise AssertionError("it ran")


def test_optional_yields_none_and_releases_nothing() -> None:
    coordinator, elector = made()
    with elector.leading("job") as outer:
        with elector.leading("job", optional=True) as inner:
            assert inner is None
            assert current_lease() is outer
        assert coordinator.held
    assert coordinator.outcomes == {1: Outcome.COMPLETED}


def test_one_leading_is_for_one_with() -> None:
    _, elector = made()
    leading = elector.leading("job")
    with leading, pytest.raises(UsageError, match="twice"):
        leading.__enter__()


def test_a_leading_that_is_never_entered_holds_nothing() -> None:
    coordinator, elector = made()
    elector.leading("job")
    assert coordinator.acquired == []


def test_a_with_that_is_left_without_its_exit_is_released_when_it_is_collected__A8() -> None:
    coordinator, elector = made()
    elector.leading("job").__enter__()
    assert not coordinator.held
    assert current_lease() is None


def test_a_thread_that_must_not_block_releases_without_waiting() -> None:
    coordinator, elector = made()
    coordinator.release_error = UsageError("this is the I/O thread")
    assert elector.run_if_leader("job", lambda: 1) == 1
    assert not coordinator.held


def test_a_failure_is_a_value__rule_3() -> None:
    _, elector = made()
    error = ValueError("mine")
    assert elector.run_if_leader_result("job", raising, error) == ActionFailed(error, 1)


def test_one_elector_serves_many_threads__D5() -> None:
    coordinator, elector = made()
    barrier = threading.Barrier(8)
    seen: dict[str, bool] = {}

    def action(name: str) -> None:
        barrier.wait(10)
        lease = current_lease()
        seen[name] = lease is not None and lease.name == name and current_lease(name) is lease

    threads = [threading.Thread(target=elector.run_if_leader, args=(str(n), action, str(n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert all(seen.values())
    assert not coordinator.held
