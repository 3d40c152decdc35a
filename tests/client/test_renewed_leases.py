"""What a renewal must not do: shorten what was extended by hand, prolong what was given back.

Knows: what a holder and others see. Must not know: how sessions are kept.
"""

from __future__ import annotations

import pytest

from cluster.client import Extended
from cluster.opcodes import Op
from tests.client.fakeserver import Fate
from tests.client.support import World, story
from tests.client.test_sessions import held

pytestmark = pytest.mark.fast


def test_a_lease_extended_by_hand_is_not_shortened_by_renewals__I4() -> None:
    async def tell(world: World) -> None:
        lease, beside = await held(world, "job"), await held(world, "beside")
        assert isinstance(await lease.extend(60), Extended)
        before = world.now + lease.remaining()
        renewals = len(world.cluster.of(Op.SESSION_RENEW))
        await world.advance(20)
        assert len(world.cluster.of(Op.SESSION_RENEW)) >= renewals + 15
        assert world.now + lease.remaining() >= before
        # Nor does the cluster think otherwise, once nothing is renewed any more and those beside it are over.
        world.cluster.rules.append(lambda request: Fate(applied=False) if request.code == Op.SESSION_RENEW else None)
        await world.until(beside.lost.is_set)
        assert lease.confidence == "held"
        other = world.another()
        assert await other.aio.acquire("job", wait_time=10) is None
        assert lease.confidence == "held"
        await lease.release()
        await other.aio.close(limit=0)

    story(tell)


@pytest.mark.parametrize("late_s", [0.05, 0.5])
def test_a_renewal_under_way_does_not_prolong_what_was_given_back__I5(late_s: float) -> None:
    async def tell(world: World) -> None:
        lease, beside = await held(world, "job"), await held(world, "beside")
        world.cluster.once(Op.SESSION_RENEW, Fate(late_s=late_s))
        seen = len(world.cluster.of(Op.SESSION_RENEW))
        await world.until(lambda: len(world.cluster.of(Op.SESSION_RENEW)) > seen)
        # The renewal has been applied, and its answer is on its way.
        assert await lease.release() is True
        other = world.another()
        assert await other.aio.acquire("job", lease_time=1) is not None
        await world.advance(2 * late_s)
        assert (lease.confidence, beside.confidence) == ("lost", "held")
        assert lease.remaining() == 0
        # The successor's own time counts: it is over although the session of before is renewed.
        assert await other.aio.acquire("job", wait_time=3) is not None
        await beside.release()
        await other.aio.close(limit=0)

    story(tell)
