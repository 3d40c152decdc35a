"""Exactly one connection per peer, whatever happens: simultaneous calls, cuts, resets, pauses, crashes, restarts.

Knows: ``NodeNet`` in a simulated world, and on real sockets for the moment when both call at once.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from cluster.address import Address
from cluster.codec import frame, pack, unpack
from cluster.env import RealEnv
from cluster.net import NodeNet
from cluster.net import mesh as mesh_module
from cluster.net.mesh import PEER_UNHEARD_S, refuse_second
from cluster.net.peer import PING, FrameSink, PeerStream
from cluster.ports import Hello, Welcome
from cluster.secrets import Secrets
from tests.net.support import Node, Raw, addresses, formed, run, until
from tests.sim.host import Host
from tests.sim.loop import VirtualLoop
from tests.sim.network import Network

SEEDS = range(8)
LONG_SEEDS = range(300)
NAMES = ("a:1", "b:1", "c:1")
STORM_S = 30.0
CALM_S = 12.0
STILL_S = 4.0


class Member:
    """One host's node, through its lives. Checks, as it happens, what must hold at every moment."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.host = Host(name, world.loop, world.network, world.rng.randrange(2**32))
        self.life = 0
        self.sent = 0
        self.last: dict[str, tuple[int, int]] = {}
        self.up: set[str] = set()
        self.changes: list[tuple[float, str, str]] = []
        self.net: NodeNet

    def boot(self) -> None:
        """Begin a new life. Frames carry the life and a number, so that a receiver sees their order."""
        self.life += 1
        self.sent = 0
        self.last = {}
        self.up = set()
        env = self.host.env()
        hello = Hello("peer", self.name, self.name.encode().ljust(16))
        self.net = NodeNet(
            env, Address.parse(self.name), None, NAMES, Secrets.of("secret"), lambda: hello, lambda other: Welcome(self.name, b"", 0, "")
        )
        self.net.on_connected = lambda peer, hello: self._changed("up", peer)
        self.net.on_disconnected = lambda peer: self._changed("down", peer)
        self.net.on_frame = self._frame
        env.spawn(self.net.start(), "start")
        env.call_later(0.02, self._talk, env)

    def _changed(self, what: str, peer: str) -> None:
        assert (peer in self.up) == (what == "down"), f"{self.name}: {what} {peer} out of turn"
        self.up ^= {peer}
        self.changes.append((self.world.loop.time(), what, peer))

    def _frame(self, peer: str, payload: bytes) -> None:
        assert peer in self.up, f"{self.name}: a frame of {peer}, which is not connected"
        life, number = unpack(payload)
        before = self.last.get(peer, (0, 0))
        assert (life, number) > before, f"{self.name}: frame {life, number} of {peer} after {before}"
        self.last[peer] = (life, number)

    def _talk(self, env: Any) -> None:
        for peer in self.net.connected():
            self.sent += 1
            self.net.send(peer, pack([self.life, self.sent]))
        env.call_later(0.02, self._talk, env)


class World:
    """Three members and what befalls them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = VirtualLoop()
        self.faults: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda loop, context: self.faults.append(context))
        self.network = Network(self.loop, self.rng)
        self.members = [Member(self, name) for name in NAMES]

    def strike(self) -> None:
        """One piece of bad luck."""
        one, other = self.rng.sample(self.members, 2)
        match self.rng.randrange(9):
            case 0 | 1:
                self.network.reset(one.name, other.name)
            case 2:
                self.network.cut(one.name, other.name)
            case 3:
                self.network.heal()
            case 4:
                self.network.slow(one.name, other.name, self.rng.choice((0.05, 0.3, 1.0)))
            case 5:
                one.host.pause()
                self.loop.call_later(self.rng.choice((0.1, 1.0, 5.0)), one.host.resume)
            case 6:
                one.host.crash()
                self.loop.call_later(self.rng.choice((0.01, 0.2, 2.0)), self._reboot, one, one.host.life)
            case 7 | 8:
                # What is under way arrives late, perhaps after what the next connection brings.
                self.network.slow(one.name, other.name, 1.0)
                self.network.lose(one.name, other.name)

    def _reboot(self, member: Member, life: int) -> None:
        if member.host.life == life:
            member.boot()

    async def pass_time(self, duration_s: float) -> None:
        done = self.loop.create_future()
        self.loop.call_later(duration_s, done.set_result, None)
        await done

    async def story(self) -> None:
        for member in self.members:
            member.boot()
        until_s = self.loop.time() + STORM_S
        while self.loop.time() < until_s:
            await self.pass_time(self.rng.expovariate(2.0))
            self.strike()
        self.network.heal()
        await self.pass_time(CALM_S)
        for member in self.members:
            others = frozenset(NAMES) - {member.name}
            assert member.net.connected() == others == member.up, f"{member.name} has {sorted(member.up)}"
            assert len(member.net._roster) == len(others), f"{member.name} has sockets beside the live ones"
            last = max(at for at, _, _ in member.changes)
            assert last < self.loop.time() - STILL_S, f"{member.name} still changes connections"
        assert not self.faults, self.faults

    def play(self) -> None:
        try:
            self.loop.run_until_complete(self.story())
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(self.pass_time(0))
            self.loop.close()


@pytest.mark.fast
@pytest.mark.parametrize("seed", SEEDS)
def test_after_any_storm_each_pair_has_one_connection__oneconn(seed: int) -> None:
    World(seed).play()


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_after_many_storms_each_pair_has_one_connection__oneconn(seed: int) -> None:
    World(1_000 + seed).play()


@pytest.fixture
def no_courtesy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_module, "COURTESY_S", 0.0)
    # Nothing may depend on the first ping.
    monkeypatch.setattr(mesh_module, "PING_INTERVAL_S", 60.0)


@pytest.mark.fast
@pytest.mark.usefixtures("no_courtesy")
@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
def test_when_all_call_at_once_one_connection_of_each_pair_survives__oneconn(plain: bool) -> None:
    async def work(env: RealEnv) -> None:
        for _ in range(8):
            names = addresses(3)
            nodes = [Node(env, name, names) for name in names]
            await asyncio.gather(*(node.net.start() for node in nodes))
            await formed(nodes)
            await until(lambda n=nodes: all(len(node.net._roster) == 2 for node in n), "no socket is left over")  # type: ignore[misc]
            for one in nodes:
                for other in nodes:
                    assert one is other or one.net.send(other.address, b"x")
            await until(
                lambda n=nodes: all(len(one.frames(two.address)) == 1 for one in n for two in n if one is not two),  # type: ignore[misc]
                "what was sent came through the one that survived",
            )
            assert all(len([entry for entry in node.story if entry[0] == "down"]) <= 1 for node in nodes), "flapping"
            for node in nodes:
                await node.stop()

    run(work, plain=plain)


@pytest.mark.fast
def test_what_the_lower_peer_did_not_choose_is_closed__oneconn() -> None:
    """Two connections of the lower peer are ready; it decides for the second one; nothing of the first is delivered."""

    async def work(env: RealEnv) -> None:
        low, high = addresses(2)
        node = Node(env, high, [low])
        await node.net.start()
        first, second = Raw(high), Raw(high)
        for raw in (first, second):
            await raw.shake(Hello("peer", low, b"L" * 16, info={"boot": b"one"}))
        assert not node.story, "nothing was decided yet"
        await second.send(PING + frame(b"second"))
        await until(lambda: node.frames(low) == [b"second"], "the chosen one is used")
        # For the caller this handshake is over: what is no frame must not be sent to it any more.
        assert await first.read() == b""
        await second.send(frame(b"more"))
        await until(lambda: node.frames(low) == [b"second", b"more"], "it stays")
        assert [entry[0] for entry in node.story] == ["up", "frame", "frame"]
        first.close()
        second.close()
        await node.stop()

    run(work)


@pytest.mark.fast
def test_a_younger_connection_whose_decision_is_late_is_not_closed__oneconn() -> None:
    """The decision for an older connection arrives while a younger one waits for its own."""

    async def work(env: RealEnv) -> None:
        low, high = addresses(2)
        node = Node(env, high, [low])
        await node.net.start()
        older, younger = Raw(high), Raw(high)
        for raw in (older, younger):
            await raw.shake(Hello("peer", low, b"L" * 16, info={"boot": b"one"}))
        await older.send(PING + frame(b"older"))
        await until(lambda: node.frames(low) == [b"older"], "the older one is used for now")
        await younger.send(PING + frame(b"younger"))
        await until(lambda: node.frames(low) == [b"older", b"younger"], "then the younger one")
        while await older.read():
            pass
        assert [entry[0] for entry in node.story] == ["up", "frame", "down", "up", "frame"]
        older.close()
        younger.close()
        await node.stop()

    run(work)


# The decision itself.


def _live(env: RealEnv, boot: bytes) -> PeerStream:
    return PeerStream(env, Hello("peer", "b:1", b"B" * 16, info={"boot": boot}), FrameSink(), lambda stream, reason: None)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("own", "boot", "age_s", "code"),
    [
        ("a:1", b"same", 0.0, "redundant"),
        ("a:1", b"same", 2.0, None),
        ("c:1", b"same", 0.0, None),
        ("a:1", b"other", 0.0, "duplicate"),
        ("c:1", b"other", PEER_UNHEARD_S - 0.1, "duplicate"),
        ("a:1", b"other", PEER_UNHEARD_S + 0.1, None),
    ],
)
def test_whether_a_second_connection_is_taken(own: str, boot: bytes, age_s: float, code: str | None) -> None:
    loop = asyncio.new_event_loop()
    env = RealEnv(loop)
    live = _live(env, b"same")
    refused = refuse_second(own, Hello("peer", "b:1", b"B" * 16, info={"boot": boot}), live, live.since + age_s)
    assert (refused.code if refused else None) == code
    assert refuse_second(own, live.hello, None, 0.0) is None
    loop.close()
