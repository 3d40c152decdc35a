"""Which lease running code stands under: tasks, threads, generators (D5, rule 8).

Knows: ``current_lease`` and what is built on it. Must not know: electors' steps.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Generator
from typing import Any

import pytest

import tenure
from tenure import (
    AsyncLeaderElector,
    ElectionOptions,
    Extended,
    LeaderElector,
    LeaseLost,
    NotLeaderError,
    UsageError,
    assert_leader,
    current_lease,
    extend_lease,
)
from tests.tenure.fake import FakeCoordinator

pytestmark = pytest.mark.fast


def elector() -> tuple[Any, LeaderElector]:
    coordinator: Any = FakeCoordinator()
    return coordinator, LeaderElector(coordinator)


def test_the_innermost_lease_is_shown_unless_a_name_is_given__rule_8() -> None:
    _, leader = elector()
    assert current_lease() is None
    with leader.leading("outer") as outer, leader.leading("inner") as inner:
        assert current_lease() is inner
        assert current_lease("outer") is outer
        assert current_lease("other") is None
    assert current_lease() is None


def test_a_thread_sees_the_lease_only_with_the_context() -> None:
    _, leader = elector()
    seen: list[object] = []
    with leader.leading("job") as lease:
        plain = threading.Thread(target=lambda: seen.append(current_lease()))
        copied = threading.Thread(target=contextvars.copy_context().run, args=(lambda: seen.append(current_lease()),))
        for thread in (plain, copied):
            thread.start()
            thread.join()
    assert seen == [None, lease]


def test_child_tasks_see_the_lease_and_change_nothing_for_their_parent__D5() -> None:
    coordinator: Any = FakeCoordinator()
    leader = AsyncLeaderElector(coordinator)

    async def child() -> object:
        async with leader.leading("inner"):
            await asyncio.sleep(0)
            return current_lease("job")

    async def action() -> None:
        lease = current_lease()
        found = await asyncio.gather(child(), asyncio.to_thread(current_lease))
        assert lease is not None
        assert all(each is lease for each in found)
        assert current_lease() is lease

    async def main() -> None:
        await leader.run_if_leader("job", action)
        assert current_lease() is None

    asyncio.run(main())


def test_a_generator_that_is_closed_in_another_context_takes_nothing_else_with_it() -> None:
    _, leader = elector()

    def steps() -> Generator[int, None, None]:
        with leader.leading("job"):
            yield 1

    made = steps()
    contextvars.copy_context().run(next, made)
    with leader.leading("other") as other:
        made.close()
        assert current_lease() is other


def test_assert_leader_needs_a_lease_that_is_not_lost() -> None:
    coordinator, leader = elector()
    for name in (None, "job"):
        with pytest.raises(NotLeaderError, match="'job'" if name else "any name"):
            assert_leader(name)

    def action() -> None:
        lease = assert_leader()
        assert assert_leader("job") is lease
        with pytest.raises(NotLeaderError, match="'other'"):
            assert_leader("other")
        coordinator.lose("job")
        # The lost lease stays the one that this code runs under.
        assert current_lease() is lease
        for name in (None, "job"):
            with pytest.raises(NotLeaderError, match="job"):
                assert_leader(name)

    assert isinstance(leader.run_if_leader_result("job", action), LeaseLost)


def test_the_lease_is_extended_from_inside__I4() -> None:
    options = ElectionOptions(lease_time=30)
    with tenure.local() as coordinator:

        def action() -> float:
            lease = assert_leader()
            assert lease.remaining() <= 30
            outcome = extend_lease(90)
            assert isinstance(outcome, Extended)
            with pytest.raises(UsageError, match="lease_time"):
                extend_lease(0)
            with pytest.raises(NotLeaderError):
                extend_lease(90, "other")
            return lease.remaining()

        async def async_action() -> float:
            lease = assert_leader()
            assert isinstance(await tenure.aio.extend_lease(90), Extended)
            with pytest.raises(UsageError, match=r"tenure\.aio"):
                extend_lease(90)
            return lease.remaining()

        async def wrong_form() -> None:
            await tenure.aio.extend_lease(90)

        def wrong() -> None:
            with pytest.raises(UsageError, match=r"tenure\.extend_lease"):
                asyncio.run(wrong_form())

        leader = LeaderElector(coordinator, options)
        assert 80 < (leader.run_if_leader("job", action) or 0) <= 90
        assert (
            80 < (asyncio.run(AsyncLeaderElector(coordinator, options).run_if_leader("job", async_action)) or 0) <= 90
        )
        leader.run_if_leader("job", wrong)
