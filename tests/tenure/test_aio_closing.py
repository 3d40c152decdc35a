"""Ways out of asyncio work that are no cancellation: generators and coroutines closed, interrupts, loops that end (rule 4, D1, D3).

Knows: coroutines that are driven by hand. Must not know: the elector's steps.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

import tenure
from cluster.opcodes import Outcome
from tenure import AsyncLeaderElector
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_tasks import raising, turns, waiting

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Tasks of closed loops are logged when they are collected: here, and not in the middle of a test that counts lines."""
    yield
    gc.collect()


def made() -> tuple[Any, AsyncLeaderElector]:
    coordinator: Any = FakeCoordinator()
    return coordinator, AsyncLeaderElector(coordinator)


def test_a_closed_async_generator_releases__rule_4() -> None:
    coordinator, elector = made()

    async def steps() -> AsyncGenerator[int, None]:
        async with elector.leading("job"):
            yield 1

    async def main() -> None:
        made_steps = steps()
        assert await made_steps.__anext__() == 1
        assert "job" in coordinator.held
        await made_steps.aclose()

    asyncio.run(main())
    assert coordinator.outcomes == {1: Outcome.CANCELLED}


def test_a_closed_coroutine_releases_without_awaiting__rule_4() -> None:
    coordinator, elector = made()

    async def body() -> None:
        async with elector.leading("job"):
            await waiting()

    async def main() -> None:
        for run in (body(), elector.run_if_leader("job", waiting)):
            # Driven by hand, so that it can be closed where it stands: twice through the acquisition, then into the work.
            for _ in range(3):
                run.send(None)
                await turns(2)
            assert coordinator.held
            run.close()
            await turns(4)
            assert not coordinator.held

    asyncio.run(main())
    assert list(coordinator.outcomes.values()) == [Outcome.CANCELLED, Outcome.CANCELLED]


def test_an_interrupt_in_the_loop_ends_the_work_before_the_release__D1() -> None:
    coordinator, elector = made()
    held_at_end: list[bool] = []

    async def action() -> None:
        try:
            await waiting()
        finally:
            await turns(3)
            held_at_end.append("job" in coordinator.held)

    async def main() -> None:
        run = elector.run_if_leader("job", action)
        for _ in range(3):
            run.send(None)
            await turns(2)
        # As a signal handler does it that raises while this task takes a step.
        run.throw(KeyboardInterrupt())
        await turns(10)
        with pytest.raises(KeyboardInterrupt):
            run.send(None)

    asyncio.run(main())
    assert held_at_end == [True]
    assert coordinator.outcomes == {1: Outcome.CANCELLED}


def test_work_on_a_loop_that_was_closed_holds_nothing__D3() -> None:
    coordinator, elector = made()
    loop = asyncio.new_event_loop()
    run = elector.run_if_leader("job", waiting)
    task = loop.create_task(run)
    loop.run_until_complete(turns(8))
    assert coordinator.held
    loop.close()
    run.close()
    assert not coordinator.held
    del task


def test_system_exit_ends_the_loop_and_leaves_no_lease__rule_4() -> None:
    for error in (SystemExit(3), KeyboardInterrupt()):
        coordinator, elector = made()
        with pytest.raises(type(error)) as caught:
            asyncio.run(elector.run_if_leader("job", raising, error))
        assert caught.value is error
        assert not coordinator.held


@pytest.mark.parametrize("latch", [True, False])
def test_a_latch_or_a_schedule_of_a_closed_coroutine_ends_without_awaiting__rule_4(latch: bool) -> None:
    async def work(due: Any) -> None: ...

    async def body(of: Any) -> None:
        async with of:
            await waiting()

    async def main() -> None:
        with tenure.local() as coordinator:
            if latch:
                of: Any = tenure.AsyncLeaderLatch(coordinator)
                await of.start("job")
                assert await of.wait(20)
            else:
                of = tenure.leader_scheduled(AsyncLeaderElector(coordinator), "job", every=3600)(work)
            run = body(of)
            run.send(None)
            task = of._task
            run.close()
            await asyncio.wait({task}, timeout=20)
            assert task.done()
            assert (await coordinator.aio.state("job")).status == "free"

    asyncio.run(main())
