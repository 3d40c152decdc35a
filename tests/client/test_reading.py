"""Snapshots for people: states, listings, status; and an operator's revocation.

Knows: what the values must say. Must not know: rows and frames.
"""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from cluster.client import LeaderGroupState, LeaderState
from cluster.errors import ProtocolError, Unavailable, UsageError
from cluster.limits import LEASES_PAGE_MAX
from cluster.opcodes import Op, Status
from tests.client.fakeserver import LOST_REPLY, Fate
from tests.client.support import World, outcome_of, story

pytestmark = pytest.mark.fast


def test_the_state_of_a_name() -> None:
    async def tell(world: World) -> None:
        assert await world.aio.state("job") == LeaderState("job", "job", "free", None, 0)
        lease = await world.aio.acquire("job", lease_time=10, node_id="worker-1")
        assert lease is not None
        await world.advance(4)
        state = await world.aio.state("job", consistent=True)
        assert world.cluster.of(Op.STATE)[-1].op == [65, b"job", True]
        assert state.status == "held"
        assert state.leader is not None
        assert (state.leader.node_id, state.leader.token, state.leader.slot) == ("worker-1", lease.token, 0)
        assert state.leader.expires_in == pytest.approx(6, abs=0.01)
        wall = datetime.fromtimestamp(world.env.wall(), timezone.utc)
        assert (wall - state.leader.acquired_at).total_seconds() == pytest.approx(4, abs=0.01)
        await lease.release()

    story(tell)


def test_the_state_of_a_group__F1() -> None:
    async def tell(world: World) -> None:
        assert await world.aio.group_state("job") == LeaderGroupState("job", "job", None, 0, None, (), 0)
        leases = [await world.aio.acquire("job", max_leaders=4, lease_time=10) for _ in range(3)]
        fourth = await world.aio.acquire("job", max_leaders=3, lease_time=10)
        assert fourth is None
        state = await world.aio.group_state("job")
        assert (state.max_leaders, state.active_count, state.available_slots) == (4, 3, 1)
        assert [leader.slot for leader in state.leaders] == [0, 1, 2]
        for lease in leases:
            assert lease is not None
            await lease.release()

    story(tell)


def test_an_occupied_slot_without_leader_is_not_available() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", max_leaders=2, lease_time=10, min_lease_time=10)
        assert lease is not None
        await lease.release()
        state = await world.aio.group_state("job")
        assert (state.active_count, state.available_slots) == (0, 1)
        assert (await world.aio.state("job")).status == "free"
        assert [info async for info in world.aio.leases()] == []

    story(tell)


def test_leases_come_page_by_page_without_gaps_or_repeats() -> None:
    async def tell(world: World) -> None:
        count = LEASES_PAGE_MAX + 50
        for n in range(count):
            world.cluster.apply([1, n.to_bytes(16, "big"), b"job/%06d" % n, 60_000, 1, 0, 0, b"me", b'{"n":1}'])
        world.cluster.apply([1, b"x" * 16, b"other", 60_000, 2, 0, 0, b"me", b""])
        found = [info async for info in world.aio.leases("job/")]
        assert [info.name for info in found] == [f"job/{n:06}" for n in range(count)]
        assert len(world.cluster.of(Op.LEASES)) == 2
        assert found[0].metadata == {"n": 1}
        assert (found[0].lease_time, found[0].max_leaders, found[0].session, found[0].revoked) == (60.0, 1, 0, False)
        assert len([info async for info in world.aio.leases()]) == count + 1
        assert [info async for info in world.aio.leases("job-")] == []
        with pytest.raises(UsageError):
            world.aio.leases("-")

    story(tell)


def test_status_is_answered_without_a_raft_leader() -> None:
    async def tell(world: World) -> None:
        world.cluster.lead("")
        status = await world.aio.status()
        assert status.node_id in world.cluster.addresses
        assert status.leader is None
        with pytest.raises(Unavailable):
            await world.aio.state("job", timeout=0.5)

    story(tell)


def test_the_members_are_those_that_the_raft_leader_sees() -> None:
    async def tell(world: World) -> None:
        for leader in world.cluster.addresses[1], world.cluster.addresses[2], world.cluster.addresses[0]:
            # The client is not told: what it knows is the raft leader of before.
            world.cluster.leader = leader
            found = {member.node_id: member.role for member in await world.aio.members.list()}
            assert found == {address: "leader" if address == leader else "follower" for address in world.cluster.addresses}

    story(tell)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (Op.STATE, [0, 1]),
        (Op.STATE, [0, 1, [[b"job"]], 0]),
        (Op.STATE, [0, 1, [["job", 0, 1, b"", 1, 1, 1, 1, 0, 0, b""]], 0]),
        (Op.STATE, [0, 1, 5, 0]),
        (Op.STATUS, [0, "x"]),
        (Op.STATUS, [0, {"term": "x"}]),
        (Op.STATE, [int(Status.NOT_HELD)]),
    ],
)
def test_an_answer_of_another_shape_is_an_error(code: int, answer: list[object]) -> None:
    async def tell(world: World) -> None:
        world.cluster.always(code, Fate(answer=answer))
        asked = world.aio.status() if code == Op.STATUS else world.aio.state("job")
        assert isinstance(await outcome_of(asked), ProtocolError)

    story(tell)


def test_a_read_without_an_answer_is_unavailable_never_unknown() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.always(Op.STATE, LOST_REPLY)
        with pytest.raises(Unavailable) as caught:
            await world.aio.state("job", timeout=1)
        assert caught.value.applied == "no"

    story(tell)


def test_revoking() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=60)
        assert lease is not None
        assert await world.aio.revoke("job") == 1
        assert await world.aio.revoke("job") == 0
        assert [info.revoked async for info in world.aio.leases()] == [True]
        assert await world.aio.revoke("job", 0, force=True) == 1
        assert world.cluster.of(Op.REVOKE)[-1].op == [7, b"job", 0, True]
        world.cluster.once(Op.REVOKE, Fate(answer=[int(Status.BAD_REQUEST), "revoking needs the admin role"]))
        with pytest.raises(UsageError, match="admin role"):
            await world.aio.revoke("job")
        for bad in (-1, True, "0"):
            with pytest.raises(UsageError, match="slot"):
                await world.aio.revoke("job", bad)  # type: ignore[arg-type]
        assert await lease.release() is False

    story(tell)
