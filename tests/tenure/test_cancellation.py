"""Cancelled at any turn of the loop, an asyncio elector swallows nothing and leaves nothing (rule 5, C4, C8, C9, C10).

Knows: tasks and turns of a loop. Must not know: the elector's steps.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import tenure
from cluster.opcodes import Outcome
from tenure import AsyncLeaderElector, Elected, ElectionOptions, LeaseLost, LeaseLostError, current_lease
from tests.support import eventually
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_tasks import turns

pytestmark = pytest.mark.fast

TURNS = 24
GIVEN_BACK_WITHIN_S = 10.0


class Diary:
    """What an action noted of itself."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.swallowed = False
        self.held_at_end = True


async def brief(diary: Diary, coordinator: Any, work: int = 4) -> int:
    """Works for a few turns, and cleans up for a few more, also when it is cancelled."""
    diary.begun += 1
    try:
        await turns(work)
    finally:
        try:
            await turns(3)
        except asyncio.CancelledError:
            diary.swallowed = True
        diary.ended += 1
        if isinstance(coordinator, FakeCoordinator):
            diary.held_at_end = "job" in coordinator.held
    return 5


def by_call(elector: AsyncLeaderElector, diary: Diary, coordinator: Any) -> Coroutine[Any, Any, object]:
    return elector.run_if_leader("job", brief, diary, coordinator)


def by_result(elector: AsyncLeaderElector, diary: Diary, coordinator: Any) -> Coroutine[Any, Any, object]:
    return elector.run_if_leader_result("job", brief, diary, coordinator)


async def by_body(elector: AsyncLeaderElector, diary: Diary, coordinator: Any) -> object:
    async with elector.leading("job"):
        return await brief(diary, coordinator)


WAYS = [by_call, by_result, by_body]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hold_releases", [False, True])
def test_a_cancellation_at_any_turn_is_raised_and_leaves_no_lease__rule_5__C10(
    way: Callable[..., Coroutine[Any, Any, object]], hold_releases: bool
) -> None:
    cancelled = []
    for at in range(TURNS):
        coordinator: Any = FakeCoordinator()
        coordinator.hold_releases = hold_releases
        diary = Diary()
        cancelled.append(asyncio.run(cancel_at(at, way, coordinator, diary)))
        assert not coordinator.held
        assert diary.begun == diary.ended <= 1
        assert diary.held_at_end, "released while the work still ran"
        if not diary.begun:
            assert set(coordinator.outcomes.values()) <= {Outcome.NOT_STARTED, Outcome.CANCELLED}
    assert cancelled[0]
    assert hold_releases or not cancelled[-1]


async def cancel_at(at: int, way: Callable[..., Coroutine[Any, Any, object]], coordinator: Any, diary: Diary) -> bool:
    """Cancel at this turn. Returns whether there was anything to cancel; then the cancellation is what came out."""
    task = asyncio.ensure_future(way(AsyncLeaderElector(coordinator), diary, coordinator))
    await turns(at)
    was_cancelled = task.cancel()
    await turns(TURNS)
    coordinator.let_releases_go()
    await asyncio.wait({task})
    # What the body of a ``with`` itself swallows, the elector never saw.
    assert task.cancelled() == was_cancelled or (way is by_body and diary.swallowed)
    return was_cancelled


@pytest.mark.parametrize("way", WAYS)
def test_a_cancellation_at_any_turn_leaves_nothing_with_a_real_coordinator__C4(
    way: Callable[..., Coroutine[Any, Any, object]],
) -> None:
    async def main(coordinator: Any) -> None:
        for at in range(TURNS):
            diary = Diary()
            task = asyncio.ensure_future(way(AsyncLeaderElector(coordinator), diary, coordinator))
            await turns(at)
            task.cancel()
            await asyncio.wait({task})
            assert diary.begun == diary.ended <= 1
            # A grant that was on its way when its caller gave up is answered first, and then given back.
            until = time.monotonic() + GIVEN_BACK_WITHIN_S
            state = await coordinator.aio.state("job", consistent=True)
            while (state.leader or state.waiters) and time.monotonic() < until:
                state = await coordinator.aio.state("job", consistent=True)
            assert (state.leader, state.waiters) == (None, 0), f"turn {at}"

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))
        eventually(lambda: not list(coordinator.leases()), what="no lease")


def test_the_release_is_waited_for_through_cancellations__C8() -> None:
    coordinator: Any = FakeCoordinator()
    coordinator.hold_releases = True

    async def main() -> None:
        task = asyncio.ensure_future(AsyncLeaderElector(coordinator).run_if_leader("job", turns, 1))
        await turns(10)
        assert coordinator.releasing
        for _ in range(3):
            task.cancel()
            await turns(3)
            assert not task.done()
        coordinator.let_releases_go()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
    # The action had come to its end.
    assert coordinator.outcomes == {1: Outcome.COMPLETED}


async def stubborn(diary: list[str]) -> str:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            diary.append(str(error))
            if len(diary) == 2:
                return "value"


def test_every_cancellation_of_the_caller_reaches_the_action__rule_5() -> None:
    coordinator: Any = FakeCoordinator()
    diary: list[str] = []

    async def main() -> None:
        task = asyncio.ensure_future(AsyncLeaderElector(coordinator).run_if_leader("job", stubborn, diary))
        for count in range(2):
            await turns(8)
            assert (not task.done(), len(diary), "job" in coordinator.held) == (True, count, True)
            task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
    assert coordinator.outcomes == {1: Outcome.COMPLETED}


async def cancel_all_at(at: int, coordinator: Any, diary: Diary) -> None:
    """Cancel every other task, as ``asyncio.run`` does when the main task is over."""
    elector = AsyncLeaderElector(coordinator)
    task = asyncio.ensure_future(elector.run_if_leader("job", brief, diary, coordinator, 99))
    await turns(at)
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        each.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


def test_who_cancels_all_tasks_cancels_the_action_once__D1() -> None:
    for at in range(TURNS):
        coordinator: Any = FakeCoordinator()
        diary = Diary()
        asyncio.run(cancel_all_at(at, coordinator, diary))
        assert diary.begun == diary.ended
        assert not diary.swallowed, f"turn {at}: cancelled a second time, in its clean-up"
        assert not coordinator.held


@pytest.mark.parametrize("lost_first", [False, True])
def test_the_callers_cancellation_and_ours_in_the_same_turn_are_told_apart__rule_5__rule_7(lost_first: bool) -> None:
    coordinator: Any = FakeCoordinator()

    async def main() -> None:
        task = asyncio.ensure_future(AsyncLeaderElector(coordinator).run_if_leader_result("job", turns, 99))
        await turns(8)
        if lost_first:
            coordinator.lose("job")
            task.cancel()
        else:
            task.cancel()
            coordinator.lose("job")
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
    assert coordinator.outcomes == {1: Outcome.LOST}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="on Python 3.10 the two are one, as documented")
def test_a_body_tells_the_two_apart_in_the_same_turn__rule_5__rule_7() -> None:
    coordinator: Any = FakeCoordinator()

    async def body() -> None:
        async with AsyncLeaderElector(coordinator).leading("job"):
            await turns(99)

    async def main() -> None:
        task = asyncio.ensure_future(body())
        await turns(8)
        coordinator.lose("job")
        asyncio.get_running_loop().call_soon(task.cancel)
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())


def test_a_cancellation_of_the_actions_own_is_not_lost__rule_5() -> None:
    coordinator: Any = FakeCoordinator()

    async def action() -> None:
        inner = asyncio.ensure_future(turns(99))
        inner.cancel()
        await inner

    for run in ("run_if_leader", "run_if_leader_result"):
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(getattr(AsyncLeaderElector(coordinator), run)("job", action))
    assert set(coordinator.outcomes.values()) == {Outcome.CANCELLED}


def test_what_the_action_raised_on_the_way_out_is_the_cause_of_the_cancellation__rule_5() -> None:
    coordinator: Any = FakeCoordinator()
    error = ValueError("while cleaning up")

    async def action() -> None:
        try:
            await turns(99)
        finally:
            raise error

    async def main() -> None:
        task = asyncio.ensure_future(inner())
        await turns(8)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    # Caught in the same task: on Python 3.10 what awaits a cancelled task gets a new exception.
    async def inner() -> None:
        with pytest.raises(asyncio.CancelledError) as caught:
            await AsyncLeaderElector(coordinator).run_if_leader("job", action)
        assert caught.value.__cause__ is error
        raise caught.value

    asyncio.run(main())


def test_a_timeout_around_the_call_is_a_timeout__rule_5() -> None:
    coordinator: Any = FakeCoordinator()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(_timed_out(coordinator))
    assert not coordinator.held


async def _timed_out(coordinator: Any) -> None:
    elector = AsyncLeaderElector(coordinator)
    if sys.version_info >= (3, 11):
        async with asyncio.timeout(0.02):
            await elector.run_if_leader("job", asyncio.Event().wait)
    else:
        await asyncio.wait_for(elector.run_if_leader("job", asyncio.Event().wait), 0.02)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.timeout came with Python 3.11")
def test_a_timeout_inside_a_body_and_a_loss_stay_apart() -> None:
    if sys.version_info < (3, 11):
        return
    coordinator: Any = FakeCoordinator()
    elector = AsyncLeaderElector(coordinator)

    async def inside() -> None:
        async with elector.leading("job"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await turns(10**9)
            coordinator.lose("job")
            await turns(10**9)

    async def outside() -> None:
        async with asyncio.timeout(0.02), elector.leading("job"):
            await turns(10**9)

    with pytest.raises(LeaseLostError):
        asyncio.run(inside())
    with pytest.raises(TimeoutError):
        asyncio.run(outside())
    assert not coordinator.held


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_an_eager_task_is_under_its_lease_from_its_first_step() -> None:
    coordinator: Any = FakeCoordinator()

    async def action() -> object:
        first = current_lease()
        await asyncio.sleep(0)
        return first is not None and current_lease() is first

    async def main() -> None:
        factory = getattr(asyncio, "eager_task_factory")  # noqa: B009
        asyncio.get_running_loop().set_task_factory(factory)
        elector = AsyncLeaderElector(coordinator)
        assert await elector.run_if_leader("job", action) is True
        task = asyncio.ensure_future(elector.run_if_leader("job", turns, 99))
        await turns(8)
        coordinator.lose("job")
        with pytest.raises(LeaseLostError):
            await task

    asyncio.run(main())


async def lose_at(at: int, coordinator: Any, diary: Diary) -> object:
    elector = AsyncLeaderElector(coordinator)
    task = asyncio.ensure_future(elector.run_if_leader_result("job", brief, diary, coordinator))
    await turns(at)
    if "job" in coordinator.held:
        coordinator.lose("job")
    return await task


def test_a_loss_at_any_turn_is_lost_or_came_too_late__rule_7() -> None:
    kinds = []
    for at in range(TURNS):
        coordinator: Any = FakeCoordinator()
        diary = Diary()
        result = asyncio.run(lose_at(at, coordinator, diary))
        kinds.append(type(result))
        assert isinstance(result, (Elected, LeaseLost))
        assert diary.begun == diary.ended <= 1
        assert not coordinator.held
        assert (coordinator.outcomes[1] is Outcome.COMPLETED) == isinstance(result, Elected)
    assert LeaseLost in kinds
    assert kinds[-1] is Elected


def test_a_thread_tells_of_the_loss_as_the_real_client_does__rule_7() -> None:
    coordinator: Any = FakeCoordinator()

    async def main() -> None:
        elector = AsyncLeaderElector(coordinator, ElectionOptions())
        task = asyncio.ensure_future(elector.run_if_leader_result("job", asyncio.Event().wait))
        await turns(8)
        await asyncio.get_running_loop().run_in_executor(None, coordinator.lose, "job")
        assert await task == LeaseLost(None, None, 1)

    asyncio.run(main())
