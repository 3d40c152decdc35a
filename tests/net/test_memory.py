"""A connection in memory behaves like one over a socket: bytes in order, nothing early, one end with one reason."""

from __future__ import annotations

import pytest

from cluster.env import RealEnv
from cluster.limits import OUTPUT_BUFFER_MAX_BYTES
from cluster.net import memory_pair
from cluster.ports import Connection
from tests.net.support import client, run, until

pytestmark = pytest.mark.fast


def owned(connection: Connection) -> tuple[list[bytes], list[str]]:
    """Take a connection over; what it delivers, and its ends."""
    data: list[bytes] = []
    ends: list[str] = []
    connection.on_data = data.append
    connection.on_closed = ends.append
    return data, ends


def test_bytes_go_both_ways_in_order_and_not_at_once() -> None:
    async def work(env: RealEnv) -> None:
        near, far = memory_pair(env, client())
        assert near.id != far.id
        assert near.hello is far.hello
        near_data, _ = owned(near)
        far_data, _ = owned(far)
        for number in range(100):
            near.write(bytes([number]))
        far.write(b"back")
        assert not near_data, "never inside the write"
        assert not far_data, "never inside the write"
        await until(lambda: far_data and near_data, "delivered")
        assert b"".join(far_data) == bytes(range(100))
        assert near_data == [b"back"]
        assert near.heard_at <= env.clock()

    run(work)


def test_what_was_written_before_a_close_is_still_delivered() -> None:
    async def work(env: RealEnv) -> None:
        near, far = memory_pair(env, client())
        near_data, near_ends = owned(near)
        far_data, far_ends = owned(far)
        near.write(b"last words")
        near.close("enough")
        near.close("again")
        near.write(b"too late")
        far.write(b"not heard")
        await until(lambda: near_ends and far_ends, "both ends told")
        far.write(b"into the void")
        far.close("late")
        await until(lambda: len(near_ends) + len(far_ends) >= 2, "told")
        assert (near_ends, far_ends) == (["enough"], ["closed by the other side"])
        assert far_data == [b"last words"]
        assert not near_data

    run(work)


def test_nothing_is_lost_before_the_owner_has_said_where() -> None:
    async def work(env: RealEnv) -> None:
        near, far = memory_pair(env, client())
        near.write(b"early ")
        turned = False

        def turn() -> None:
            nonlocal turned
            turned = True

        env.call_later(0.01, turn)
        await until(lambda: turned, "some turns of the loop")
        data: list[bytes] = []
        far.on_data = data.append
        near.write(b"bird")
        await until(lambda: b"".join(data) == b"early bird", "all of it, in order")
        near.close()
        await until(lambda: far.on_closed is not None, "closed")
        ends: list[str] = []
        far.on_closed = ends.append
        await until(lambda: ends == ["closed by the other side"], "an end before the owner asked is told too")

    run(work)


def test_a_receiver_that_does_not_keep_up_is_cut_off() -> None:
    async def work(env: RealEnv) -> None:
        near, far = memory_pair(env, client())
        _, near_ends = owned(near)
        far_data, far_ends = owned(far)
        piece = bytes(1 << 20)
        for _ in range(OUTPUT_BUFFER_MAX_BYTES // len(piece) + 1):
            near.write(piece)
        await until(lambda: near_ends and far_ends, "closed")
        assert "wait to be delivered" in near_ends[0]
        assert not far_data

    run(work)


def test_a_close_inside_a_delivery_stops_deliveries() -> None:
    async def work(env: RealEnv) -> None:
        near, far = memory_pair(env, client())
        got: list[bytes] = []
        ends: list[str] = []

        def take(data: bytes) -> None:
            got.append(data)
            near.write(b"more")
            far.close("enough")

        far.on_data = take
        far.on_closed = ends.append
        near.write(b"one")
        await until(lambda: ends == ["enough"], "closed once")
        assert got == [b"one"]

    run(work)
