"""Giving a lease back: once, surely, never a successor's, and never under running work.

Knows: what release, ``with`` and close promise. Must not know: how they are sent.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from cluster.client import AsyncLease
from cluster.errors import Indeterminate, LeaseLostError, Unavailable
from cluster.opcodes import Op, Outcome
from tests.client.fakeserver import LOST_REPLY, Fate
from tests.client.support import World, armed, outcome_of, story

pytestmark = pytest.mark.fast


async def held(world: World, name: str = "job", lease_time: float = 60.0, **more: object) -> AsyncLease:
    lease = await world.aio.acquire(name, lease_time=lease_time, **more)  # type: ignore[arg-type]
    assert lease is not None
    return lease


def test_a_handle_is_single_use() -> None:
    async def tell(world: World) -> None:
        lease = await held(world)
        assert await lease.release() is True
        assert await lease.release() is False
        assert (lease.confidence, lease.remaining(), lease.lost.is_set()) == ("lost", 0.0, False)
        with pytest.raises(LeaseLostError, match="released"):
            lease.check()
        with pytest.raises(LeaseLostError):
            async with lease:
                pytest.fail("the body ran without the lease")
        assert len(world.cluster.of(Op.RELEASE)) == 1
        again = await held(world)
        assert again.token > lease.token
        await again.release()

    story(tell)


def test_a_release_leaves_no_timer__C4() -> None:
    async def tell(world: World) -> None:
        leases = [await held(world, f"job/{n}") for n in range(5)]
        leases += [await held(world, f"auto/{n}", auto_extend=True) for n in range(5)]
        assert armed(world.loop)
        for lease in leases:
            await lease.release()
        # What is left is the link's own pulse, which ends by itself.
        assert set(armed(world.loop)) <= {"Link._beat"}
        await world.advance(1)
        assert not armed(world.loop)

    story(tell)


def test_a_late_release_does_not_free_the_successor__C1() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, lease_time=1)
        await world.advance(1.5)
        successor = await held(world)
        assert await lease.release() is False
        await world.advance(0.1)
        assert world.cluster.table.rows(b"job", world.cluster.stamp())[0][2] == successor.token
        assert await successor.release() is True

    story(tell)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, Outcome.COMPLETED),
        (ValueError("the body's own"), Outcome.FAILED),
        (KeyboardInterrupt(), Outcome.CANCELLED),
        (asyncio.CancelledError(), Outcome.CANCELLED),
        (GeneratorExit(), Outcome.CANCELLED),
    ],
)
def test_every_way_out_of_with_releases_and_the_bodys_error_wins__C8_D8(
    error: BaseException | None, outcome: Outcome
) -> None:
    async def tell(world: World) -> None:
        async def body() -> str:
            async with await held(world):
                if error is not None:
                    raise error
            return "done"

        found = await outcome_of(body())
        assert found is (error if error is not None else found)
        await world.until(lambda: world.cluster.of(Op.RELEASE))
        assert world.cluster.of(Op.RELEASE)[0].op[4] == outcome
        assert world.cluster.table.lease_count == 0

    story(tell)


def test_the_bodys_error_wins_over_a_release_that_fails__D8(caplog: pytest.LogCaptureFixture) -> None:
    async def tell(world: World) -> None:
        async def body() -> str:
            async with await held(world, lease_time=20):
                for address in world.cluster.addresses:
                    world.cluster.kill(address)
                raise ValueError("the body's own")

        assert str(await outcome_of(body())) == "the body's own"

        async def quiet() -> str:
            world.cluster.up.update(world.cluster.addresses)
            world.cluster.lead("n1:1")
            async with await held(world, "other", lease_time=20):
                for address in world.cluster.addresses:
                    world.cluster.kill(address)
            return "done"

        # The work is done; that the release is not confirmed is said in the log.
        assert await quiet() == "done"

    with caplog.at_level(logging.WARNING, "cluster.client"):
        story(tell, timeout=1.0)
    assert any("release_unconfirmed" in record.getMessage() for record in caplog.records)


def test_a_release_goes_on_in_the_background_until_it_is_done() -> None:
    async def tell(world: World) -> None:
        lease = await held(world)
        world.cluster.kill("n1:1")
        await world.advance(0.01)
        with pytest.raises(Unavailable):
            await lease.release()
        world.cluster.lead("n2:1")
        await world.until(lambda: world.cluster.table.lease_count == 0, within_s=5)

    story(tell, timeout=1.0)


def test_a_release_without_an_answer_is_indeterminate() -> None:
    async def tell(world: World) -> None:
        lease = await held(world)
        world.cluster.always(Op.RELEASE, LOST_REPLY)
        with pytest.raises(Indeterminate):
            await lease.release()
        world.cluster.conns[0].sever()
        world.cluster.rules.clear()

    story(tell, timeout=1.0)


def test_a_cancelled_release_is_done_all_the_same__C8() -> None:
    async def tell(world: World) -> None:
        lease = await held(world)
        task = asyncio.ensure_future(lease.release())
        await asyncio.sleep(0)
        task.cancel()
        assert isinstance(await outcome_of(_await(task)), asyncio.CancelledError)
        await world.until(lambda: world.cluster.table.lease_count == 0, within_s=0.1)
        leases = await world.aio.acquire_all(["a", "b", "c"])
        assert leases is not None
        set_task = asyncio.ensure_future(leases.release())
        await asyncio.sleep(0)
        set_task.cancel()
        assert isinstance(await outcome_of(_await(set_task)), asyncio.CancelledError)
        await world.until(lambda: world.cluster.table.lease_count == 0, within_s=0.1)

    story(tell)


async def _await(task: asyncio.Future[Any]) -> Any:
    return await task


def test_min_lease_time_is_kept_unless_the_work_never_began() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, min_lease_time=5)
        assert await lease.release() is True
        assert await world.aio.acquire("job") is None
        other = await held(world, "other", min_lease_time=5)
        assert await other.release(Outcome.NOT_STARTED) is True
        again = await held(world, "other")
        await again.release()

    story(tell)


def test_a_dropped_handle_is_said_and_its_lease_stays__A8(caplog: pytest.LogCaptureFixture) -> None:
    async def tell(world: World) -> None:
        await held(world, "plain")
        kept = await held(world, "kept", lease_time=3, auto_extend=True)
        await held(world, "dropped", lease_time=3, auto_extend=True)
        gc.collect()
        await world.advance(10)
        assert {row.name async for row in world.aio.leases()} == {"plain", "kept", "dropped"}
        await kept.release()
        await world.aio.close(limit=0)

    with caplog.at_level(logging.WARNING, "cluster.client"):
        story(tell, leaks=False)
    dropped = [record.getMessage() for record in caplog.records if "handle_dropped" in record.getMessage()]
    assert len(dropped) == 1
    assert "name=dropped" in dropped[0]


def test_waiting_for_lost_ends_with_the_release() -> None:
    async def tell(world: World) -> None:
        lease = await held(world)
        told: list[str] = []
        lease.lost.on_set(lambda: told.append("told"))
        waiting = asyncio.ensure_future(lease.lost.wait_async())
        await world.advance(0.1)
        await lease.release()
        assert await waiting is False
        assert told == []
        assert await lease.lost.wait_async() is False

    story(tell)


def test_a_callback_that_raises_harms_nobody__D9() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, lease_time=1)
        told: list[str] = []

        def raising() -> None:
            told.append("first")
            raise RuntimeError("of a listener")

        lease.lost.on_set(raising)
        take_back = lease.lost.on_set(lambda: told.append("taken back"))
        lease.lost.on_set(lambda: told.append("third"))
        take_back()
        await lease.lost.wait_async()
        await world.advance(0.01)
        assert told == ["first", "third"]
        # Too late to be set, not too late to be told.
        lease.lost.on_set(lambda: told.append("late"))
        assert told[-1] == "late"

    story(tell)


def test_close_tells_who_holds_and_waits_for_the_release__C9() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, lease_time=3, auto_extend=True)

        async def work() -> str:
            await lease.lost.wait_async()
            assert world.cluster.table.lease_count == 1
            # Longer than the lease: it is renewed while its work comes to an end.
            await world.advance(4)
            assert world.cluster.table.lease_count == 1
            return f"{await lease.release()}"

        working = asyncio.ensure_future(work())
        await world.advance(0.1)
        started = world.now
        await world.aio.close(limit=10)
        assert 4 <= world.now - started < 4.5
        assert await working == "True"
        assert world.cluster.table.lease_count == 0
        await world.until(lambda: not world.cluster.conns, within_s=0.1)

    story(tell, leaks=False)


def test_close_never_releases_under_running_work__D3() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, lease_time=30, auto_extend=True)
        plain = await held(world, "plain", lease_time=30)
        started = world.now
        await world.aio.close(limit=2)
        assert 2 <= world.now - started < 3.1
        assert lease.lost.is_set()
        with pytest.raises(LeaseLostError, match="closed"):
            plain.check()
        # They run out by themselves; nothing was released or abandoned.
        assert world.cluster.table.lease_count == 2
        assert not {Op.RELEASE, Op.ABANDON} & set(world.cluster.codes())
        assert await lease.release() is False
        assert await lease.extend() is not None
        assert not world.counts()

    story(tell, leaks=False)


def test_extending_and_checking_a_set() -> None:
    async def tell(world: World) -> None:
        leases = await world.aio.acquire_all(["a", "b"], lease_time=10)
        assert leases is not None
        assert repr(await leases.extend(20)).startswith("Extended")
        assert leases[0].remaining() > 19
        world.cluster.once(Op.EXTEND, Fate(answer=[2]))
        assert repr(await leases.extend()) == "NotHeld()"
        with pytest.raises(LeaseLostError):
            leases.check()
        assert await leases.release() is False

    story(tell)
