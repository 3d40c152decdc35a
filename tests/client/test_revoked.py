"""Auto-extended leases that an operator ends: whatever is lost or late on the way, their holders count on them no longer than they last.

Knows: what a holder must see. Must not know: how sessions are kept.
"""

from __future__ import annotations

import asyncio

import pytest

from cluster.errors import Indeterminate
from cluster.opcodes import Op
from tests.client.fakeserver import LOST_REPLY, Fate, Request
from tests.client.support import World, story
from tests.client.test_sessions import held

pytestmark = pytest.mark.fast


def revoked_by(world: World, name: str, *, force: bool = False) -> None:
    assert world.cluster.apply([int(Op.REVOKE), name.encode(), None, force])[1] == 1


@pytest.mark.parametrize("force", [False, True])
def test_a_revoked_lease_is_lost_and_the_others_live_on(force: bool) -> None:
    async def tell(world: World) -> None:
        leases = [await held(world, f"job/{n}", 3) for n in range(3)]
        revoked_by(world, "job/1", force=force)
        # Not even the push arrives: the next renewal's count tells.
        await world.until(leases[1].lost.is_set, within_s=2)
        assert [lease.lost.is_set() for lease in leases] == [False, True, False]
        assert len(world.cluster.of(Op.CHECK)) == 3
        await world.advance(10)
        assert [lease.confidence for lease in leases] == ["held", "lost", "held"]
        assert len(world.cluster.of(Op.CHECK)) == 3
        # Its release frees the name before its deadline, but it was not the holder's until now.
        assert await leases[1].release() is False
        assert await leases[0].release() is True
        assert await leases[2].release() is True

    story(tell)


def test_a_revocation_is_pushed() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job", 60)
        world.cluster.conns[0].send([0, [2, b"job", 0, lease.token + 1]])
        await world.advance(0.1)
        assert not lease.lost.is_set()
        world.cluster.conns[0].send([0, [2, b"job", 0, lease.token]])
        await world.advance(0.1)
        assert lease.lost.is_set()
        await lease.release()

    story(tell)


def test_a_renewal_does_not_prolong_what_was_revoked_before_it__I8() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job", 3)
        believed: list[float] = []
        revoked_by(world, "job")
        end = world.now + world.cluster.table.rows(b"job", world.cluster.stamp())[0][4] / 1000

        def slow_checks(request: Request) -> Fate | None:
            believed.append(world.now + lease.remaining())
            return Fate(late_s=1.0) if request.code == Op.CHECK else None

        world.cluster.rules.append(slow_checks)
        await world.until(lease.lost.is_set, within_s=5)
        assert believed
        assert max(believed) <= end
        await lease.release()

    story(tell)


def test_what_is_revoked_while_its_set_is_confirmed_is_not_counted_on__I8() -> None:
    async def tell(world: World) -> None:
        other = await held(world, "other", 3)
        world.cluster.once(Op.ACQUIRE_ALL, Fate(late_s=0.7))

        def slow_check(request: Request) -> Fate | None:
            return Fate(late_s=1.2) if request.code == Op.CHECK and request.op[2] == b"b" else None

        world.cluster.rules.append(slow_check)
        asked = asyncio.ensure_future(world.aio.acquire_all(["a", "b"], lease_time=3, auto_extend=True))
        await world.until(lambda: len(world.cluster.of(Op.CHECK)) == 2, within_s=2)
        await world.advance(0.1)
        revoked_by(world, "a")
        end = world.now + world.cluster.table.rows(b"a", world.cluster.stamp())[0][4] / 1000
        leases = await asked
        assert leases is not None
        while world.now < end:
            await world.advance(0.05)
        assert leases[0].lost.is_set()
        assert other.confidence == "held"
        assert leases[1].confidence == "held"
        await leases.release()
        await other.release()

    story(tell)


def test_what_is_revoked_before_its_grant_arrives_is_not_counted_on__I8() -> None:
    async def tell(world: World) -> None:
        other = await held(world, "other", 3)
        await world.advance(0.8)
        world.cluster.once(Op.ACQUIRE, Fate(late_s=0.5))
        asked = asyncio.ensure_future(held(world, "job", 3))
        await world.until(lambda: world.cluster.table.rows(b"job", world.cluster.stamp()), within_s=1)
        revoked_by(world, "job")
        end = world.now + world.cluster.table.rows(b"job", world.cluster.stamp())[0][4] / 1000
        lease = await asked
        # The renewal's answer, with the new count, has overtaken the grant.
        assert len(world.cluster.of(Op.SESSION_RENEW)) == 1
        while world.now < end:
            await world.advance(0.05)
        assert lease.lost.is_set()
        assert other.confidence == "held"
        await lease.release()
        await other.release()

    story(tell)


def test_what_may_have_been_revoked_and_cannot_be_asked_about_is_not_handed_over__I8() -> None:
    async def tell(world: World) -> None:
        other = await held(world, "other", 3)
        await world.advance(0.8)
        world.cluster.once(Op.ACQUIRE, Fate(late_s=0.5))
        asked = asyncio.ensure_future(world.aio.acquire("job", lease_time=3, auto_extend=True, timeout=2.0))
        await world.until(lambda: world.cluster.table.rows(b"job", world.cluster.stamp()), within_s=1)
        revoked_by(world, "job")
        world.cluster.always(Op.CHECK, LOST_REPLY)
        with pytest.raises(Indeterminate):
            await asked
        await other.release()

    story(tell)


def test_an_unanswered_check_keeps_the_old_deadline__I8() -> None:
    async def tell(world: World) -> None:
        lease = await held(world, "job", 3)
        other = await held(world, "other", 3)
        revoked_by(world, "job")
        world.cluster.always(Op.CHECK, LOST_REPLY)
        end = world.now + world.cluster.table.rows(b"job", world.cluster.stamp())[0][4] / 1000
        while not lease.lost.is_set():
            assert world.now < end
            await world.advance(0.01)
        assert other.lost.is_set() or other.remaining() > 0
        await lease.release()
        await other.release()

    story(tell)
