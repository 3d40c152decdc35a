"""The way to the raft leader: followed, left when silent, stopping or talking nonsense, and believed only while it loses nothing.

Knows: what a client must do when nodes come, go and change. Must not know: how it does it.
"""

from __future__ import annotations

import asyncio

import pytest

from cluster.errors import AuthenticationError, Unavailable
from cluster.opcodes import Op, Status
from tests.client.fakeserver import Fate
from tests.client.support import World, outcome_of, story

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("push", [True, False])
def test_it_follows_the_raft_leader(push: bool) -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        world.cluster.lead("n3:1", push=push)
        started = world.now
        assert await lease.release() is True
        assert world.now - started < 0.3
        assert world.cluster.of(Op.RELEASE)[-1].address == "n3:1"
        # One connection, to the node that leads.
        await world.advance(0.1)
        assert [conn.address for conn in world.cluster.conns] == ["n3:1"]

    story(tell)


def test_a_killed_leader_is_left_for_the_next_one__A4() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        world.cluster.kill("n1:1")
        world.env.call_later(0.8, world.cluster.lead, "n2:1")
        started = world.now
        other = await world.aio.acquire("other", lease_time=10)
        assert other is not None
        # The push of the scout's node names the new leader: no timer is waited for.
        assert 0.8 <= world.now - started < 0.95
        assert lease.confidence == "held"
        assert await lease.release() is True
        assert await other.release() is True
        assert world.cluster.most_dials <= 2

    story(tell)


def test_a_silent_leader_is_noticed_and_left() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.silent.add("n1:1")
        world.env.call_later(0.7, world.cluster.lead, "n2:1")
        started = world.now
        lease = await world.aio.acquire("job", lease_time=30)
        assert lease is not None
        assert 3.0 < world.now - started < 4.5
        await lease.release()

    story(tell)


def test_a_held_lease_keeps_watch_on_the_connection() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=60)
        assert lease is not None
        world.cluster.silent.add("n1:1")
        world.cluster.lead("n2:1")
        await world.until(lambda: any(conn.address == "n2:1" for conn in world.cluster.conns), within_s=5)
        await lease.release()
        before = len(world.cluster.of(Op.PING))
        await world.advance(5)
        # Nothing is held or asked: nothing is sent.
        assert len(world.cluster.of(Op.PING)) <= before + 1

    story(tell)


def test_unreachable_nodes_are_named_with_their_reasons() -> None:
    async def tell(world: World) -> None:
        world.cluster.up.clear()
        with pytest.raises(Unavailable, match=r"n1:1: n1:1: connection refused") as caught:
            await world.aio.acquire("job", timeout=1)
        assert all(address in str(caught.value) for address in world.cluster.addresses)

    story(tell)


def test_a_stopping_node_is_left() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        world.cluster.once(Op.ACQUIRE, Fate(answer=[int(Status.CLOSING)]))
        world.cluster.lead("n2:1", push=False)
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        await lease.release()

    story(tell)


GARBAGE = {
    "length": b"\xff\xff\xff\xff",
    "no msgpack": b"\0\0\0\x01\xc1",
    "no answer": b"\0\0\0\x03\x92\x63\x90",
    "nobody asked": b"\0\0\0\x04\x92\x63\x91\0",
    "no reply": b"\0\0\0\x02\x91\0",
}


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_ends_the_connection_and_nothing_else__G5(raw: bytes) -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=10)
        assert lease is not None
        conn = world.cluster.conns[0]
        conn.raw(raw)
        await world.until(lambda: not conn.open)
        assert await lease.release() is True

    story(tell)


def test_another_cluster_under_the_same_addresses_ends_what_was_held__E4() -> None:
    async def tell(world: World) -> None:
        lease = await world.aio.acquire("job", lease_time=60)
        assert lease is not None
        for address in world.cluster.addresses:
            world.cluster.kill(address)
        world.cluster.up.update(world.cluster.addresses)
        world.cluster.cluster_id = b"d" * 16
        world.cluster.lead("n2:1")
        with pytest.raises(Unavailable, match="another cluster"):
            await world.aio.state("job", timeout=2)
        assert not lease.lost.is_set()
        await world.advance(6)
        assert lease.lost.is_set()
        assert (await world.aio.state("job")).waiters == 0

    story(tell)


def test_a_session_that_was_to_be_opened_when_the_cluster_changed_is_opened_by_the_new_one__E4() -> None:
    async def tell(world: World) -> None:
        await world.aio.state("job")
        for address in world.cluster.addresses:
            world.cluster.kill(address)
        task = asyncio.ensure_future(world.aio.acquire("job", lease_time=2, auto_extend=True, timeout=20))
        await world.advance(0.1)
        world.cluster.up.update(world.cluster.addresses)
        world.cluster.cluster_id = b"d" * 16
        world.cluster.lead("n2:1")
        await world.until(task.done, within_s=15)
        lease = task.result()
        assert lease is not None
        await world.advance(7)
        assert lease.confidence == "held", "it is renewed"
        assert await lease.release() is True

    story(tell)


def test_refusals_of_all_nodes_are_told_as_what_they_are__G6() -> None:
    async def tell(world: World) -> None:
        for address in world.cluster.addresses:
            world.cluster.errors[address] = AuthenticationError("different secrets", "check it")
        found = await outcome_of(world.aio.acquire("job", timeout=1))
        assert isinstance(found, AuthenticationError)
        assert found.applied == "no"

    story(tell)


def test_a_reply_that_was_lost_without_a_trace_is_noticed_by_the_next_ping() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        blocker = await other.aio.acquire("job", lease_time=60)
        assert blocker is not None
        waiting = asyncio.ensure_future(world.aio.acquire("job", lease_time=60, wait_time=30))
        await world.advance(2)
        (mine,) = [conn for conn in world.cluster.conns if conn.hello.node_id == "me"]
        # For a while the way back swallows what it carries, and nobody is told.
        deliver, mine._deliver = mine._deliver, lambda data: None  # type: ignore[method-assign]
        await blocker.release()
        await world.advance(1.0)
        mine._deliver = deliver  # type: ignore[method-assign]
        started = world.now
        lease = await waiting
        assert lease is not None
        assert world.now - started < 1.2
        assert len({request.op[2][1] for request in world.cluster.of(Op.WAIT) if request.conn.hello.node_id == "me"}) == 1
        await lease.release()
        await other.aio.close(limit=0)

    story(tell)


def test_a_flood_of_waits_does_not_pile_up_in_front_of_the_node__G5() -> None:
    async def tell(world: World) -> None:
        other = world.another()
        blocker = await other.aio.acquire("job", lease_time=600)
        assert blocker is not None
        await world.aio.state("job")
        unread = 0
        most = 0
        conn = next(conn for conn in world.cluster.conns if conn.hello.node_id == "me")
        write, received = conn.client.write, conn.received

        def counted(data: bytes) -> None:
            nonlocal unread, most
            unread += len(data)
            most = max(most, unread)
            write(data)

        def read(data: bytes) -> None:
            nonlocal unread
            unread -= len(data)
            received(data)

        conn.client.write, conn.received = counted, read  # type: ignore[method-assign]
        waits = [
            asyncio.ensure_future(world.aio.acquire("job", wait_time=2, metadata={"x": "y" * 4000})) for _ in range(1500)
        ]
        assert set(await asyncio.gather(*waits)) == {None}
        assert 4 << 20 < most < 5 << 20
        await blocker.release()
        await other.aio.close(limit=0)

    story(tell)
