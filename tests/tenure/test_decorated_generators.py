"""Decorated generators and async generators: the lease spans the iteration, and ends with it, however it ends.

Knows: the public decorators, the fake coordinator. Must not know: how they are made.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import inspect
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

import pytest

import tenure
from cluster.opcodes import Outcome
from tenure import (
    AsyncLeaderElector,
    ElectionOptions,
    LeaderElector,
    UsageError,
    leader_only,
)
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_decorated import OUTAGES, Iterated, collected, outage
from tests.tenure.support_tasks import turns

pytestmark = pytest.mark.fast


def test_a_decorated_generator_is_one_still() -> None:
    made = Iterated()
    assert inspect.isgeneratorfunction(made.steps)
    assert inspect.isasyncgenfunction(made.async_steps)
    assert made.steps.__name__ == "_steps"


def test_the_lease_spans_the_iteration_and_only_its_steps_stand_under_it__D7() -> None:
    made = Iterated()

    def consume() -> str:
        walk = made.steps(first=5)
        assert not made.coordinator.held
        items = [next(walk)]
        lease = made.coordinator.held["job-5"]
        assert tenure.current_lease() is None
        items += [walk.send("sent"), walk.throw(LookupError("thrown"))]
        assert made.coordinator.held
        assert items == [5, 6, 7]
        with pytest.raises(StopIteration) as end:
            next(walk)
        assert [str(each) for each in made.seen if each is not lease] == ["sent", "thrown", "None"]
        assert made.seen.count(lease) == 4
        value: str = end.value.value
        return value

    assert consume() == "value"
    assert made.closed
    assert made.outcomes == [Outcome.COMPLETED]


def test_the_lease_of_an_async_generator_spans_the_iteration__D7() -> None:
    made = Iterated()

    async def main() -> None:
        walk = made.async_steps(first=5)
        items = [await walk.__anext__()]
        lease = made.coordinator.held["job-5"]
        assert tenure.current_lease() is None
        items += [await walk.asend("sent"), await walk.athrow(LookupError("thrown"))]
        assert made.coordinator.held
        with pytest.raises(StopAsyncIteration):
            await walk.__anext__()
        assert items == [5, 6, 7]
        assert [str(each) for each in made.seen if each is not lease] == ["sent", "thrown", "None"]
        assert made.seen.count(lease) == 4
        assert lease.lost.watched == 0

    asyncio.run(main())
    assert made.closed
    assert made.outcomes == [Outcome.COMPLETED]


@pytest.mark.parametrize("how", ["close", "drop", "throw"])
def test_a_generator_that_is_left_gives_its_name_back__rule_4(how: str) -> None:
    made = Iterated()
    walk = made.steps()
    next(walk)
    lease = made.coordinator.held["job-0"]
    if how == "close":
        walk.close()
    elif how == "throw":
        with pytest.raises(KeyboardInterrupt):
            walk.throw(KeyboardInterrupt())
    del walk
    gc.collect()
    assert made.closed
    assert made.seen[-1] is lease
    assert made.outcomes == [Outcome.CANCELLED]
    assert tenure.current_lease() is None


@pytest.mark.parametrize("how", ["close", "drop", "throw", "end of the loop"])
def test_an_async_generator_that_is_left_gives_its_name_back__rule_4(how: str) -> None:
    made = Iterated()

    async def main() -> None:
        walk = made.async_steps()
        await walk.__anext__()
        if how == "close":
            made.coordinator.hold_releases = True
            closing = asyncio.ensure_future(walk.aclose())
            await turns(5)
            assert not closing.done()
            made.coordinator.let_releases_go()
            await closing
        elif how == "throw":
            with pytest.raises(ValueError, match="mine"):
                await walk.athrow(ValueError("mine"))
        elif how == "end of the loop":
            kept.append(walk)
        else:
            del walk
            gc.collect()
            await turns(5)
            assert not made.coordinator.held

    kept: list[Any] = []
    asyncio.run(main())
    assert made.closed
    assert made.outcomes == [Outcome.FAILED if how == "throw" else Outcome.CANCELLED]


def test_a_call_that_fits_no_generator_holds_nothing__rule_4() -> None:
    made = Iterated()

    def with_connection(function: Any) -> Callable[..., AsyncIterator[int]]:
        @functools.wraps(function)
        async def call(connection: object, *args: Any) -> AsyncIterator[int]:
            async for item in function(*args):
                yield item

        return call

    @leader_only(AsyncLeaderElector(made.coordinator), "job")
    @with_connection
    async def rows() -> AsyncIterator[int]:
        yield 1

    async def main() -> None:
        with pytest.raises(TypeError, match="connection"):
            await rows().__anext__()
        gc.collect()
        assert not made.coordinator.held

    asyncio.run(main())


@pytest.mark.parametrize("begun_in_the_loop", [True, False])
def test_a_loop_that_is_closed_under_an_iteration_leaves_no_lease__rule_4(begun_in_the_loop: bool) -> None:
    made = Iterated()
    loop = asyncio.new_event_loop()
    walk = made.async_steps()

    async def first(walk: AsyncIterator[int]) -> None:
        await walk.__anext__()

    # What begins outside of a loop is not known to the loop, which then does not take part in its end.
    loop.run_until_complete(first(walk) if begun_in_the_loop else walk.__anext__())
    loop.close()
    assert made.coordinator.held
    del walk
    gc.collect()
    assert not made.coordinator.held


def test_a_step_that_is_closed_gives_the_name_back_without_awaiting__rule_4() -> None:
    made = Iterated()

    @leader_only(AsyncLeaderElector(made.coordinator, ElectionOptions(on_lost="signal")), "job")
    async def steps() -> AsyncIterator[int]:
        await asyncio.Event().wait()
        yield 1

    async def main() -> None:
        made.coordinator.hold_releases = True
        coroutine = _awaiting(steps().__anext__())
        for _ in range(3):
            coroutine.send(None)
        assert made.coordinator.held
        coroutine.close()
        del coroutine
        gc.collect()
        await turns(5)
        assert made.outcomes == [Outcome.CANCELLED]

    asyncio.run(main())


async def _awaiting(step: Any) -> Any:
    return await step


def test_what_a_generator_raises_is_raised_after_the_release__rule_3() -> None:
    coordinator: Any = FakeCoordinator()
    error = ValueError("mine")

    @leader_only(LeaderElector(coordinator), "job")
    def steps() -> Generator[int, None, None]:
        yield 1
        raise error

    @leader_only(AsyncLeaderElector(coordinator), "job")
    async def async_steps() -> AsyncIterator[int]:
        yield 1
        raise error

    async def main() -> None:
        async for _ in async_steps():
            pass

    for consume in (lambda: list(steps()), lambda: asyncio.run(main())):
        with pytest.raises(ValueError, match="mine") as caught:
            consume()
        assert caught.value is error
    assert list(coordinator.outcomes.values()) == [Outcome.FAILED] * 2


@pytest.mark.parametrize("mode", ["raise", "skip", "run_anyway"])
def test_a_name_that_others_hold_yields_nothing_in_every_mode__rule_2(mode: str) -> None:
    made = Iterated(failure_mode=mode)
    holder = made.steps()
    next(holder)
    other = made.steps()
    with pytest.raises(StopIteration) as end:
        next(other)
    assert end.value.value is None
    assert asyncio.run(collected(made.async_steps())) == []
    assert len(made.seen) == 1


@pytest.mark.parametrize("error", OUTAGES)
def test_an_outage_is_raised_skipped_or_run_unled__rule_6(error: Exception) -> None:
    for mode in ("raise", "skip", "run_anyway"):
        made = Iterated(failure_mode=mode)
        outage(made.coordinator, error)
        for consume in (made.all_steps, made.all_async_steps):
            if mode == "raise":
                with pytest.raises(type(error)) as caught:
                    consume()
                assert caught.value is error
            else:
                assert consume() == ([] if mode == "skip" else [0, 1, 2])
        unled = [True, None, True, None, True, None, True]
        assert made.seen == (unled * 2 if mode == "run_anyway" else [])
        assert not tenure.runs_unled()


def test_a_bad_name_is_raised_at_the_first_step_and_nothing_runs__B6() -> None:
    made = Iterated(failure_mode="run_anyway")
    outage(made.coordinator, OUTAGES[0])
    for consume in (lambda: next(made.steps(None)), lambda: asyncio.run(collected(made.async_steps("a b")))):
        with pytest.raises(UsageError, match="name"):
            consume()
    assert made.seen == []


def test_an_iteration_may_go_on_in_another_context() -> None:
    made = Iterated()
    walk = made.steps()
    contextvars.copy_context().run(next, walk)
    next(walk)
    contextvars.copy_context().run(walk.close)
    assert tenure.current_lease() is None
    assert len([each for each in made.seen if each is not None]) == 3
    assert made.outcomes == [Outcome.CANCELLED]


def test_a_real_name_is_held_until_the_iteration_ends__rule_4() -> None:
    with tenure.local() as coordinator:
        elector = LeaderElector(coordinator, ElectionOptions(wait_time=0))

        @leader_only(elector, "job")
        def steps() -> Generator[int, None, None]:
            tenure.assert_leader("job", verify=True)
            yield 1
            yield 2

        for _ in steps():
            assert elector.run_if_leader("job", lambda: True) is None
            assert list(steps()) == []
        assert elector.run_if_leader("job", lambda: True) is True

        @leader_only(AsyncLeaderElector(coordinator, ElectionOptions(wait_time=0)), "job")
        async def async_steps() -> AsyncIterator[int]:
            await tenure.aio.assert_leader("job", verify=True)
            yield 1
            yield 2

        async def main() -> list[int]:
            found = []
            async for item in async_steps():
                assert [other async for other in async_steps()] == []
                found.append(item)
            return found

        assert asyncio.run(main()) == [1, 2]
        assert elector.run_if_leader("job", lambda: True) is True
