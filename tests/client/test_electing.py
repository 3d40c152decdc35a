"""An acquisition by election, in virtual time: whose turn it is, what a lost answer costs, what is left behind (F4, F5, C4, C10).

Knows: the verbs, scripted faults. Must not know: how the client decides when to claim.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.errors import Indeterminate, Unavailable, UsageError
from cluster.opcodes import Op, Status
from tenure import CandidateInfo, Candidates, ElectionResult, FifoStrategy, RankedStrategy
from tests.client.fakeserver import LOST_REPLY, Fate
from tests.client.support import World, story

pytestmark = pytest.mark.fast

FIFO = FifoStrategy()


async def stand(world: World, *node_ids: str, ttl: float = 600.0) -> None:
    for node_id in node_ids:
        await world.aio.register_candidate("job", CandidateInfo(node_id), ttl)
        await world.advance(0.01)


def test_a_claim_whose_answer_was_lost_is_asked_again_under_its_id__I5() -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        world.cluster.once(Op.ELECT, LOST_REPLY)
        asked = asyncio.ensure_future(world.aio.acquire_elected("job", FIFO))
        await world.advance(0.1)
        world.cluster.lead("n2:1")
        lease = await asked
        assert lease is not None
        assert len({request.op[1] for request in world.cluster.of(Op.ELECT)}) == 1
        assert world.cluster.table.lease_count == 1
        await lease.release()

    story(tell)


def test_who_is_not_elected_waits_its_turn_by_cluster_time__F4() -> None:
    async def tell(world: World) -> None:
        await stand(world, "dead", "other", "me")
        began = world.now
        assert await world.aio.acquire_elected("job", FIFO, wait_time=1.5, claim_timeout=1) is None
        assert 1.5 <= world.now - began < 1.7
        lease = await world.aio.acquire_elected("job", FIFO, wait_time=1.5, claim_timeout=1)
        assert lease is not None, "the turns go on from one call to the next"
        assert 2.0 <= world.now - began < 2.1
        await lease.release()
        assert await world.aio.acquire_elected("job", FIFO, claim_timeout=1) is None, "another election"

    story(tell)


def test_a_view_that_was_overtaken_is_looked_at_anew__F4() -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        world.cluster.once(Op.ELECT, Fate(answer=[int(Status.VERSION_DIFFERS), 1]))
        lease = await world.aio.acquire_elected("job", FIFO)
        assert lease is not None, "one attempt is one that was decided"
        await lease.release()
        world.cluster.always(Op.ELECT, Fate(answer=[int(Status.VERSION_DIFFERS), 1]))
        before = len(world.cluster.seen)
        assert await world.aio.acquire_elected("job", FIFO, wait_time=1) is None
        assert len(world.cluster.seen) - before < 150, "a roster that never stands still keeps nobody busy"

    story(tell)


def test_who_holds_the_name_is_waited_for() -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        first = await world.aio.acquire("job", lease_time=60)
        assert first is not None
        assert await world.aio.acquire_elected("job", FIFO, wait_time=0.5) is None
        assert not world.cluster.of(Op.ELECT), "a name that is held is not claimed"
        asked = asyncio.ensure_future(world.aio.acquire_elected("job", FIFO, wait_time=5))
        await world.advance(1.3)
        released = world.now
        await first.release()
        second = await asked
        assert second is not None
        assert world.now - released < 0.05, "told of the release, not found out"
        await second.release()

    story(tell)


def test_who_waits_looks_seldom_whatever_happens_to_other_names() -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        other = world.another()
        held = await other.aio.acquire("job", lease_time=60)
        assert held is not None
        asked = asyncio.ensure_future(world.aio.acquire_elected("job", FIFO, wait_time=60))
        for number in range(100):
            lease = await other.aio.acquire(f"job{number}", lease_time=1)
            assert lease is not None
            await world.advance(0.1)
        assert len(world.cluster.of(Op.CANDIDATES)) <= 12, "once a second"
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await world.until(lambda: not world.cluster.watching, within_s=0.1)
        await other.aio.close(limit=0)

    story(tell)


def test_who_waits_through_a_change_of_the_raft_leader_is_told_by_the_next() -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        other = world.another()
        held = await other.aio.acquire("job", lease_time=60)
        assert held is not None
        asked = asyncio.ensure_future(world.aio.acquire_elected("job", FIFO, wait_time=60))
        await world.advance(0.3)
        world.cluster.lead("n2:1")
        await world.advance(0.3)
        await held.release()
        began = world.now
        lease = await asked
        assert lease is not None
        assert world.now - began < 0.5
        await lease.release()
        await other.aio.close(limit=0)

    story(tell)


def test_who_waits_for_grants_to_begin_after_a_restore_is_not_told_of_contention() -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        world.cluster.apply([int(Op.RESTORE), 5_000])
        for wait_time in (0, 1):
            with pytest.raises(Unavailable, match="holders from before the restore may still run"):
                await world.aio.acquire_elected("job", FIFO, wait_time=wait_time)
        lease = await world.aio.acquire_elected("job", FIFO, wait_time=10)
        assert lease is not None
        await lease.release()

    story(tell)


def test_who_does_not_stand_is_not_elected() -> None:
    async def tell(world: World) -> None:
        assert await world.aio.acquire_elected("job", FIFO) is None
        await stand(world, "other")
        assert await world.aio.acquire_elected("job", FIFO, wait_time=0.3) is None
        assert not world.cluster.of(Op.ELECT)

    story(tell)


def test_an_outage_is_no_contention__C3() -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        world.cluster.lead("")
        with pytest.raises(Unavailable):
            await world.aio.acquire_elected("job", FIFO, wait_time=60, timeout=1)

    story(tell)


def test_looks_and_claims_share_the_time_for_finding_out() -> None:
    async def tell(world: World) -> None:
        await stand(world, "me")
        for wait_time in (0.0, 2.0):
            world.cluster.once(Op.CANDIDATES, Fate(late_s=0.9))
            world.cluster.once(Op.ELECT, Fate(late_s=60.0))
            began = world.now
            with pytest.raises((Unavailable, Indeterminate)):
                await world.aio.acquire_elected("job", FIFO, wait_time=wait_time, timeout=1)
            assert world.now - began < wait_time + 1.1
            await world.until(lambda: world.cluster.table.lease_count == 0, within_s=70)

    story(tell)


@pytest.mark.parametrize("when", ["looking", "claiming", "resting"])
def test_who_gives_up_leaves_nothing_behind__C4_C10(when: str) -> None:
    async def tell(world: World) -> None:
        await stand(world, "first", "me")
        late = {"looking": Op.CANDIDATES, "claiming": Op.ELECT}.get(when)
        if late is not None:
            world.cluster.once(late, Fate(late_s=0.5))
        strategy = FIFO if when == "resting" else RankedStrategy()
        node_id = "me" if when == "resting" else "first"
        task = asyncio.ensure_future(
            world.aio.acquire_elected("job", strategy, wait_time=9, claim_timeout=5, node_id=node_id)
        )
        await world.advance(0.25)
        assert world.cluster.table.lease_count == (when == "claiming")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await world.until(lambda: world.cluster.table.lease_count == 0 and not world.counts(), within_s=1)

    story(tell)


def test_who_rests_is_told_that_the_coordinator_closes() -> None:
    async def tell(world: World) -> None:
        await stand(world, "first", "me")
        task = asyncio.ensure_future(world.aio.acquire_elected("job", FIFO, wait_time=60, claim_timeout=50))
        await world.advance(1)
        await world.aio.close(limit=0)
        with pytest.raises(Unavailable, match="closed"):
            await task

    story(tell, leaks=False)


def test_a_strategy_that_raises_is_the_callers_affair__F5() -> None:
    class Broken:
        def elect(self, candidates: Candidates, /) -> ElectionResult:
            raise ZeroDivisionError

    async def tell(world: World) -> None:
        await stand(world, "me")
        with pytest.raises(ZeroDivisionError):
            await world.aio.acquire_elected("job", Broken(), wait_time=5)
        assert world.cluster.table.lease_count == 0

    story(tell)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"claim_timeout": -1}, "claim_timeout=-1 s"),
        ({"lease_time": 0}, "lease_time=0 s"),
        ({"node_id": ""}, "node_id"),
    ],
)
def test_bad_terms_are_refused(terms: dict[str, Any], says: str) -> None:
    async def tell(world: World) -> None:
        with pytest.raises(UsageError, match=says):
            await world.aio.acquire_elected("job", FIFO, **terms)

    story(tell)
