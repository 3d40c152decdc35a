"""Connections that mean no good: bounded in number, in bytes, in time; closed with a reason; everybody else unharmed."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import tracemalloc

import pytest

from cluster.address import Address
from cluster.codec import frame, pack, unpack
from cluster.env import RealEnv
from cluster.limits import HANDSHAKE_MAX_BYTES
from cluster.net.complaints import DIFFERENT_MAX, REPEAT_S, Complaints
from cluster.net.handshake import NONCE_BYTES, AcceptorHandshake, DialerHandshake
from cluster.ports import Hello, Welcome
from cluster.secrets import Secrets
from tests.net.support import Node, Raw, addresses, mesh, run, until
from tests.net.test_clients import opened

pytestmark = pytest.mark.fast


async def is_served(env: RealEnv, node: Node) -> bool:
    """Whether an honest client gets what it asks for."""
    connection, data, _ = await opened(env, node.address)
    connection.write(b"hello")
    await until(lambda: data == [b"hello"], "an honest client is served")
    ends = len(node.ends)
    connection.close()
    await until(lambda: len(node.ends) > ends, "it has left")
    return True


HOSTILE = {
    "4 GiB header": b"\xff\xff\xff\xff",
    "header over the cap": (HANDSHAKE_MAX_BYTES + 1).to_bytes(4, "big"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(100),
    "empty frame": frame(b""),
    "a number": frame(pack(7)),
    "deep": frame(b"\x91" * 2000 + b"\x01"),
    "wide": frame(b"\xdd\xff\xff\xff\xff"),
    "extension": frame(b"\xd6\xff\0\0\0\0"),
    "another version": frame(pack(["tenure", 99])),
    "two hellos": frame(pack(["tenure", 1, "client", b"", "x", b"I" * 16, b"N" * 32, {}])) * 2,
}


@pytest.mark.parametrize("role", ["client", "peer"])
def test_what_a_stranger_says_of_itself_takes_little_more_than_its_bytes(role: str) -> None:
    own = Hello("peer", "10.0.0.2:7101", b"N" * 16)
    told: list[Hello] = []

    def accepting() -> AcceptorHandshake:
        welcome = Welcome(own.node_id, b"", 0, "")
        return AcceptorHandshake(own, Secrets.of(b"s" * 16), bytes(NONCE_BYTES), told.append, lambda hello: welcome)

    waiting = [accepting() for _ in range(10)]
    hello = Hello(role, "10.0.0.1:7101", b"I" * 16, info={"peers": [[] for _ in range(11_000)]})
    payload = pack(["tenure", 1, role, b"", hello.node_id, hello.incarnation, b"n" * NONCE_BYTES, dict(hello.info)])
    tracemalloc.start()
    try:
        for handshake in waiting:
            handshake.receive(payload)
        assert tracemalloc.get_traced_memory()[0] < len(waiting) * 4 * HANDSHAKE_MAX_BYTES
    finally:
        tracemalloc.stop()
    dialer, acceptor = DialerHandshake(hello, b"s" * 16, b"n" * NONCE_BYTES), accepting()
    acceptor.receive(dialer.receive(acceptor.receive(dialer.start()) or b"") or b"")
    # Of a client nothing is kept; of a peer all, once it has proven itself.
    assert [each.info for each in told] == [hello.info if role == "peer" else {}]


@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_handshake_is_told_why_and_closed(what: str, plain: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        raw = Raw(node.address)
        await raw.send(HOSTILE[what])
        message = unpack(await raw.frame())
        if message[0] != "error":
            message = unpack(await raw.frame())
        assert message[0] == "error"
        assert message[2].isprintable()
        while await raw.read():
            pass
        raw.close()
        assert await is_served(env, node)
        assert len(node.clients) == 1
        await node.stop()

    with caplog.at_level(logging.WARNING):
        run(work, plain=plain)
    assert "handshake.refused" in caplog.text


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_do_no_harm(seed: int) -> None:
    rng = random.Random(seed)

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        strangers = [Raw(node.address) for _ in range(10)]
        for raw in strangers:
            size = rng.choice((1, 3, 5, 100, HANDSHAKE_MAX_BYTES * 2))
            try:
                await raw.send(rng.randbytes(size))
            except OSError:
                continue  # It was closed before all of it was sent.
        assert await is_served(env, node)
        for raw in strangers:
            raw.close()
        await node.stop()
        assert len(node.clients) == 1

    run(work)


def test_bytes_come_slowly_one_at_a_time_and_still_count() -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        raw = Raw(node.address)
        hello = frame(pack(["tenure", 1, "client", b"", "x", b"I" * 16, b"N" * 32, {}]))
        for number in range(len(hello)):
            await raw.send(hello[number : number + 1])
        challenge = unpack(await raw.frame())
        assert challenge[0] == node.address
        raw.close()
        await node.stop()

    run(work)


def test_who_says_nothing_is_closed_in_time(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("cluster.net.lobby.HANDSHAKE_TIMEOUT_S", 0.2)

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        began = env.clock()
        silent = [Raw(node.address) for _ in range(20)]
        await until(lambda: len(node.net._lobby) == 20, "they are in")
        for raw in silent:
            assert await raw.read() == b""
            raw.close()
        assert env.clock() - began < 2.0
        assert len(node.net._lobby) == 0
        assert await is_served(env, node)
        await node.stop()

    with caplog.at_level(logging.DEBUG, "cluster.net"):
        run(work)
    assert "no handshake within 0.2 s" in caplog.text


def test_who_stops_half_way_is_closed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.net.lobby.HANDSHAKE_TIMEOUT_S", 0.2)

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        raw = Raw(node.address)
        await raw.send(frame(pack(["tenure", 1, "client", b"", "x", b"I" * 16, b"N" * 32, {}])))
        await raw.frame()
        assert await raw.read() == b""
        raw.close()
        await node.stop()

    run(work)


def test_a_flood_of_the_silent_throws_out_its_own_oldest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cluster.net.lobby.UNAUTHENTICATED_MAX", 20)

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        connection, data, _ = await opened(env, node.address)
        flood = []
        for number in range(60):
            flood.append(Raw(node.address))
            await until(lambda n=number: len(node.net._lobby) == min(n + 1, 20), "they are in")  # type: ignore[misc]
        assert await flood[0].read() == b"", "the oldest is closed"
        connection.write(b"still here")
        await until(lambda: data == [b"still here"], "who has shaken hands is not thrown out")
        assert await is_served(env, node)
        for raw in flood:
            raw.close()
        connection.close()
        await until(lambda: len(node.ends) == 2, "gone")
        await node.stop()

    with caplog.at_level(logging.DEBUG, "cluster.net"):
        run(work)
    assert "more than 20 connections have not shaken hands" in caplog.text


def test_the_same_complaint_is_not_repeated_and_there_is_an_end_to_different_ones() -> None:
    now = 0.0
    complaints = Complaints(lambda: now)
    assert complaints.is_news(("secret", "a"))
    assert not complaints.is_news(("secret", "a"))
    assert sum(complaints.is_news(("secret", str(number))) for number in range(1000)) == DIFFERENT_MAX - 1
    now = REPEAT_S
    assert complaints.is_news(("secret", "a"))
    assert not complaints.is_news(("secret", "a"))


def test_only_who_knows_the_secret_is_believed_that_a_node_was_removed() -> None:
    async def work(env: RealEnv) -> None:
        mine, other = addresses(2)
        told: list[str] = []
        refusal = frame(pack(["error", "removed", "so it is"]))
        impostor = socket.create_server(("127.0.0.1", Address.parse(other).port))

        impostor.settimeout(8.0)

        def lie() -> None:
            for _ in range(2):
                caller, _ = impostor.accept()
                caller.sendall(refusal)
                caller.close()

        one = Node(env, mine, [mine, other])
        one.net.on_removed = lambda peer, text: told.append(f"{peer} says {text}")
        await one.net.start()
        # By the second call the first one's refusal was read.
        await asyncio.wait_for(asyncio.to_thread(lie), 8.0)
        impostor.close()
        believed, told[:] = list(told), []
        peer = Node(env, other, accept=lambda hello: ("removed", "so it is"))
        await peer.net.start()
        await until(lambda: bool(told), "the true one is heard")
        await one.stop()
        await peer.stop()
        assert not believed
        assert told[0] == f"{other} says so it is"

    run(work)
