"""Ctrl-C at any instruction of a blocking elector leaves no lease behind (D1, rule 4).

Knows: ``sys.settrace``, by which an exception can be raised before any single instruction. Must not know: the elector's steps.

An interrupt before any instruction at all is more than Python does: it looks for signals at some instructions only. The elector is held
to the harder test; the client, whose locks could be left locked between two instructions, to the real one.
"""

from __future__ import annotations

import functools
import gc
import opcode
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import cluster.client
import tenure
from cluster.opcodes import Outcome
from tenure import LeaderElector
from tests.support import eventually
from tests.tenure.fake import FakeCoordinator

pytestmark = pytest.mark.core

TENURE = str(Path(tenure.__file__).parent)
CLIENT = str(Path(cluster.client.__file__).parent)

# Where Python looks for signals, in the names of all its versions: when a function begins, after a call, and before it loops.
CALLS = frozenset(("CALL", "CALL_KW", "CALL_FUNCTION", "CALL_FUNCTION_KW", "CALL_FUNCTION_EX", "CALL_METHOD"))
LOOPS = frozenset(("JUMP_BACKWARD", "JUMP_ABSOLUTE"))


class Interrupter:
    """Raises KeyboardInterrupt before the ``at``-th instruction that runs in some files.

    Args:
        at: which instruction, from 1 on.
        sources: beginnings of the files' paths.
        anywhere: count every instruction; else only those before which Python looks for signals.
    """

    def __init__(self, at: int, sources: tuple[str, ...], *, anywhere: bool) -> None:
        self._left = at
        self._sources = sources
        self._anywhere = anywhere
        # By identity, since a frame that is kept keeps what its function held.
        self._before: dict[int, str] = {}
        self.where = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        # An exception out of ``__del__`` is ignored by Python, an interrupt too.
        if not frame.f_code.co_filename.startswith(self._sources) or frame.f_code.co_name == "__del__":
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._before[id(frame)] = ""
        if event == "opcode" and (self._may_interrupt(frame) or self._anywhere):
            self._left -= 1
            if self._left == 0:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}"
                raise KeyboardInterrupt
        return self

    def _may_interrupt(self, frame: FrameType) -> bool:
        instruction = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
        before = self._before[id(frame)]
        self._before[id(frame)] = instruction
        # What comes between a call and a ``return`` of its value belongs to the call.
        return not before or instruction == "RESUME" or (before in CALLS | LOOPS and instruction != "RETURN_VALUE")


def interrupted_at(
    at: int, run: Callable[[], object], sources: tuple[str, ...] = (TENURE,), *, anywhere: bool = True
) -> str:
    """Run with one interrupt. Returns where it came, or nothing if the run was over before."""
    interrupter = Interrupter(at, sources, anywhere=anywhere)
    before = sys.gettrace()
    # Python 3.12 reports instructions only if some frame asked for them before tracing begins.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(interrupter)
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return interrupter.where


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


def is_free(coordinator: Any) -> bool:
    state = coordinator.state("job", consistent=True)
    return (state.leader, state.waiters) == (None, 0)


WAYS = [plainly, failing, within, within_a_generator]


@pytest.fixture
def _no_collector() -> Iterator[None]:
    """What is released must not be so by luck."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("run", WAYS)
def test_an_interrupt_at_any_instruction_leaves_no_lease__D1(run: Callable[[Any, list[int]], None]) -> None:
    for at in range(1, 2000):
        coordinator, calls = FakeCoordinator(), list[int]()
        where = interrupted_at(at, functools.partial(run, coordinator, calls))
        if not where:
            break
        assert not coordinator.held, f"instruction {at}, {where}"
        assert len(coordinator.acquired) <= 1
        assert len(calls) <= len(coordinator.acquired)
        if not calls and coordinator.outcomes:
            # Nothing ran, so the minimum lease must not be held against the next.
            assert list(coordinator.outcomes.values()) in ([Outcome.NOT_STARTED], [Outcome.CANCELLED])
        assert tenure.current_lease() is None, f"instruction {at}, {where}"
    assert at > 100


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("run", WAYS)
def test_an_interrupt_anywhere_in_the_client_leaves_no_lease_either__D1(run: Callable[[Any, list[int]], None]) -> None:
    with tenure.local() as coordinator:
        for at in range(1, 2000):
            calls: list[int] = []
            where = interrupted_at(at, functools.partial(run, coordinator, calls), (TENURE, CLIENT), anywhere=False)
            if not where:
                break
            eventually(functools.partial(is_free, coordinator), what=f"the name is free, point {at}, {where}")
            assert len(calls) <= 1
    assert at > 50
