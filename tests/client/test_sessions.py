"""Auto-extended leases: one session for each lease time, one renewal whatever hangs on it, told at once when it ends.

Knows: what a holder must see. Must not know: how sessions are kept.
"""

from __future__ import annotations

import asyncio

import pytest

from cluster.client import AsyncLease
from cluster.limits import CLOCK_DRIFT
from cluster.opcodes import Op, Status
from tests.client.fakeserver import LOST_REPLY, SEVERED_AFTER, Fate
from tests.client.support import World, story

pytestmark = pytest.mark.fast


async def held(world: World, name: str, lease_time: float = 3.0, **more: object) -> AsyncLease:
    lease = await world.aio.acquire(name, lease_time=lease_time, auto_extend=True, **more)  # type: ignore[arg-type]
    assert lease is not None
    return lease


def test_renewal_is_one_operation_whatever_hangs_on_it__A9() -> None:
    async def tell(world: World) -> None:
        leases = [await held(world, f"job/{n}") for n in range(200)]
        assert len(world.cluster.of(Op.SESSION_OPEN)) == 1
        await world.advance(30)
        renewals = len(world.cluster.of(Op.SESSION_RENEW))
        assert 25 <= renewals <= 31
        assert Op.EXTEND not in world.cluster.codes()
        assert all(lease.confidence == "held" for lease in leases)
        assert all(await asyncio.gather(*(lease.release() for lease in leases)))

    story(tell)


def test_renewal_begins_at_a_third_of_the_lease() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job", 9)
        granted_at = world.now
        await world.until(lambda: world.cluster.of(Op.SESSION_RENEW))
        assert 3.0 <= world.now - granted_at <= 3.35
        await lease.release()

    story(tell)


def test_a_session_for_each_lease_time() -> None:
    async def tell(world: World) -> None:
        leases = [await held(world, f"job/{n}", 2.0 + n % 2) for n in range(6)]
        assert [request.op[1] for request in world.cluster.of(Op.SESSION_OPEN)] == [2000, 3000]
        for lease in leases:
            await lease.release()

    story(tell)


def test_the_last_release_leaves_no_timer_and_no_renewal__C4() -> None:
    async def tell(world: World) -> None:
        leases = [await held(world, f"job/{n}") for n in range(3)]
        await world.advance(5)
        for lease in leases:
            assert await lease.release() is True
        assert not world.counts()
        before = len(world.cluster.seen)
        await world.advance(60)
        assert len(world.cluster.seen) <= before + 1
        # A new lease after that long has a new session.
        lease = await held(world, "job/1")
        assert len(world.cluster.of(Op.SESSION_OPEN)) == 2
        await lease.release()

    story(tell)


def test_an_idle_session_is_used_again_and_its_leases_are_safe__A11() -> None:
    async def tell(world: World) -> None:
        first = await held(world, "job/1")
        await first.release()
        await world.advance(2.5)
        lease = await held(world, "job/2")
        assert len(world.cluster.of(Op.SESSION_OPEN)) == 1
        assert lease.remaining() > 2.9
        # Renewed in time although the session itself is old.
        await world.advance(10)
        assert lease.confidence == "held"
        await lease.release()

    story(tell)


def test_an_idle_session_that_ended_is_replaced_without_the_caller_noticing() -> None:
    async def tell(world: World) -> None:
        first = await held(world, "job/1")
        await first.release()
        world.cluster.once(Op.ACQUIRE, Fate(answer=[int(Status.SESSION_ENDED)]))
        lease = await held(world, "job/2")
        assert len(world.cluster.of(Op.SESSION_OPEN)) == 2
        ids = [request.op[1] for request in world.cluster.of(Op.ACQUIRE)]
        assert ids[1] == ids[2]
        await lease.release()

    story(tell)


@pytest.mark.parametrize("many", [False, True])
def test_a_lease_of_an_earlier_session_is_not_counted_on_by_a_later_one__A11_I8(many: bool) -> None:
    async def tell(world: World) -> None:
        await world.aio.state("anything")
        # The grant's own answers come so late that it seems over; asked again, now with another session, the cluster still has it.
        code = Op.ACQUIRE_ALL if many else Op.ACQUIRE
        world.cluster.once(code, Fate(late_s=13))
        for _ in range(1 + many):
            world.cluster.once(Op.CHECK, Fate(late_s=46.7))
        leases: list[AsyncLease] = []
        if many:
            leases += await world.aio.acquire_all(["job/1", "job/2"], lease_time=60, auto_extend=True, timeout=200) or ()
        else:
            leases.append(await held(world, "job/1", 60, timeout=200))
        assert len(leases) == 1 + many
        assert len(world.cluster.of(Op.SESSION_OPEN)) == 2
        for moment in range(30):
            for lease in leases:
                (row,) = world.cluster.table.rows(lease.name.encode(), world.cluster.stamp())
                assert row[2] == lease.token, moment
                assert lease.remaining() <= row[4] / 1000, moment
                assert lease.confidence == "held"
            await world.advance(10)
        for lease in leases:
            assert await lease.release() is True

    story(tell)


def test_renewals_ride_out_an_election__A4() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job", 3)
        for leader in ("n2:1", "n3:1", "n1:1"):
            await world.advance(2)
            world.cluster.up.update(world.cluster.addresses)
            world.cluster.kill(world.cluster.leader)
            await world.advance(1.2)
            world.cluster.lead(leader)
        await world.advance(3)
        assert lease.confidence == "held"
        assert not lease.lost.is_set()
        assert await lease.release() is True

    story(tell)


def test_an_outage_longer_than_the_lease_is_a_loss_at_the_local_deadline__A2() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job", 3)
        await world.advance(1.5)
        renewed = world.cluster.of(Op.SESSION_RENEW)[-1]
        for address in world.cluster.addresses:
            world.cluster.kill(address)
        seen: set[str] = set()
        told: list[float] = []
        lease.lost.on_set(lambda: told.append(world.now))
        while not lease.lost.is_set():
            seen.add(lease.confidence)
            await world.advance(0.01)
        assert seen >= {"held", "uncertain"}
        assert told == [pytest.approx(renewed.at - 0.001 + 3 * (1 - CLOCK_DRIFT) - 0.01, abs=0.003)]
        assert await lease.release() is False

    story(tell)


def test_a_renewal_whose_reply_is_lost_is_asked_again_soon__A11() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job", 3)
        world.cluster.once(Op.SESSION_RENEW, SEVERED_AFTER)
        await world.until(lambda: len(world.cluster.of(Op.SESSION_RENEW)) >= 2)
        first, second = world.cluster.of(Op.SESSION_RENEW)[:2]
        assert second.at - first.at < 0.3
        await world.advance(0.01)
        # It believes what the answered renewal said, no more.
        cluster_end = world.cluster.table.rows(b"job", world.cluster.stamp())[0][4] / 1000
        assert lease.remaining() < cluster_end
        await lease.release()

    story(tell)


def test_a_session_that_ended_is_told_at_once__A5() -> None:
    async def tell(world: World) -> None:
        leases = [await held(world, f"job/{n}") for n in range(3)]
        world.cluster.once(Op.SESSION_RENEW, Fate(answer=[int(Status.SESSION_ENDED)]))
        await world.until(lambda: world.cluster.of(Op.SESSION_RENEW))
        await world.advance(0.005)
        assert all(lease.lost.is_set() for lease in leases)
        assert len(world.cluster.of(Op.SESSION_RENEW)) == 1
        with pytest.raises(Exception, match="session"):
            leases[0].check()
        assert await leases[0].release() is False

    story(tell)


def test_overload_pushes_back_on_acquires_not_on_renewals__A9() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job", 3)
        world.cluster.always(Op.ACQUIRE, Fate(answer=[int(Status.OVERLOADED), "REQUESTS_QUEUED_MAX"]))
        crowd = [asyncio.ensure_future(world.aio.acquire(f"x/{n}", timeout=10)) for n in range(50)]
        await world.advance(9)
        assert lease.confidence == "held"
        await asyncio.gather(*crowd, return_exceptions=True)
        assert lease.confidence == "held"
        await lease.release()

    story(tell)


def test_a_lease_set_hangs_on_one_session() -> None:
    async def tell(world: World) -> None:
        leases = await world.aio.acquire_all(["a", "b"], lease_time=3, auto_extend=True)
        assert leases is not None
        await world.advance(10)
        leases.check()
        assert [lease.confidence for lease in leases] == ["held", "held"]
        assert leases[0].token < leases[1].token
        assert await leases.release() is True
        assert not world.counts()

    story(tell)


def test_a_session_that_cannot_be_opened_is_told_to_each() -> None:
    async def tell(world: World) -> None:
        world.cluster.always(Op.SESSION_OPEN, Fate(answer=[int(Status.LIMIT), 2]))
        with pytest.raises(Exception, match="SESSIONS_MAX"):
            await held(world, "job")
        world.cluster.rules.clear()
        world.cluster.always(Op.SESSION_OPEN, LOST_REPLY)
        started = world.now
        tasks = [asyncio.ensure_future(world.aio.acquire(f"job/{n}", auto_extend=True, timeout=1 + n)) for n in range(2)]
        for n, task in enumerate(tasks):
            with pytest.raises(Exception, match=r"did not happen|no raft leader"):
                await task
            assert world.now - started == pytest.approx(1 + n, abs=0.1)

    story(tell)


def test_a_session_lives_while_somebody_stands_in_line_for_it() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        blocker = await other.aio.acquire("job", lease_time=60)
        assert blocker is not None
        waiting = asyncio.ensure_future(world.aio.acquire("job", lease_time=1, wait_time=30, auto_extend=True))
        await world.advance(10)
        # Its place in the queue would be lost with its session.
        assert len(world.cluster.of(Op.SESSION_OPEN)) == 1
        assert len(world.cluster.of(Op.WAIT)) == 1
        await blocker.release()
        lease = await waiting
        assert lease is not None
        await world.advance(5)
        assert lease.confidence == "held"
        assert len(world.cluster.of(Op.SESSION_OPEN)) == 1
        await lease.release()
        assert await other.aio.acquire("job", lease_time=60) is not None
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=1, wait_time=30, auto_extend=True))
        await world.advance(3)
        # Given up, it leaves the session idle.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await other.aio.close(limit=0)

    story(tell)


def test_renewals_go_before_what_waits_to_be_sent__A9(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.client.calls.IN_FLIGHT_MAX", 5)

    async def tell(world: World) -> None:
        lease = await held(world, "job", 3)
        world.cluster.always(Op.ACQUIRE, LOST_REPLY)
        crowd = [asyncio.ensure_future(world.aio.acquire(f"x/{n}", lease_time=1, timeout=8)) for n in range(50)]
        await world.advance(7)
        assert len(world.cluster.of(Op.ACQUIRE)) == 1 + 5
        assert lease.confidence == "held"
        world.cluster.rules.clear()
        world.cluster.conns[0].sever()
        await asyncio.gather(*crowd, return_exceptions=True)
        await lease.release()

    story(tell)


def test_a_grant_that_came_late_is_renewed_in_time() -> None:
    async def tell(world: World) -> None:
        world.cluster.once(Op.ACQUIRE, Fate(late_s=0.75))
        lease = await held(world, "job", 1)
        assert lease.remaining() < 0.3
        await world.advance(3)
        assert lease.confidence == "held"
        await lease.release()

    story(tell)
