"""Decorated generators whose lease is lost, and who iterates is cancelled (rules 5 and 7).

Knows: the public decorators, the fake coordinator. Must not know: how they are made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from cluster.opcodes import Outcome
from tenure import (
    AsyncLeaderElector,
    ElectionOptions,
    LeaseLostError,
    leader_only,
)
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_decorated import Iterated, collected
from tests.tenure.support_tasks import turns

pytestmark = pytest.mark.fast

SIGNAL = ElectionOptions(on_lost="signal")


def test_a_lease_that_is_lost_between_steps_ends_the_iteration__rule_7() -> None:
    made = Iterated()
    walk = made.steps()
    next(walk)
    made.coordinator.lose("job-0")
    with pytest.raises(LeaseLostError):
        next(walk)

    async def main() -> None:
        steps = made.async_steps()
        await steps.__anext__()
        made.coordinator.lose("job-0")
        # The code between the steps is not cancelled.
        await turns(5)
        with pytest.raises(LeaseLostError):
            await steps.__anext__()

    assert made.closed
    made.closed = False
    asyncio.run(main())
    assert made.closed
    assert made.outcomes == [Outcome.LOST] * 2
    assert len(made.seen) == 4


def test_a_lost_lease_cancels_the_step_and_nothing_else__rule_7() -> None:
    coordinator: Any = FakeCoordinator()
    ended: list[str] = []

    @leader_only(AsyncLeaderElector(coordinator), "job")
    async def steps() -> AsyncIterator[int]:
        yield 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        walk = steps()
        await walk.__anext__()
        asyncio.get_running_loop().call_soon(coordinator.lose, "job")
        with pytest.raises(LeaseLostError):
            await walk.__anext__()
        # Our own cancellation was taken back.
        await asyncio.sleep(0)

    asyncio.run(main())
    assert ended == ["cancelled"]
    assert list(coordinator.outcomes.values()) == [Outcome.LOST]


def test_a_cancelled_step_is_cancelled_after_the_release__rule_5() -> None:
    coordinator: Any = FakeCoordinator()

    @leader_only(AsyncLeaderElector(coordinator), "job")
    async def steps() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.ensure_future(collected(steps()))
        await turns(5)
        assert coordinator.held
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not coordinator.held

    asyncio.run(main())
    assert list(coordinator.outcomes.values()) == [Outcome.CANCELLED]


def test_a_lost_lease_is_only_signalled_when_asked_so__rule_7() -> None:
    made = Iterated(SIGNAL)
    walk = made.steps()
    next(walk)
    made.coordinator.lose("job-0")
    items = [next(walk), next(walk)]
    with pytest.raises(LeaseLostError):
        next(walk)

    async def main() -> None:
        steps = made.async_steps()
        items.append(await steps.__anext__())
        made.coordinator.lose("job-0")
        items.extend([await steps.__anext__(), await steps.__anext__()])
        with pytest.raises(LeaseLostError):
            await steps.__anext__()

    asyncio.run(main())
    assert items == [1, 2, 0, 1, 2]
    assert made.outcomes == [Outcome.LOST] * 2


def test_a_lease_that_is_lost_before_the_start_runs_nothing__rule_7() -> None:
    made = Iterated(SIGNAL)
    made.coordinator.born_lost = True
    consumers: list[Callable[[], Any]] = [
        lambda: list(made.steps()),
        lambda: asyncio.run(collected(made.async_steps(1))),
    ]
    for consume in consumers:
        with pytest.raises(LeaseLostError):
            consume()
    assert made.seen == []
    assert made.outcomes == [Outcome.NOT_STARTED] * 2
