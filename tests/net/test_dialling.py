"""Where a name or a connection leads: names with several addresses, and connections that must not outlive their process in a child."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.address import Address
from cluster.env import RealEnv

pytestmark = pytest.mark.fast


@contextmanager
def one_that_swallows(port: int) -> Iterator[str]:
    """An address of this machine at which connections are neither made nor refused."""
    host = "127.0.0.2"
    with socket.socket() as listening:
        try:
            listening.bind((host, port))
        except OSError:
            pytest.skip("this machine has no second loopback address, as Linux has")
        listening.listen(0)
        waiting = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex((host, port))
            waiting.append(sock)
        yield host
        for sock in waiting:
            sock.close()


def test_a_name_whose_first_address_swallows_everything_is_reached_at_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def resolved(*args: Any, **more: Any) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in (swallows, "127.0.0.1")]

        with one_that_swallows(port) as swallows:
            monkeypatch.setattr(loop, "getaddrinfo", resolved)
            transport, _ = await RealEnv(loop).dial(Address("some.name", port), asyncio.Protocol, 2.0)
            assert transport.get_extra_info("peername")[0] == "127.0.0.1"
            transport.abort()
        server.close()

    asyncio.run(story())


def test_a_connection_ends_with_the_process_that_made_it_although_a_child_of_it_lives__D2() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        class Accepting(asyncio.Protocol):
            def connection_lost(self, error: Exception | None) -> None:
                ended.set()

        server = await loop.create_server(Accepting, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport, _ = await RealEnv(loop).dial(Address("127.0.0.1", port), asyncio.Protocol, 5.0)
        until, told = os.pipe()
        child = os.fork()
        if not child:
            os.close(told)
            os.read(until, 1)
            os._exit(0)
        try:
            transport.abort()
            await asyncio.wait_for(ended.wait(), 10)
        finally:
            os.close(told)
            os.close(until)
            await loop.run_in_executor(None, os.waitpid, child, 0)
        server.close()

    asyncio.run(story())


def test_a_connection_that_comes_after_its_share_of_the_time_is_ended() -> None:
    aborted: list[bool] = []

    class Transport:
        def abort(self) -> None:
            aborted.append(True)

    async def late() -> Any:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return Transport(), asyncio.Protocol()

    async def story() -> None:
        with pytest.raises(TimeoutError):
            await RealEnv(asyncio.get_running_loop())._within(late(), 0.01)
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(story())
    assert aborted == [True]
