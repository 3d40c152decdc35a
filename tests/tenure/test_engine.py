"""What the end of a run means: every ending, decided without a coordinator.

Knows: ``Run``. Must not know: the forms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster.errors import LeaseLostError, UsageError
from cluster.opcodes import Outcome
from tenure._engine import Run
from tenure.results import ActionFailed, Elected, LeaseLost, RunResult, Skipped
from tests.tenure.fake import FakeLost

pytestmark = pytest.mark.fast


@dataclass
class Stub:
    name: str = "job"
    node_id: str = "me"
    token: int = 7
    slot: int = 0
    lost: FakeLost = field(default_factory=FakeLost)
    warnings: int = 0

    def lose(self, lost: bool = True) -> None:
        if lost:
            self.lost.set()


def begun(lease: Stub | None = None) -> Run[Any]:
    run: Run[Any] = Run("job")
    run.granted(lease or Stub())
    assert run.may_begin()
    return run


def test_an_action_begins_once_and_only_after_the_grant__rule_1() -> None:
    run: Run[int] = Run("job")
    assert not run.may_begin()
    run.granted(Stub())
    assert run.may_begin()
    assert not run.may_begin()


def test_no_grant_is_skipped_with_the_holder__rule_2() -> None:
    run: Run[int] = Run("job")
    run.holder = "other"
    assert run.result() == Skipped("held", "other")
    assert run.value() is None


@pytest.mark.parametrize("value", [1, None, False])
def test_a_value_is_elected_whatever_it_is__rule_1(value: object) -> None:
    run = begun()
    run.completed(value)
    assert run.outcome() is Outcome.COMPLETED
    assert run.result() == Elected(value, "me", 7)
    assert run.value() is value


def test_a_failure_is_the_actions_own_exception__rule_3() -> None:
    run, error = begun(), ValueError("mine")
    run.failed(error)
    assert run.outcome() is Outcome.FAILED
    assert run.result() == ActionFailed(error, 7)
    with pytest.raises(ValueError, match="mine") as caught:
        run.value()
    assert caught.value is error
    assert caught.value.__context__ is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), GeneratorExit(), asyncio.CancelledError()])
def test_what_is_no_exception_never_becomes_a_result__rule_5(error: BaseException) -> None:
    for lost in (False, True):
        lease = Stub()
        run = begun(lease)
        run.failed(error)
        lease.lose(lost)
        assert run.outcome() is (Outcome.LOST if lost else Outcome.CANCELLED)
        for ending in (run.result, run.value):
            with pytest.raises(type(error)) as caught:
                ending()
            assert caught.value is error


def test_the_callers_cancellation_wins_over_every_ending__rule_5() -> None:
    mine = ValueError("mine")
    endings: list[Callable[[Run[Any]], None]] = [
        lambda run: run.completed(1),
        lambda run: run.failed(mine),
        lambda run: None,
    ]
    for lost in (False, True):
        for ending in endings:
            lease = Stub()
            run, cancelled = begun(lease), asyncio.CancelledError()
            ending(run)
            run.gave_up(cancelled)
            run.gave_up(asyncio.CancelledError())
            lease.lose(lost)
            with pytest.raises(asyncio.CancelledError) as caught:
                run.result()
            assert caught.value is cancelled
            assert caught.value.__cause__ is (mine if run.error else None)


def test_a_lost_lease_decides_whatever_the_action_made_of_it__rule_7() -> None:
    error = ValueError("late")
    endings: list[tuple[Callable[[Run[Any]], None], LeaseLost[Any]]] = [
        (lambda run: run.completed("late"), LeaseLost("late", None, 7)),
        (lambda run: run.failed(error), LeaseLost(None, error, 7)),
    ]
    for ending, expected in endings:
        lease = Stub()
        run = begun(lease)
        ending(run)
        lease.lose()
        assert run.outcome() is Outcome.LOST
        assert run.result() == expected
        with pytest.raises(LeaseLostError, match="'job' \\(token 7\\)") as caught:
            run.value()
        assert caught.value.__cause__ is expected.cause


def test_our_own_cancellation_is_no_cause__rule_7() -> None:
    lease = Stub()
    run = begun(lease)
    lease.lose()
    run.told = True
    run.failed(asyncio.CancelledError())
    assert run.outcome() is Outcome.LOST
    assert run.result() == LeaseLost(None, None, 7)


def test_a_lease_that_is_lost_before_the_start_is_not_begun_with__rule_7() -> None:
    run: Run[int] = Run("job")
    lease = Stub()
    lease.lose()
    run.granted(lease)
    assert not run.may_begin()
    assert run.outcome() is Outcome.NOT_STARTED
    assert run.result() == LeaseLost(None, None, 7)


def test_a_lease_that_is_lost_after_the_work_ended_was_not_lost__rule_7() -> None:
    lease = Stub()
    run = begun(lease)
    run.completed(1)
    assert run.outcome() is Outcome.COMPLETED
    lease.lose()
    assert run.outcome() is Outcome.COMPLETED
    assert run.result() == Elected(1, "me", 7)


def test_a_refused_action_is_a_usage_error_in_both_forms__D7() -> None:
    run, refusal = begun(), UsageError("not an action")
    run.refused = refusal
    assert run.outcome() is Outcome.FAILED
    for ending in (run.result, run.value):
        with pytest.raises(UsageError) as caught:
            ending()
        assert caught.value is refusal


def test_results_are_made_for_match() -> None:
    endings: list[RunResult[int]] = [
        Elected(1, "me", 7),
        Skipped("held", "you"),
        ActionFailed(ValueError(), 7),
        LeaseLost(2, None, 7),
    ]
    seen: list[tuple[object, ...]] = []
    for result in endings:
        match result:
            case Elected(value, node_id, token):
                seen.append((value, node_id, token))
            case Skipped(reason, holder):
                seen.append((reason, holder))
            case ActionFailed(cause, token):
                seen.append((type(cause), token))
            case LeaseLost(late, why, token):
                seen.append((late, why, token))
    assert seen == [(1, "me", 7), ("held", "you"), (ValueError, 7), (2, None, 7)]


def test_results_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Elected(1, "me", 7).value = 2  # type: ignore[misc]
