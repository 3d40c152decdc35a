"""What a renewal must not do: shorten what was extended by hand, prolong what was given back, be waited for longer than the lease lasts.

Knows: what a holder and others see. Must not know: how sessions are kept.
"""

from __future__ import annotations

import asyncio
import socket

import pytest

from cluster.client import Extended
from cluster.errors import LeaseLostError
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


def test_a_holder_whose_names_do_not_resolve_any_more_is_told_before_another_is_granted__A10_I8() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job")
        ours = list(world.cluster.conns)
        other = world.another()
        waiting = asyncio.ensure_future(other.aio.acquire("job", wait_time=30))
        await world.advance(2)
        # The connection breaks, and none can be made: every address is a name that nobody knows for now.
        unknown = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        world.cluster.errors.update(dict.fromkeys(world.cluster.addresses, unknown))
        for conn in ours:
            conn.sever()
        told: list[bool] = []
        lease.lost.on_set(lambda: told.append(waiting.done()))
        await world.until(waiting.done)
        assert told == [False]
        with pytest.raises(LeaseLostError):
            lease.check()
        successor = waiting.result()
        assert successor is not None
        assert successor.token > lease.token
        await successor.release()
        world.cluster.errors.clear()
        await other.aio.close(limit=0)

    story(tell)
