"""Until an operation is settled: lost requests and replies, leaders that change, refusals, time that runs out.

Knows: what each answer and each silence must lead to. Must not know: how the client does it.
"""

from __future__ import annotations

import asyncio

import pytest

from cluster.errors import Indeterminate, ProtocolError, Unavailable
from cluster.opcodes import Op, Status
from tests.client.fakeserver import LOST_REPLY, LOST_REQUEST, SEVERED_AFTER, SEVERED_BEFORE, Fate
from tests.client.support import World, story

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("fate", [SEVERED_AFTER, SEVERED_BEFORE])
def test_a_lost_answer_is_asked_for_again_with_the_same_id__C5_I5(fate: Fate) -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.once(Op.ACQUIRE, fate)
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        assert len({request.op[1] for request in world.cluster.of(Op.ACQUIRE)}) == 1
        assert len({request.rid for request in world.cluster.of(Op.ACQUIRE)}) > 1
        assert world.cluster.table.lease_count == 1
        assert world.cluster.table.rows(b"job", world.cluster.stamp())[0][2] == lease.token
        assert await lease.release() is True

    story(tell)


def test_every_frame_of_a_connection_has_its_own_number() -> None:
    async def tell(world: World) -> None:
        leases = [await world.aio.acquire(f"job/{n}", lease_time=3) for n in range(5)]
        await world.advance(2.5)
        assert all([await lease.release() for lease in leases if lease is not None])
        rids = [(id(request.conn), request.rid) for request in world.cluster.seen]
        assert len(set(rids)) == len(rids) > 10
        assert all(rid > 0 for _, rid in rids)

    story(tell)


@pytest.mark.parametrize(
    "answer",
    [[int(Status.STALE_EPOCH), 1], [int(Status.WRONG_EPOCH)], [int(Status.UNSURE)], [int(Status.OVERLOADED), "REQUESTS_QUEUED_MAX"]],
)
def test_an_answer_that_settles_nothing_is_asked_again(answer: list[object]) -> None:
    async def tell(world: World) -> None:
        world.cluster.once(Op.ACQUIRE, Fate(answer=answer))
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        first, second = world.cluster.of(Op.ACQUIRE)
        assert first.op == second.op
        await lease.release()

    story(tell)


def test_a_stale_epoch_is_corrected_in_one_round() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.lead("n1:1", push=False)
        started = world.now
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        assert world.now - started < 5 * world.cluster.delay_s
        assert [request.epoch for request in world.cluster.of(Op.ACQUIRE)] == [1, 2]
        await lease.release()

    story(tell)


def test_no_leader_is_unavailable_and_never_contention__C3() -> None:
    async def tell(world: World) -> None:
        world.cluster.lead("")
        started = world.now
        with pytest.raises(Unavailable) as caught:
            await world.aio.acquire("job", timeout=2)
        assert caught.value.applied == "no"
        assert world.now - started == pytest.approx(2, abs=0.1)
        # Asked of nodes that do not lead, and never applied.
        assert world.cluster.table.lease_count == 0

    story(tell)


def test_what_may_have_happened_is_indeterminate_and_undone__C4() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.once(Op.ACQUIRE, LOST_REPLY)
        with pytest.raises(Indeterminate) as caught:
            await world.aio.acquire("job", timeout=1)
        assert caught.value.applied == "unknown"
        # The frame is answered by the end of its connection; then what it may have got is abandoned.
        world.cluster.silent.add("n1:1")
        await world.until(lambda: not world.cluster.conns or world.counts(), within_s=1)
        world.cluster.kill("n1:1")
        world.cluster.silent.clear()
        world.cluster.lead("n2:1")
        took = await world.until(lambda: world.cluster.table.lease_count == 0)
        assert took < 3.0
        assert world.cluster.codes()[-1] == Op.ABANDON

    story(tell)


def test_a_request_that_was_lost_with_its_connection_is_asked_again_within_the_deadline() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        rule = world.cluster.always(Op.ACQUIRE, LOST_REQUEST)
        world.env.call_later(0.5, world.cluster.rules.remove, rule)
        world.env.call_later(0.5, world.cluster.conns[0].sever)
        lease = await world.aio.acquire("job", timeout=2, lease_time=10)
        assert lease is not None
        await lease.release()

    story(tell)


def test_overload_is_named_when_it_does_not_end() -> None:
    async def tell(world: World) -> None:
        world.cluster.always(Op.ACQUIRE, Fate(answer=[int(Status.OVERLOADED), "REQUESTS_QUEUED_MAX"]))
        with pytest.raises(Unavailable, match="REQUESTS_QUEUED_MAX"):
            await world.aio.acquire("job", timeout=2)
        # Backed off with jitter, not hammered.
        assert 8 < len(world.cluster.of(Op.ACQUIRE)) < 80

    story(tell)


@pytest.mark.parametrize("answer", [[int(Status.INVALID), 3], [int(Status.BAD_REQUEST), "odd"], [99], [0, "x"], [0]])
def test_an_answer_of_another_protocol_is_an_error(answer: list[object]) -> None:
    async def tell(world: World) -> None:
        world.cluster.once(Op.ACQUIRE, Fate(answer=answer))
        with pytest.raises(ProtocolError):
            await world.aio.acquire("job")

    story(tell)


def test_a_restored_cluster_that_grants_nothing_yet_is_unavailable__E15() -> None:
    async def tell(world: World) -> None:
        world.cluster.always(Op.ACQUIRE, Fate(answer=[int(Status.NOT_YET), 2500]))
        with pytest.raises(Unavailable, match=r"grants begin in 2\.5 s"):
            await world.aio.acquire("job")

    story(tell)


def test_a_wait_goes_on_with_what_is_left_of_it_after_a_failover() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        blocker = await other.aio.acquire("job", lease_time=60)
        assert blocker is not None
        waiting = asyncio.ensure_future(world.aio.acquire("job", lease_time=10, wait_time=10))
        await world.advance(4)
        world.cluster.kill("n1:1")
        await world.advance(1)
        world.cluster.lead("n2:1")
        await world.advance(1)
        first, *_, last = world.cluster.of(Op.WAIT)
        assert 9_990 <= first.op[1] <= 10_000
        assert 4_000 < last.op[1] < 5_100
        assert first.op[2][1] == last.op[2][1]
        assert await blocker.release() is True
        lease = await waiting
        assert lease is not None
        await lease.release()
        await other.aio.close(limit=0)

    story(tell)


def test_a_wait_that_ends_without_a_grant_is_none_in_time() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        await other.aio.acquire("job", lease_time=60)
        started = world.now
        assert await world.aio.acquire("job", wait_time=2) is None
        assert world.now - started == pytest.approx(2, abs=0.1)
        assert await world.aio.acquire("job") is None
        await other.aio.close(limit=0)

    story(tell)


def test_an_operation_is_applied_once_whatever_is_asked_again__C6() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.once(Op.ACQUIRE, SEVERED_AFTER)
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        world.cluster.once(Op.RELEASE, SEVERED_AFTER)
        tokens = world.cluster.table.next_token
        # The first RELEASE freed it, the second finds nothing, and it was ours until now.
        assert await lease.release() is True
        assert world.cluster.table.next_token == tokens
        assert await lease.release() is False

    story(tell)
