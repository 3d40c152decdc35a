"""Who gives up leaves nothing behind: no lease, no place in a queue, no timer, no task (C4, C10, A1).

Knows: the ways to give up. Must not know: how the client tidies up.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.errors import Indeterminate, Unavailable, UsageError
from cluster.opcodes import Op, Outcome, Status
from tests.client.fakeserver import LOST_REPLY, SEVERED_AFTER, Fate
from tests.client.support import World, counts, outcome_of, story

pytestmark = pytest.mark.fast


async def cancelled(task: asyncio.Future[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_attempt_whose_grant_arrives_later_is_abandoned_at_once__C10() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.once(Op.ACQUIRE, Fate(late_s=0.5))
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=60))
        await world.advance(0.1)
        assert world.cluster.table.lease_count == 1
        await cancelled(task)
        await world.until(lambda: world.cluster.table.lease_count == 0, within_s=0.6)
        assert world.cluster.codes()[-1] == Op.ABANDON

    story(tell)


def test_a_cancelled_wait_leaves_its_queue__A1() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        blocker = await other.aio.acquire("job", lease_time=60)
        assert blocker is not None
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=60, wait_time=30))
        await world.advance(2)
        assert len(world.cluster.waiting) == 1
        await cancelled(task)
        await world.advance(0.01)
        assert not world.cluster.waiting
        await blocker.release()
        await world.advance(0.1)
        assert world.cluster.table.lease_count == 0
        await other.aio.close(limit=0)

    story(tell)


def test_a_wait_that_is_cancelled_just_as_it_is_granted_is_given_back__C10() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        blocker = await other.aio.acquire("job", lease_time=60)
        assert blocker is not None
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=60, wait_time=30))
        await world.advance(2)
        await blocker.release()
        # The grant is on its way, and nobody wants it any more.
        await cancelled(task)
        await world.until(lambda: world.cluster.table.lease_count == 0, within_s=0.2)
        await other.aio.close(limit=0)

    story(tell)


def test_a_grant_in_the_very_turn_of_the_cancellation_is_given_back__C10() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=60))
        await world.until(lambda: world.coordinator._port.engine.leases)
        # The future has its result, the task has not run yet.
        task.cancel()
        found = await outcome_of(_result(task))
        if not isinstance(found, asyncio.CancelledError):
            assert not isinstance(found, BaseException)
            await found.release()
        await world.until(lambda: world.cluster.table.lease_count == 0, within_s=0.2)

    story(tell)


async def _result(task: asyncio.Future[Any]) -> Any:
    return await task


def test_an_attempt_that_was_never_sent_is_forgotten() -> None:
    async def tell(world: World) -> None:
        world.cluster.up.clear()
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=60))
        await world.advance(0.5)
        await cancelled(task)
        await world.advance(0.1)
        assert not world.counts()
        world.cluster.up.update(world.cluster.addresses)
        await world.advance(1)
        assert Op.ABANDON not in world.cluster.codes()

    story(tell)


def test_abandoning_is_tried_again_across_a_failover__C4() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.once(Op.ACQUIRE, Fate(late_s=0.2))
        world.cluster.once(Op.ABANDON, SEVERED_AFTER)
        world.cluster.once(Op.ABANDON, Fate(answer=[int(Status.UNSURE)]))
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=60))
        await world.advance(0.1)
        await cancelled(task)
        await world.until(lambda: not world.counts(), within_s=10)
        assert len({request.op[1] for request in world.cluster.of(Op.ABANDON)}) == 1
        assert len(world.cluster.of(Op.ABANDON)) == 3
        assert world.cluster.table.lease_count == 0

    story(tell)


def test_abandoning_ends_when_the_lease_could_have_expired() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.once(Op.ACQUIRE, LOST_REPLY)
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=20))
        await world.advance(0.1)
        await cancelled(task)
        world.cluster.up.clear()
        for conn in list(world.cluster.conns):
            conn.sever()
        took = await world.until(lambda: not world.counts(), within_s=60)
        assert 20 < took < 30
        # In the background it looks for a leader at leisure.
        assert len([1 for _, at in world.cluster.dialled if at > world.now - 15]) < 40

    story(tell)


def test_all_names_of_a_set_are_abandoned__C4() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.once(Op.ACQUIRE_ALL, Fate(late_s=0.2))
        task = asyncio.ensure_future(world.aio.acquire_all(["a", "b", "c"], lease_time=60))
        await world.advance(0.1)
        assert world.cluster.table.lease_count == 3
        await cancelled(task)
        await world.until(lambda: world.cluster.table.lease_count == 0, within_s=0.5)

    story(tell)


def test_an_attempt_cancelled_while_its_session_opens_leaves_no_lease() -> None:
    async def tell(world: World) -> None:
        world.cluster.always(Op.SESSION_OPEN, Fate(late_s=0.3))
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=60, auto_extend=True))
        await world.advance(0.1)
        await cancelled(task)
        await world.advance(1)
        assert Op.ACQUIRE not in world.cluster.codes()
        assert not world.counts()

    story(tell)


def test_a_thousand_cancellations_leave_nothing__C4() -> None:
    async def tell(world: World) -> None:
        rng = world.env.random
        await world.aio.state("job")
        world.cluster.always(Op.ACQUIRE, Fate(late_s=0.005))
        for round_ in range(100):
            tasks = [
                asyncio.ensure_future(
                    world.aio.acquire(
                        f"job/{rng.randrange(5)}",
                        lease_time=60,
                        wait_time=rng.choice([0, 0, 30]),
                        auto_extend=rng.random() < 0.3,
                    )
                )
                for _ in range(10)
            ]
            await world.advance(rng.uniform(0, 0.02))
            if round_ % 20 == 7:
                world.cluster.conns[0].sever()
            for task in tasks:
                task.cancel()
            for lease in await asyncio.gather(*tasks, return_exceptions=True):
                assert not isinstance(lease, Exception)
                if lease is not None and not isinstance(lease, BaseException):
                    await lease.release(Outcome.NOT_STARTED)
        await world.until(lambda: not world.counts())
        assert world.cluster.table.lease_count == 0
        assert not world.cluster.waiting
        assert len(asyncio.all_tasks()) <= 1

    story(tell)


def test_waiting_attempts_end_with_their_coordinator() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        blocker = await other.aio.acquire("job", lease_time=60)
        assert blocker is not None
        task = asyncio.ensure_future(world.aio.acquire("job", wait_time=30))
        await world.advance(1)
        await world.aio.close(limit=1)
        with pytest.raises((Unavailable, Indeterminate), match="clos"):
            await task
        assert not world.cluster.waiting
        with pytest.raises(UsageError, match="closed"):
            await world.aio.acquire("job")
        with pytest.raises(UsageError, match="closed"):
            await world.aio.state("job")
        await world.aio.close()
        await blocker.release()
        await other.aio.close(limit=0)
        assert not counts(other)

    story(tell)


def test_what_is_granted_after_it_was_given_up_for_too_long_is_abandoned_too__C10() -> None:
    """Nobody waits for its answer any more, and on a session that goes on it would live as long as the session."""

    async def tell(world: World) -> None:
        keep = await world.aio.acquire("keep", lease_time=1, auto_extend=True)
        assert keep is not None
        world.cluster.once(Op.ACQUIRE, Fate(late_s=60))
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=1, auto_extend=True))
        await world.advance(0.1)
        assert world.cluster.table.lease_count == 2
        await cancelled(task)
        await world.until(lambda: world.cluster.table.lease_count == 1, within_s=10)
        assert await keep.release()

    story(tell)
