"""Connecting over sockets: the first contact, and every way it fails (E13, G6).

Knows: endpoints, secrets, what ``connect`` must say. Must not know: handshakes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.address import Address
from cluster.client import Coordinator, IoThread, connect, connect_async
from cluster.errors import AuthenticationError, CoordinationError, ProtocolError, Unavailable, UsageError
from cluster.local import LocalNode
from cluster.net import NodeNet
from cluster.ports import Hello
from cluster.secrets import Secret, Secrets
from tests.support_cluster import free_ports

pytestmark = pytest.mark.fast


@contextlib.contextmanager
def node_at(address: str, secret: Secret = None) -> Iterator[None]:
    """One node that serves its own table at a socket."""
    io = IoThread("test-node")
    at = Address.parse(address)

    async def start() -> tuple[LocalNode, NodeNet]:
        node = LocalNode(io.env)
        hello = Hello("peer", address, b"n" * 16)
        net = NodeNet(
            io.env,
            listen=at,
            advertise=at,
            peers=(),
            secrets=Secrets.of(secret),
            hello=lambda: hello,
            welcome=node.server.welcome,
        )
        net.on_client = node.server.client_connected
        await net.start()
        return node, net

    async def stop() -> None:
        net.close()
        node.close()
        await asyncio.sleep(0)

    node, net = io.run(start())
    try:
        yield
    finally:
        io.run(stop())
        io.stop()


def no_threads_left() -> bool:
    return not [thread for thread in threading.enumerate() if thread.name == "tenure-io"]


def use(coordinator: Coordinator) -> None:
    with coordinator:
        lease = coordinator.acquire("job", lease_time=5, metadata={"by": "test"})
        assert lease is not None
        assert [info.metadata for info in coordinator.leases()] == [{"by": "test"}]
        assert lease.release() is True
    assert no_threads_left()


@pytest.mark.parametrize("secret", [None, "open sesame"])
def test_over_tcp(secret: str | None) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with node_at(address, secret.encode() if secret else None):
        use(connect(address, secret=secret))
        use(connect([f"127.0.0.1:{free_ports(1)[0]}", address], secret=secret))


def test_over_a_unix_socket(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    with node_at(address):
        use(connect(address))


def test_without_blocking_the_loop() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"

    async def go() -> None:
        coordinator = await connect_async(address)
        async with coordinator.aio as aio:
            lease = await aio.acquire("job")
            assert lease is not None
            async with lease:
                assert [info.name async for info in aio.leases("jo")] == ["job"]
        with pytest.raises(UsageError):
            await connect_async("nonsense")
        with pytest.raises(Unavailable):
            await connect_async(f"127.0.0.1:{free_ports(1)[0]}", timeout=0.2)

    with node_at(address):
        asyncio.run(go())
    assert no_threads_left()


def test_nobody_there_names_addresses_and_reasons__E13() -> None:
    addresses = [f"127.0.0.1:{free_ports(1)[0]}" for _ in range(2)]
    started = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        connect(addresses, timeout=0.3)
    assert 0.2 < time.monotonic() - started < 2
    assert all(address in str(caught.value) for address in addresses)
    assert "refused" in str(caught.value).lower()
    assert caught.value.applied == "no"
    assert no_threads_left()


def test_a_name_that_does_not_resolve_is_said__E13() -> None:
    with pytest.raises(Unavailable, match=r"no-such-host\.invalid"):
        connect("no-such-host.invalid:7101", timeout=1)


@pytest.mark.parametrize(("ours", "theirs"), [("a", "b"), (None, "b"), ("a", None)])
def test_a_wrong_secret_is_told_at_once_and_never_shown__G3_G6(ours: str | None, theirs: str | None) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with node_at(address, f"{theirs}-node-secret".encode() if theirs else None):
        started = time.monotonic()
        with pytest.raises(AuthenticationError) as caught:
            connect(address, secret=f"{ours}-our-secret" if ours else None, timeout=5)
        assert time.monotonic() - started < 2
        assert "our-secret" not in str(caught.value)
        assert "node-secret" not in str(caught.value)
    assert no_threads_left()


def test_something_else_at_the_address_is_said() -> None:
    port = free_ports(1)[0]
    io = IoThread("test-node")

    async def start() -> asyncio.AbstractServer:
        async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example ESMTP\r\n")
            await reader.read(100)
            writer.close()

        return await asyncio.start_server(greet, "127.0.0.1", port)

    server = io.run(start())
    try:
        with pytest.raises((ProtocolError, Unavailable)) as caught:
            connect(f"127.0.0.1:{port}", timeout=1)
        assert isinstance(caught.value, CoordinationError)
    finally:
        io.call(server.close)
        io.stop()


def test_bad_arguments_are_refused_before_anything_is_opened__B6() -> None:
    bad: list[dict[str, Any]] = [
        {"endpoints": ""},
        {"endpoints": "127.0.0.1:0"},
        {"timeout": 0},
        {"secret": ""},
        {"tls": object()},
        {"role": "peer"},
        {"role": None},
        {"secret": {"client": "s"}, "role": "admin"},
    ]
    for arguments in bad:
        with pytest.raises(UsageError):
            connect(**{"endpoints": "127.0.0.1:7101", **arguments})
    assert no_threads_left()


def test_a_node_that_restarts_is_found_again(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/s"
    with node_at(address):
        coordinator = connect(address)
        assert coordinator.state("job").status == "free"
    with pytest.raises(Unavailable):
        coordinator.state("job", timeout=0.3)
    with node_at(address):
        assert coordinator.status().has_quorum
    coordinator.close()
