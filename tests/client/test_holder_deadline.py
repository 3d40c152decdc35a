"""Until when a holder believes: never longer than the cluster does (I8), whatever is late, lost or asked again.

Knows: the rule of the holder's deadline. Must not know: how the client keeps it.
"""

from __future__ import annotations

import logging

import pytest

from cluster.client import Extended, NotHeld, Unknown
from cluster.client.core import MARGIN_S
from cluster.client.wire import SENT_LOG_MAX, SentLog
from cluster.errors import LeaseLostError
from cluster.limits import CLOCK_DRIFT
from cluster.opcodes import Op, Status
from tests.client.fakeserver import LOST_REPLY, SEVERED_AFTER, Fate
from tests.client.support import World, story

pytestmark = pytest.mark.fast


def believed(sent_at: float, seconds: float) -> float:
    return sent_at + seconds * (1 - CLOCK_DRIFT) - MARGIN_S


async def met(world: World) -> None:
    """Be connected already, so that frames leave at the moment of the call."""
    await world.aio.state("anything")


def test_a_grant_counts_from_the_moment_it_was_sent__I8() -> None:
    async def tell(world: World) -> None:
        await met(world)
        world.cluster.always(Op.ACQUIRE, Fate(late_s=1.5))
        sent_at = world.now
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        assert world.now >= sent_at + 1.5
        assert lease.remaining() == pytest.approx(believed(sent_at, 10) - world.now, abs=0.0005)
        # It is over for its holder before it is over for the cluster.
        assert world.now + lease.remaining() < world.cluster.seen[-1].at + 10
        await lease.release()

    story(tell)


def test_a_grant_that_was_answered_again_keeps_its_end__A11() -> None:
    async def tell(world: World) -> None:
        await met(world)
        world.cluster.once(Op.ACQUIRE, SEVERED_AFTER)
        lease = await world.aio.acquire("job", lease_time=10)
        first, *_, again = world.cluster.of(Op.ACQUIRE)
        assert lease is not None
        assert first.op[1] == again.op[1]
        granted_at = first.at
        assert world.now + lease.remaining() <= granted_at + 10
        await lease.release()

    story(tell)


def test_a_wait_longer_than_the_lease_gives_a_lease_that_can_be_used__A11() -> None:
    async def tell(world: World) -> None:
        await met(world)
        other = world.another()
        blocker = await other.aio.acquire("job", lease_time=5.3)
        lease = await world.aio.acquire("job", lease_time=1, wait_time=20)
        assert blocker is not None
        assert lease is not None
        assert lease.remaining() > 0.75
        pings = [request for request in world.cluster.of(Op.PING) if request.conn.hello.node_id == "me"]
        assert len(pings) >= 5
        granted_at = world.cluster.table.rows(b"job", world.cluster.stamp())[0]
        assert lease.remaining() <= granted_at[4] / 1000
        await lease.release()
        await other.aio.close(limit=0)

    story(tell)


def test_a_waiters_grant_counts_from_the_ping_that_was_heard__I8() -> None:
    async def tell(world: World) -> None:
        await met(world)
        other = world.another()
        await other.aio.acquire("job", lease_time=3)
        lease = await world.aio.acquire("job", lease_time=60, wait_time=20)
        assert lease is not None
        ping = [request for request in world.cluster.of(Op.PING) if request.conn.hello.node_id == "me"][-1]
        assert world.now + lease.remaining() == pytest.approx(believed(ping.at - world.cluster.delay_s, 60), abs=0.002)
        await lease.release()
        await other.aio.close(limit=0)

    story(tell)


def test_lost_is_told_when_the_time_is_over__A5() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=1)
        assert lease is not None
        end = world.now + lease.remaining()
        told: list[float] = []
        lease.lost.on_set(lambda: told.append(world.now))
        assert await lease.lost.wait_async()
        assert told == [pytest.approx(end, abs=0.002)]
        assert world.now >= end
        assert (lease.confidence, lease.remaining(), lease.lost.is_set()) == ("lost", 0.0, True)
        with pytest.raises(LeaseLostError, match="'job'"):
            lease.check()
        assert await lease.release() is False

    story(tell)


def test_a_look_recomputes_from_the_clock__B2() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=60)
        assert lease is not None
        assert not lease.lost.is_set()
        # The machine slept: no timer has run, no reply has come.
        world.env.jump(60)
        assert lease.confidence == "lost"
        assert lease.lost.is_set()

    story(tell)


def test_a_process_that_stood_still_hears_of_it_at_its_next_turn__B2() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=600)
        session_lease = await world.aio.acquire("other", lease_time=600, auto_extend=True)
        assert lease is not None
        assert session_lease is not None
        told: list[str] = []
        lease.lost.on_set(lambda: told.append("own"))
        session_lease.lost.on_set(lambda: told.append("session"))
        world.env.jump(700)
        took = await world.until(lambda: len(told) == 2)
        assert took < 1.0

    story(tell)


def test_an_extension_moves_the_deadline_and_keeps_the_token__I4() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        token = lease.token
        await world.advance(6)
        sent_at = world.now
        outcome = await lease.extend(20)
        assert isinstance(outcome, Extended)
        assert outcome.remaining == lease.remaining() == pytest.approx(believed(sent_at, 20) - world.now, abs=0.001)
        assert lease.token == token
        # A shorter one never shortens.
        assert isinstance(await lease.extend(1), Extended)
        assert lease.remaining() == pytest.approx(believed(sent_at, 20) - world.now, abs=0.001)
        await lease.release()

    story(tell)


def test_an_extension_whose_reply_is_lost_changes_nothing_believed__I8() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        before = world.now + lease.remaining()
        world.cluster.once(Op.EXTEND, LOST_REPLY)
        assert await lease.extend(60) == Unknown()
        assert world.now + lease.remaining() == pytest.approx(before)
        await lease.release()

    story(tell, timeout=2.0)


def test_a_late_extension_never_revives__C1() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=1)
        assert lease is not None
        await world.advance(0.5)
        world.cluster.once(Op.EXTEND, Fate(late_s=1.0))
        assert await lease.extend(60) == NotHeld()
        assert lease.confidence == "lost"
        await world.advance(1.0)
        assert lease.confidence == "lost"

    story(tell)


@pytest.mark.parametrize("answer", [[int(Status.NOT_HELD)], [int(Status.REVOKED), 5000]])
def test_a_refused_extension_is_a_loss_at_once__A5(answer: list[int]) -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        world.cluster.once(Op.EXTEND, Fate(answer=answer))
        assert await lease.extend() == NotHeld()
        assert lease.lost.is_set()
        assert len(world.cluster.of(Op.EXTEND)) == 1
        await lease.release()

    story(tell)


def test_a_lease_that_is_not_extended_warns_once_near_its_end__A7(caplog: pytest.LogCaptureFixture) -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        with caplog.at_level(logging.WARNING, "cluster.client"):
            await world.advance(7.8)
            assert not caplog.records
            await world.advance(0.3)
            assert [record.getMessage().split()[0] for record in caplog.records] == ["lease.nearly_over"]
            await lease.extend()
            await world.advance(7.5)
            assert len(caplog.records) == 1
            await world.advance(0.6)
            assert len(caplog.records) == 2
        await lease.release()

    story(tell)


def test_the_sent_log_is_bounded_and_never_later_than_the_truth__I8() -> None:
    log = SentLog()
    truth: dict[int, float] = {}
    now = 0.0
    for rid in range(1, 60_000):
        now += 0.0007 if rid % 3 else 0.002
        truth[rid] = now
        log.note(rid, now, exactly=rid % 997 == 0)
        assert len(log) <= SENT_LOG_MAX
    for rid in range(1, 60_000, 7):
        found = log.at(rid)
        assert found is not None
        assert found <= truth[rid]
    # What was sent lately is known to the millisecond.
    assert all((log.at(rid) or 0) > truth[rid] - 0.003 for rid in range(58_500, 60_000))


@pytest.mark.parametrize("after_s", [0.0005, 0.004, 0.008, 0.012, 0.018])
def test_an_extension_that_comes_just_too_late_never_revives__C1(after_s: float) -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=1)
        assert lease is not None
        await world.advance(0.5)
        late_s = lease.remaining() - 2 * world.cluster.delay_s + after_s
        world.cluster.once(Op.EXTEND, Fate(late_s=late_s))
        assert await lease.extend(60) == NotHeld()
        assert lease.lost.is_set()
        await world.advance(1.0)
        assert lease.lost.is_set()
        assert lease.remaining() == 0.0

    story(tell)
