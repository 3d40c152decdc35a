"""Where a node listens: every kind of address, loud failure, and the door is back after a shortage of descriptors."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from cluster.address import Address
from cluster.env import RealEnv
from cluster.errors import UsageError
from cluster.net import open_client
from tests.net.support import SECRET, Node, addresses, client, formed, run, until
from tests.unprivileged import run_as_anybody

pytestmark = pytest.mark.fast


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


async def is_reached(env: RealEnv, address: str) -> bool:
    connection, _ = await open_client(env, Address.parse(address), client(), SECRET, 5.0)
    data: list[bytes] = []
    ends: list[str] = []
    connection.on_data = data.append
    connection.on_closed = ends.append
    connection.write(b"knock")
    await until(lambda: data == [b"knock"], f"{address} answers")
    connection.close()
    await until(lambda: ends, "closed")
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback address")
def test_ipv6_addresses_work_for_peers_and_clients() -> None:
    async def work(env: RealEnv) -> None:
        names = sorted(name.replace("127.0.0.1", "[::1]") for name in addresses(2))
        nodes = [Node(env, name, names) for name in names]
        for node in nodes:
            await node.net.start()
        await formed(nodes)
        assert await is_reached(env, names[0])
        for node in nodes:
            await node.stop()

    run(work)


@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
def test_a_unix_socket_beside_a_port(tmp_path: Path, plain: bool) -> None:
    async def work(env: RealEnv) -> None:
        (name,) = addresses(1)
        path = tmp_path / "s"
        node = Node(env, name, [name], listen=[Address.parse(name), Address(path=str(path))])
        await node.net.start()
        assert [str(address) for address in node.net.addresses] == [name, f"unix:{path}"]
        assert await is_reached(env, name)
        assert await is_reached(env, f"unix:{path}")
        await node.stop()
        assert not path.exists()

    run(work, plain=plain)


def test_nodes_may_meet_over_unix_sockets(tmp_path: Path) -> None:
    async def work(env: RealEnv) -> None:
        names = [f"unix:{tmp_path}/{letter}" for letter in "ab"]
        nodes = [Node(env, name, names) for name in names]
        for node in nodes:
            await node.net.start()
        await formed(nodes)
        for node in nodes:
            await node.stop()

    run(work)


def test_a_file_that_a_killed_process_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))

    async def work(env: RealEnv) -> None:
        node = Node(env, f"unix:{path}")
        await node.net.start()
        assert await is_reached(env, f"unix:{path}")
        await node.stop()

    run(work)


def test_a_unix_socket_in_use_is_refused_and_goes_on(tmp_path: Path) -> None:
    async def work(env: RealEnv) -> None:
        name = f"unix:{tmp_path}/s"
        first, second = Node(env, name), Node(env, name)
        await first.net.start()
        with pytest.raises(UsageError, match="the path is in use"):
            await second.net.start()
        second.net.close()
        assert await is_reached(env, name)
        await first.stop()

    run(work)


def test_a_successors_socket_file_is_not_removed(tmp_path: Path) -> None:
    async def work(env: RealEnv) -> None:
        path = tmp_path / "s"
        node = Node(env, f"unix:{path}")
        await node.net.start()
        path.unlink()
        with socket.socket(socket.AF_UNIX) as successor:
            successor.bind(str(path))
            await node.stop()
            assert path.exists()

    run(work)


@pytest.mark.parametrize(
    ("listen", "text", "hint"),
    [
        ("203.0.113.7:7101", "not an address of this machine", "--advertise"),
        ("no-such-host.invalid:7101", "cannot be resolved", "--listen"),
        ("a..b:7101", "cannot be resolved", "--listen"),
        ("unix:/no/such/directory/s", "does not exist", "create it"),
    ],
)
def test_an_address_that_cannot_be_used_is_said_at_once(listen: str, text: str, hint: str) -> None:
    async def work(env: RealEnv) -> None:
        node = Node(env, listen)
        with pytest.raises(UsageError, match=text) as caught:
            await node.net.start()
        assert listen in caught.value.detail
        assert hint in caught.value.hint

    run(work)


PRIVILEGED_PORT = """
from cluster.env import RealEnv
from cluster.errors import UsageError
from tests.net.support import Node, addresses, run
from tests.unprivileged import become_anybody

async def work(env: RealEnv) -> None:
    (name,) = addresses(1)
    node = Node(env, name)
    await node.net.start()
    await node.stop()
    become_anybody()
    try:
        await Node(env, "127.0.0.1:1").net.start()
    except UsageError as error:
        print(error)

run(work)
"""


def ports_are_free_for_all() -> bool:
    first = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    return first.exists() and int(first.read_text()) <= 1


@pytest.mark.skipif(ports_are_free_for_all(), reason="on this machine any user may have any port")
def test_a_port_that_needs_privileges_is_said_at_once() -> None:
    said = run_as_anybody(PRIVILEGED_PORT)
    assert "127.0.0.1:1" in said
    assert "permission denied" in said


def test_a_port_in_use_is_said_at_once_and_nothing_is_left_open() -> None:
    async def work(env: RealEnv) -> None:
        free, taken = addresses(2)
        holder = Node(env, taken)
        await holder.net.start()
        late = Node(env, free, listen=[Address.parse(free), Address.parse(taken)])
        with pytest.raises(UsageError, match="the port is in use") as caught:
            await late.net.start()
        assert taken in caught.value.detail
        assert "another node or an old process" in caught.value.hint
        # The first address was given back.
        again = Node(env, free)
        await again.net.start()
        assert await is_reached(env, taken)
        await again.stop()
        await holder.stop()

    run(work)


def test_all_addresses_of_a_machine_need_one_to_advertise() -> None:
    async def work(env: RealEnv) -> None:
        (name,) = addresses(1)
        everywhere = Address("0.0.0.0", Address.parse(name).port)
        with pytest.raises(UsageError, match="nobody can dial"):
            Node(env, str(everywhere))
        node = Node(env, name, listen=everywhere)
        await node.net.start()
        assert await is_reached(env, name)
        await node.stop()

    run(work)


def test_a_hello_that_does_not_fit_the_advertised_address_is_refused() -> None:
    async def work(env: RealEnv) -> None:
        names = addresses(2)
        node = Node(env, names[0])
        node.hello = Node(env, names[1]).hello
        with pytest.raises(UsageError, match="not the advertised address"):
            await node.net.start()

    run(work)


@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
def test_sockets_do_not_delay_and_find_out_about_dead_machines(plain: bool) -> None:
    async def work(env: RealEnv) -> None:
        (name,) = addresses(1)
        node = Node(env, name)
        await node.net.start()
        connection, _ = await open_client(env, Address.parse(name), client(), SECRET, 5.0)
        for end in (connection, node.clients[0]):
            sock = end.transport.get_extra_info("socket")  # type: ignore[attr-defined]
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if sys.platform == "linux":
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
        connection.close()
        await until(lambda: node.ends, "closed")
        await node.stop()

    run(work, plain=plain)


def test_a_short_secret_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def work(env: RealEnv) -> None:
        (name,) = addresses(1)
        node = Node(env, name, secret=b"hunter2")
        await node.net.start()
        await node.stop()

    run(work)
    assert "secret.short" in caplog.text
    assert "hunter2" not in caplog.text


def test_port_zero_takes_a_free_one() -> None:
    async def work(env: RealEnv) -> None:
        (name,) = addresses(1)
        node = Node(env, name, listen=Address("127.0.0.1", 0))
        await node.net.start()
        (real,) = node.net.addresses
        assert real.port != 0
        assert await is_reached(env, str(real))
        await node.stop()

    run(work)


def test_a_listener_closed_during_a_shortage_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(env: RealEnv) -> None:
        (name,) = addresses(1)
        node = Node(env, name)
        await node.net.start()
        listener = node.net._listeners[0]
        listener._pause(listener._sockets[0], OSError(24, "Too many open files"))  # type: ignore[attr-defined]
        await node.stop()
        turned = asyncio.get_running_loop().create_future()
        env.call_later(0.3, turned.set_result, None)
        await turned
        with pytest.raises(OSError, match=r"[Rr]efused|Connect call failed"):
            await open_client(env, Address.parse(name), client(), SECRET, 1.0)

    run(work)
