"""File descriptors run out: the door opens again afterwards, and strangers do not keep out who is known (E14).

Knows: processes of their own, since a shortage is one of the whole process. Must not know: how a listener is made.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_SHORTAGE = """
import asyncio, logging, os, resource, socket, sys

from cluster.address import Address
from cluster.env import RealEnv, new_loop
from cluster.net import lobby, open_client
from cluster.sockets import RESERVED_DESCRIPTORS
from tests.net.support import SECRET, Node, addresses, client, until

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
# Nobody is thrown out for want of descriptors here.
lobby.CHANCE_S = 1000.0

async def main(env):
    (name,) = addresses(1)
    node = Node(env, name)
    await node.net.start()
    at = Address.parse(name)
    # Callers first: their descriptors come from the same pool, and they must not be short of them.
    callers = [socket.socket() for _ in range(30)]
    used = len(os.listdir("/dev/fd"))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = used + 5 * RESERVED_DESCRIPTORS
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    spare = []
    try:
        while True:
            spare.append(os.dup(0))
    except OSError:
        pass
    for descriptor in spare[-3 - RESERVED_DESCRIPTORS:]:
        os.close(descriptor)
    for caller in callers:
        caller.setblocking(False)
        caller.connect_ex((at.host, at.port))
    await until(lambda: len(node.net._lobby) == 3, "three are let in")
    print("WAITING", len(node.net._lobby), flush=True)
    # What the node itself needs (the next journal file, a call to a peer) is left.
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(RESERVED_DESCRIPTORS // 2)]
    for descriptor in files:
        os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit + 200, hard))
    await until(lambda: len(node.net._lobby) == 30, "all who waited are let in afterwards")
    connection, _ = await open_client(env, at, client(), SECRET, 5.0)
    data = []
    connection.on_data = data.append
    connection.write(b"back")
    await until(lambda: data == [b"back"], "served again")
    print("SERVED", flush=True)
    connection.close()
    for caller in callers:
        caller.close()
    await node.stop()

loop = new_loop() if sys.argv[1] == "fast" else asyncio.new_event_loop()
loop.run_until_complete(main(RealEnv(loop)))
loop.close()
"""


def _run_short(program: str, loop: str) -> str:
    """What the program prints, in a process of its own: a shortage of descriptors is one of the whole process."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program, loop],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.fast
@pytest.mark.parametrize("loop", ["fast", "plain"])
def test_after_a_shortage_of_descriptors_the_door_is_open_again__E14(loop: str) -> None:
    lines = [line.split()[0] for line in _run_short(_SHORTAGE, loop).splitlines()]
    assert lines.index("listener.paused") < lines.index("listener.back") < lines.index("SERVED")
    assert lines.count("listener.paused") == 1, "said once, not at every try"
    assert lines.count("listener.back") == 1


_FULL_OF_STRANGERS = """
import asyncio, logging, os, resource, socket, sys

from cluster.address import Address
from cluster.env import RealEnv, new_loop
from cluster.net import open_client
from cluster.sockets import RESERVED_DESCRIPTORS
from tests.net.support import SECRET, Node, addresses, client, until

logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(message)s")

async def main(env):
    (name,) = addresses(1)
    node = Node(env, name)
    await node.net.start()
    at = Address.parse(name)
    silent = [socket.socket() for _ in range(40)]
    for caller in silent:
        caller.setblocking(False)
    spare = [os.dup(0) for _ in range(4)]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/dev/fd"))) + RESERVED_DESCRIPTORS + 8, hard))
    for caller in silent:
        caller.connect_ex((at.host, at.port))
    await until(lambda: 0 < len(node.net._lobby) < 20, "there is room for a few only")
    for descriptor in spare:
        os.close(descriptor)
    for number in range(3):
        connection, _ = await open_client(env, at, client(), SECRET, 8.0)
        data = []
        connection.on_data = data.append
        connection.write(b"me")
        await until(lambda: data == [b"me"], "served although strangers fill the place")
        connection.close()
        await until(lambda: len(node.ends) == number + 1, "gone")
    print("SERVED", flush=True)
    for caller in silent:
        caller.close()
    await node.stop()

loop = new_loop() if sys.argv[1] == "fast" else asyncio.new_event_loop()
loop.run_until_complete(main(RealEnv(loop)))
loop.close()
"""


@pytest.mark.parametrize("loop", ["fast", "plain"])
def test_strangers_that_use_up_the_descriptors_are_closed_oldest_first__E14(loop: str) -> None:
    """Five seconds, the time that strangers have, are too long for a client that a node knows."""
    lines = _run_short(_FULL_OF_STRANGERS, loop).splitlines()
    assert "SERVED" in lines
    assert sum("file descriptors are short" in line for line in lines) >= 10
    assert sum(line.startswith("listener.paused") for line in lines) < 100
