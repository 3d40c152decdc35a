"""TLS: who is let in, what both sides say when somebody is not, and that a handshake belongs to its own TLS connection (G6)."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.address import Address
from cluster.client import connect
from cluster.codec import frame, pack, unpack
from cluster.env import RealEnv
from cluster.errors import AuthenticationError, CoordinationError, UsageError
from cluster.limits import TLS_HANDSHAKE_MAX_BYTES
from cluster.net import open_client
from cluster.ports import Connection, Hello
from cluster.tls import Credentials, Tls, TlsFailure
from tests.certificates import HOST, Authority, options
from tests.net.support import SECRET, Node, Raw, addresses, client, formed, mesh, run, until

BIG = 300_000


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def files(ours: Authority, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tls]:
    theirs = Authority(tmp_path_factory.mktemp("theirs"), "theirs")
    return {
        "node": ours.issue("node", HOST),
        "client": ours.issue("client"),
        "expired": ours.issue("expired", HOST, ends_in=timedelta(seconds=-60)),
        "wrong ca": theirs.issue("client", HOST, ca=ours.ca),
        "wrong belief": ours.issue("unbelieving", HOST, ca=theirs.ca),
    }


@pytest.fixture(scope="module")
def credentials(files: dict[str, Tls]) -> dict[str, Credentials]:
    return {name: Credentials(tls) for name, tls in files.items()}


@pytest.fixture(params=[False, True], ids=["uvloop", "asyncio"])
def plain(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def opened(env: RealEnv, node: Node, tls: Credentials | None, secret: bytes | None = SECRET) -> tuple[Connection, list[bytes]]:
    connection, _ = await open_client(env, Address.parse(node.address), client(), secret, 8.0, tls)
    data: list[bytes] = []
    connection.on_data = data.append
    connection.on_closed = lambda reason: None
    return connection, data


async def is_served(env: RealEnv, node: Node, tls: Credentials) -> None:
    connection, data = await opened(env, node, tls)
    connection.write(b"x" * BIG)
    await until(lambda: sum(map(len, data)) == BIG, "an honest client is served")
    connection.close()


@pytest.mark.fast
def test_nodes_and_clients_talk_over_tls_whoever_dials(credentials: dict[str, Credentials], plain: bool) -> None:
    async def work(env: RealEnv) -> None:
        nodes = await mesh(env, 3, tls=credentials["node"])
        await formed(nodes)
        one, two = nodes[0], nodes[2]
        assert one.net.send(two.address, b"a" * BIG)
        assert two.net.send(one.address, b"b" * BIG)
        await until(lambda: two.frames(one.address) == [b"a" * BIG], "it arrives")
        await until(lambda: one.frames(two.address) == [b"b" * BIG], "it arrives")
        await is_served(env, one, credentials["client"])
        await until(lambda: one.ends == ["closed by the other side"], "the client's end is seen")
        for node in nodes:
            await node.stop()

    run(work, plain=plain)


# Who calls how, and what the two sides say.
CALLERS = {
    "wrong ca": ("alert unknown ca|refused this side's", "certificate is refused: unable to get|self-signed"),
    "expired": ("certificate expired", "certificate is refused: certificate has expired"),
    "wrong belief": ("certificate is refused", "unknown ca"),
    "no tls": ("requires TLS", "requires TLS, and the other side speaks without it"),
}


@pytest.mark.parametrize("how", CALLERS)
def test_who_has_no_good_certificate_is_refused_in_one_line_on_both_sides(
    how: str, credentials: dict[str, Credentials], plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, tls=credentials["node"])
        with pytest.raises(AuthenticationError, match=CALLERS[how][0]) as caught:
            await opened(env, node, credentials.get(how))
        assert "\n" not in str(caught.value)
        assert "--tls-ca" in caught.value.hint
        await until(lambda: "handshake.refused who=" in caplog.text, "the node says so too")
        await is_served(env, node, credentials["client"])
        assert len(node.clients) == 1
        await node.stop()

    with caplog.at_level(logging.INFO, "cluster.net"):
        run(work, plain=plain)
    said = [record.getMessage() for record in caplog.records if record.name == "cluster.net.node"]
    assert any(re.search(CALLERS[how][1], line) for line in said), said


def test_without_any_certificate__G6(
    ours: Authority, credentials: dict[str, Credentials], plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The stranger is Python's own TLS client: it believes the authority and shows nothing."""

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, tls=credentials["node"])
        at = Address.parse(node.address)
        context = ssl.create_default_context(cafile=str(ours.ca))

        def call() -> bytes:
            with socket.create_connection((at.host, at.port), timeout=10) as raw, context.wrap_socket(
                raw, server_hostname=at.host
            ) as secure:
                secure.sendall(frame(pack(["tenure", 1, "client", b"", "x", b"I" * 16, b"N" * 32, {}])))
                return secure.recv(100)

        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(call)
        assert not node.clients
        await node.stop()

    with caplog.at_level(logging.INFO, "cluster.net"):
        run(work, plain=plain)
    assert "the other side has no certificate" in caplog.text


def test_a_caller_with_tls_meets_a_node_without(
    credentials: dict[str, Credentials], plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        with pytest.raises(AuthenticationError, match="speaks without TLS"):
            await opened(env, node, credentials["client"])
        await until(lambda: "the caller speaks TLS, and" in caplog.text, "the node says so too")
        await node.stop()

    with caplog.at_level(logging.INFO, "cluster.net"):
        run(work, plain=plain)


def test_a_node_that_is_not_who_its_certificate_names_is_not_talked_to(ours: Authority, credentials: dict[str, Credentials]) -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, tls=Credentials(ours.issue("elsewhere", "10.9.8.7", "node-9.example")))
        with pytest.raises(AuthenticationError, match="IP address mismatch"):
            await opened(env, node, credentials["client"])
        await node.stop()

    run(work)


def test_a_client_certificate_makes_no_peer__G6(credentials: dict[str, Credentials], caplog: pytest.LogCaptureFixture) -> None:
    """Without a secret the certificate alone must tell a node from a client."""

    async def work(env: RealEnv) -> None:
        low, high = addresses(2)
        node = Node(env, low, [high], secret=None, tls=credentials["node"])
        await node.net.start()
        at, hello = Address.parse(low), Hello("peer", high, b"P" * 16)
        with pytest.raises(AuthenticationError, match=f"does not name the host '{HOST}'"):
            await open_client(env, at, hello, None, 5.0, credentials["client"])
        assert not node.story
        await node.stop()

    run(work)


def test_a_peer_without_tls_and_one_with_never_meet(credentials: dict[str, Credentials], caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        names = addresses(3)
        nodes = [Node(env, name, names, tls=credentials["node"]) for name in names[:2]]
        odd = Node(env, names[2], names)
        for node in (*nodes, odd):
            await node.net.start()
        await until(lambda: nodes[0].is_up(names[1]) and nodes[1].is_up(names[0]), "the two are whole")
        await until(lambda: "requires TLS" in caplog.text and "speaks without TLS" in caplog.text, "all say why")
        assert not odd.story
        for node in (*nodes, odd):
            await node.stop()

    with caplog.at_level(logging.INFO, "cluster.net"):
        run(work)


@pytest.mark.fast
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_ends_agree_on_what_binds_and_no_two_connections_do(files: dict[str, Tls], version: ssl.TLSVersion) -> None:
    bindings = set()
    for _ in range(3):
        near, far = Credentials(files["client"]), Credentials(files["node"])
        near._dialing.maximum_version = near._dialing.minimum_version = version
        one, two = near.dialing(HOST), far.accepting()
        one.begin()
        for _ in range(4):
            if data := one.outgoing():
                two.receive(data)
            if data := two.outgoing():
                one.receive(data)
        assert one.done
        assert two.done
        assert one._open().version() == version.name.replace("_", ".")
        assert len(one.binding()) >= 12
        assert one.binding() == two.binding()
        bindings.add(one.binding())
    assert len(bindings) == 3


def test_a_handshake_that_is_carried_between_two_tls_connections_is_refused__G6(credentials: dict[str, Credentials]) -> None:
    """Somebody with a good certificate stands between an operator and a node, and passes everything on."""

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, tls=credentials["node"])
        upstream: list[Any] = []

        class Between(asyncio.Protocol):
            def __init__(self, other: Between | None) -> None:
                self.other, self.early = other, b""
                self.transport: Any = None

            def connection_made(self, transport: Any) -> None:
                self.transport = transport
                if self.other is None:
                    self.other = Between(self)
                    upstream.append(loop.create_task(self._dial(self.other)))

            async def _dial(self, other: Between) -> None:
                at = Address.parse(node.address)
                context = credentials["node"]._dialing
                await loop.create_connection(lambda: other, at.host, at.port, ssl=context)
                other.transport.write(self.early)

            def data_received(self, data: bytes) -> None:
                assert self.other is not None
                if self.other.transport is None:
                    self.early += data
                else:
                    self.other.transport.write(data)

            def connection_lost(self, exc: Exception | None) -> None:
                if self.other is not None and self.other.transport is not None:
                    self.other.transport.close()

        loop = asyncio.get_running_loop()
        context = credentials["node"]._accepting
        server = await loop.create_server(lambda: Between(None), HOST, 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(AuthenticationError, match="different secrets"):
            await open_client(env, Address(HOST, port), client(), SECRET, 5.0, credentials["client"])
        server.close()
        await asyncio.gather(*upstream)
        assert not node.clients
        await node.stop()

    run(work, plain=True)


@pytest.mark.parametrize(
    "said",
    [b"\x16" * (TLS_HANDSHAKE_MAX_BYTES + 1), bytes.fromhex("16030100c8010000c40303") + bytes(500), b"GET / HTTP/1.1\r\n\r\n", b"\x16"],
    ids=["too much", "garbage", "http", "one byte"],
)
def test_garbage_before_tls_is_closed_and_harms_nobody__G5(
    said: bytes, credentials: dict[str, Credentials], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cluster.net.lobby.HANDSHAKE_TIMEOUT_S", 0.3)

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, tls=credentials["node"])
        raw = Raw(node.address)
        await raw.send(said)
        while await raw.read():
            pass
        raw.close()
        await is_served(env, node, credentials["client"])
        await node.stop()

    run(work)


def test_a_caller_without_tls_can_read_why(credentials: dict[str, Credentials]) -> None:
    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1, tls=credentials["node"])
        raw = Raw(node.address)
        await raw.send(frame(pack(["tenure", 1, "client", b"", "x", b"I" * 16, b"N" * 32, {}])))
        assert unpack(await raw.frame())[:2] == ["error", "tls"]
        raw.close()
        await node.stop()

    run(work)


def test_unix_sockets_have_no_tls(tmp_path: Path, credentials: dict[str, Credentials]) -> None:
    async def work(env: RealEnv) -> None:
        (name,) = addresses(1)
        path = Address(path=str(tmp_path / "door"))
        node = Node(env, name, listen=[Address.parse(name), path], tls=credentials["node"])
        await node.net.start()
        connection, _ = await open_client(env, path, client(), SECRET, 5.0, credentials["client"])
        connection.close()
        await is_served(env, node, credentials["client"])
        await node.stop()

    run(work)


def test_files_that_cannot_be_used_are_named(files: dict[str, Tls], tmp_path: Path) -> None:
    good = files["node"]
    nothing = tmp_path / "nothing"
    nothing.write_text("hunter2")
    encrypted = tmp_path / "encrypted"
    encrypted.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIBvTBXBgkqhkiG9w0BBQ0wSjApBgkq\n-----END ENCRYPTED PRIVATE KEY-----\n")
    wrong: list[tuple[Any, str]] = [
        (Tls("/no/such.pem", good.key, good.ca), "tls cert '/no/such.pem': No such file"),
        (Tls(good.cert, "/no/such.key", good.ca), "tls key '/no/such.key'"),
        (Tls(good.cert, good.key, "/no/ca.pem"), "tls ca '/no/ca.pem'"),
        (Tls(good.cert, files["client"].key, good.ca), "key values mismatch"),
        (Tls(str(nothing), good.key, good.ca), "cannot be used"),
        (Tls(good.cert, good.key, str(nothing)), "holds no certificate"),
        ("tls", "must be a tenure.Tls, not str"),
    ]
    for tls, text in wrong:
        with pytest.raises(UsageError) as caught:
            Credentials(tls)
        assert text in str(caught.value)
        assert "hunter2" not in str(caught.value)
        with pytest.raises(UsageError):
            connect("127.0.0.1:1", tls=tls)
    assert issubclass(UsageError, CoordinationError)
    assert options(good)[0] == "--tls-cert"


@pytest.mark.parametrize(("host", "secure", "is_said"), [("0.0.0.0", False, True), ("0.0.0.0", True, False), (HOST, False, False)])
def test_a_secret_without_tls_is_said_to_leave_the_wire_open(
    host: str, secure: bool, is_said: bool, credentials: dict[str, Credentials], caplog: pytest.LogCaptureFixture
) -> None:
    async def work(env: RealEnv) -> None:
        (name,) = addresses(1)
        listen = Address(host, Address.parse(name).port)
        node = Node(env, name, listen=listen, tls=credentials["node"] if secure else None)
        await node.net.start()
        await node.stop()

    run(work)
    assert ("wire.open" in caplog.text) is is_said


def test_a_caller_with_tls_says_nothing_without_it(credentials: dict[str, Credentials]) -> None:
    """Whoever stands in between could take TLS away otherwise, by an answer of its own."""

    async def work(env: RealEnv) -> None:
        heard: list[bytes] = []

        class Downgrader(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                transport.write(frame(pack(["10.0.0.2:7101", b"", b"N" * 16, b"n" * 32, b"", {}])))

            def data_received(self, data: bytes) -> None:
                heard.append(data)

        server = await asyncio.get_running_loop().create_server(Downgrader, HOST, 0)
        at = Address(HOST, server.sockets[0].getsockname()[1])
        with pytest.raises(AuthenticationError, match="speaks without TLS"):
            await open_client(env, at, client(), None, 5.0, credentials["client"])
        server.close()
        assert b"tenure" not in b"".join(heard)
        assert all(data[:2] == b"\x16\x03" for data in heard)

    run(work)


@pytest.mark.parametrize("host", [".example", "x" * 64 + ".example", "", "a..b"])
def test_a_host_that_no_certificate_can_name_is_a_failure_and_no_traceback(host: str, credentials: dict[str, Credentials]) -> None:
    with pytest.raises(TlsFailure, match="no name that a certificate can have"):
        credentials["client"].dialing(host).begin()
