"""Clients on real sockets: let in, refused, slow, gone; each with a clear end."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from cluster.address import Address
from cluster.env import RealEnv
from cluster.errors import AuthenticationError, ProtocolError, UsageError
from cluster.net import open_client
from cluster.ports import Connection, Hello
from tests.net.support import SECRET, Node, Raw, addresses, client, mesh, run, until

pytestmark = pytest.mark.fast

TIMEOUT_S = 5.0


async def opened(env: RealEnv, address: str, **more: object) -> tuple[Connection, list[bytes], list[str]]:
    connection, _ = await open_client(env, Address.parse(address), client(**more), SECRET, TIMEOUT_S)  # type: ignore[arg-type]
    data: list[bytes] = []
    ends: list[str] = []
    connection.on_data = data.append
    connection.on_closed = ends.append
    return connection, data, ends


@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
def test_a_client_is_welcomed_and_its_bytes_go_through(plain: bool) -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, cluster_id=b"C" * 16)
        connection, welcome = await open_client(env, Address.parse(node.address), client(), SECRET, TIMEOUT_S)
        assert (welcome.node_id, welcome.cluster_id, welcome.epoch) == (node.address, b"C" * 16, 3)
        assert node.clients[0].hello == connection.hello == client()
        data: list[bytes] = []
        ends: list[str] = []
        connection.on_data = data.append
        connection.on_closed = ends.append
        heard_at = connection.heard_at
        blob = bytes(range(256)) * 20_000
        connection.write(blob)
        await until(lambda: b"".join(data) == blob, "echoed")
        assert connection.heard_at > heard_at
        assert node.clients[0].heard_at > heard_at
        connection.close("done")
        await until(lambda: ends and node.ends, "both told")
        assert (ends, node.ends) == (["done"], ["closed by the other side"])
        connection.write(b"nothing happens")
        await node.stop()

    run(work, plain=plain)


def test_a_push_right_behind_the_welcome_is_not_lost() -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)

        def push(connection: Connection) -> None:
            connection.on_data = lambda data: None
            connection.on_closed = node.ends.append
            connection.write(b"first")
            connection.write(b" words")

        node.net.on_client = push
        # Through a task, so that turns of the loop lie between the handshake and the owner's callbacks.
        task = asyncio.ensure_future(open_client(env, Address.parse(node.address), client(), SECRET, TIMEOUT_S))
        await until(task.done, "open")
        connection, _ = task.result()
        data: list[bytes] = []
        connection.on_data = data.append
        await until(lambda: b"".join(data) == b"first words", "all of it")
        connection.close()
        await until(lambda: node.ends, "noticed")
        await node.stop()

    run(work)


def test_a_stopping_node_tells_its_clients() -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        _, _, ends = await opened(env, node.address)
        node.clients[0].write(b"x" * 100_000)
        await node.stop()
        await until(lambda: ends, "told")
        assert node.ends == ["this node stops"]

    run(work)


@pytest.mark.parametrize(
    ("hello", "secret", "error", "text"),
    [
        (client(), None, AuthenticationError, "requires a secret, and tester:1 has none"),
        (client(), b"wrong", AuthenticationError, "different secrets"),
        (client(cluster_id=b"D" * 16), SECRET, AuthenticationError, "different clusters"),
        (Hello("client", "c", b"short"), SECRET, UsageError, "incarnation"),
        (client(), b"", UsageError, "empty"),
    ],
)
def test_a_refusal_is_the_right_error(
    hello: Hello, secret: bytes | None, error: type[Exception], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, cluster_id=b"C" * 16)
        with pytest.raises(error, match=text):
            await open_client(env, Address.parse(node.address), hello, secret, TIMEOUT_S)
        assert not node.clients
        if error is AuthenticationError:
            await until(lambda: "cluster.net.node" in {record.name for record in caplog.records}, "said by the node")
            assert "cluster.net.connection" in {record.name for record in caplog.records}, "said by the client"
        await node.stop()

    with caplog.at_level(logging.WARNING):
        run(work)


def test_a_client_with_a_secret_does_not_talk_to_a_node_without() -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, secret=None)
        with pytest.raises(AuthenticationError, match="has none"):
            await open_client(env, Address.parse(node.address), client(), SECRET, TIMEOUT_S)
        assert not node.clients
        await node.stop()

    run(work)


def test_nobody_there_no_such_name_and_no_answer() -> None:
    async def work(env: RealEnv) -> None:
        (free,) = addresses(1)
        with pytest.raises(OSError, match=r"[Rr]efused|Connect call failed"):
            await open_client(env, Address.parse(free), client(), SECRET, TIMEOUT_S)
        for name in ("no-such-host.invalid:1", "a..b:1"):
            with pytest.raises(OSError, match=r".+"):
                await open_client(env, Address.parse(name), client(), SECRET, TIMEOUT_S)
        # The kernel takes the call, and nobody ever answers it.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            at = Address("127.0.0.1", silent.getsockname()[1])
            with pytest.raises(TimeoutError, match=r"within 0\.2 s"):
                await open_client(env, at, client(), SECRET, 0.2)

    run(work)


@pytest.mark.parametrize(
    ("answer", "error"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError), (b"\0\0\0\1\x05", ProtocolError), (b"", OSError)],
)
def test_what_is_no_node_is_told_apart(answer: bytes, error: type[Exception]) -> None:
    async def work(env: RealEnv) -> None:
        async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(answer)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(reply, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(error):
            await open_client(env, Address("127.0.0.1", port), client(), SECRET, TIMEOUT_S)
        server.close()

    run(work)


def test_a_cancelled_caller_leaves_nothing_open() -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        for turns in range(12):
            task = asyncio.ensure_future(open_client(env, Address.parse(node.address), client(), SECRET, TIMEOUT_S))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await until(task.done, "over")
            if not task.cancelled() and task.exception() is None:
                task.result()[0].close()
        await until(lambda: len(node.net._roster) == 0, "every socket is gone")
        await node.stop()

    run(work)


def test_too_many_clients_are_told_so_and_peers_still_come_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.net.node.CONNECTIONS_MAX", 2)

    async def work(env: RealEnv) -> None:
        names = addresses(2)
        one, two = Node(env, names[0], names), Node(env, names[1], names)
        await one.net.start()
        kept = [await opened(env, one.address) for _ in range(2)]
        with pytest.raises(ConnectionRefusedError, match="2 connections, its limit"):
            await open_client(env, Address.parse(one.address), client(), SECRET, TIMEOUT_S)
        await two.net.start()
        await until(lambda: one.is_up(two.address), "a peer is no client")
        kept[0][0].close()
        await until(lambda: len(one.ends) == 1, "one has left")
        connection, _, _ = await opened(env, one.address)
        connection.close()
        kept[1][0].close()
        await until(lambda: len(one.ends) == 3, "all have left")
        await one.stop()
        await two.stop()

    run(work)


@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
def test_a_client_that_does_not_read_is_closed_at_the_limit(
    plain: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cluster.net.connection.OUTPUT_BUFFER_MAX_BYTES", 1 << 20)

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        lazy = Raw(node.address)
        await lazy.shake(client())
        await until(lambda: node.clients, "let in")
        connection, other = node.clients[0], await opened(env, node.address)
        for _ in range(500):
            connection.write(bytes(100_000))
        await until(lambda: node.ends, "closed")
        assert "does not read" in node.ends[0]
        other[0].write(b"still served")
        await until(lambda: other[1] == [b"still served"], "others go on")
        other[0].close()
        lazy.close()
        await until(lambda: len(node.ends) == 2, "gone")
        await node.stop()

    with caplog.at_level(logging.DEBUG, "cluster.net"):
        run(work, plain=plain)
    assert "client.disconnected" in caplog.text
