"""Ctrl-C at any instruction of a blocking elector leaves no lease behind (D1, rule 4).

Knows: ``sys.settrace``, by which an exception can be raised before any single instruction. Must not know: the elector's steps.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tenure
from cluster.opcodes import Outcome
from tenure import LeaderElector
from tests.tenure.fake import FakeCoordinator

pytestmark = pytest.mark.fast

SOURCE = str(Path(tenure.__file__).parent)


class Interrupter:
    """Raises KeyboardInterrupt before the ``at``-th instruction that runs in a file of tenure."""

    def __init__(self, at: int) -> None:
        self._left = at
        self.where = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._left -= 1
            if self._left == 0:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def interrupted_at(at: int, run: Callable[[], object]) -> Interrupter:
    interrupter = Interrupter(at)
    before = sys.gettrace()
    sys.settrace(interrupter)
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return interrupter


def plainly(coordinator: Any, calls: list[int]) -> None:
    LeaderElector(coordinator).run_if_leader("job", calls.append, 1)


def failing(coordinator: Any, calls: list[int]) -> None:
    def action() -> None:
        calls.append(1)
        raise ValueError

    LeaderElector(coordinator).run_if_leader_result("job", action)


def within(coordinator: Any, calls: list[int]) -> None:
    with LeaderElector(coordinator).leading("job"):
        calls.append(1)


def within_a_generator(coordinator: Any, calls: list[int]) -> None:
    def steps() -> Generator[int, None, None]:
        with LeaderElector(coordinator).leading("job"):
            calls.append(1)
            yield 1

    made = steps()
    next(made)
    made.close()


@pytest.mark.parametrize("run", [plainly, failing, within, within_a_generator])
def test_an_interrupt_at_any_instruction_leaves_no_lease__D1(run: Callable[[Any, list[int]], None]) -> None:
    gc.disable()
    try:
        for at in range(1, 2000):
            coordinator, calls = FakeCoordinator(), list[int]()
            interrupter = interrupted_at(at, functools.partial(run, coordinator, calls))
            if not interrupter.where:
                break
            assert not coordinator.held, f"instruction {at}, {interrupter.where}"
            assert len(coordinator.acquired) <= 1
            assert len(calls) <= len(coordinator.acquired)
            if not calls and coordinator.outcomes:
                # Nothing ran, so the minimum lease must not be held against the next.
                assert list(coordinator.outcomes.values()) in ([Outcome.NOT_STARTED], [Outcome.CANCELLED])
            assert tenure.current_lease() is None, f"instruction {at}, {interrupter.where}"
    finally:
        gc.enable()
    assert at > 100
