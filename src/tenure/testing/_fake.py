"""A coordinator whose time stands still and whose leases are lost on command.

Knows: how to be one node and its client in this process, how to disturb them. Must not know: what a lease is: node and client are the
product's own, so that what a test sees is the contract, not an imitation of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import ClassVar, Final
from weakref import WeakSet

from cluster.client import Coordinator, IoThread, checks
from cluster.client.errands import AbandonCall
from cluster.client.port import Port
from cluster.env import RealEnv
from cluster.errors import UsageError
from cluster.local import LocalDoor, LocalNode
from cluster.ports import Connection, Env, Hello, Welcome
from tenure.testing._clock import ManualClock, ManualEnv

# More than an operation needs from its caller to the table and back.
TURNS: Final = 50


class _Port(Port):
    """An end that needs no test to move the clock."""

    def _begin_close(self, limit_s: float, *, tell: bool, done: Callable[[], object]) -> bool:
        env = self._io.env if self._io is not None else None
        if isinstance(env, ManualEnv) and self.alive():
            self.hand_over(env.thaw)
        return super()._begin_close(limit_s, tell=tell, done=done)


class _Door(LocalDoor):
    """A door that can be shut."""

    def __init__(self, node: LocalNode) -> None:
        super().__init__(node)
        self._connections: WeakSet[Connection] = WeakSet()
        self._passable = asyncio.Event()
        self._passable.set()
        # How many outages there are at once.
        self._shut = 0

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        # Hanging, not refused: who was refused would come again after a while only, and the clock may stand still.
        await self._passable.wait()
        connection, welcome = await super().open(env, address, hello)
        self._connections.add(connection)
        return connection, welcome

    async def shut(self) -> None:
        self._shut += 1
        self._passable.clear()
        for connection in list(self._connections):
            connection.close("the test asked for an outage")

    async def unshut(self) -> None:
        self._shut -= 1
        if not self._shut:
            self._passable.set()


class FakeCoordinator(Coordinator):
    """``tenure.local()`` for tests: the same table and semantics, without a network, under a test's control.

    Args:
        clock: what tells its time; None: a ``ManualClock`` of its own.
        real_time: let time pass by itself instead; without a ``clock``.
        node_id: what people see as the holder; None: ``hostname:pid``.
        timeout: seconds, 0.001 to 1 day, of its clock: how long finding out what happened may take.

    Raises:
        UsageError: a bad argument.

    Attributes:
        clock: a call that waits, for a name or for an answer, waits until the test moves it, from another thread or task.
    """

    _port_type: ClassVar[type[Port]] = _Port

    def __init__(
        self,
        clock: ManualClock | None = None,
        *,
        real_time: bool = False,
        node_id: str | None = None,
        timeout: checks.Seconds = 5.0,
    ) -> None:
        if clock is not None and not isinstance(clock, ManualClock):
            raise UsageError(f"clock is {type(clock).__name__}", "give a tenure.testing.ManualClock, or leave it out")
        if checks.flag(real_time, "real_time") and clock is not None:
            raise UsageError("clock and real_time exclude each other", "leave one of them out")
        self.clock = clock if clock is not None else ManualClock()

        def make_env(loop: asyncio.AbstractEventLoop) -> RealEnv:
            return RealEnv(loop) if real_time else ManualEnv(loop, self.clock)

        self._io = io = IoThread("tenure-fake", make_env)
        try:
            if isinstance(io.env, ManualEnv):
                io.env.io = io
            node, self._door = io.run(_start(io.env))
            super().__init__(self._door, timeout=timeout, node_id=node_id, io=io, at_close=node.close, role="admin")
        except BaseException:
            io.stop()
            raise

    def lose(self, name: str, slot: int | None = None) -> int:
        """End leases against their holder's will, as if their time had passed: first the holder is told, then the name is free.

        To the holder they are ``expired``; a watch says ``released``, with the reason ``abandoned``.

        Args:
            name: as it is stored, a tenant's with its prefix.
            slot: which one; None: all of the name's.

        Returns:
            How many were lost. When it returns, ``lost`` of each is set.

        Raises:
            UsageError: a bad name or slot, the coordinator is closed, or called on its I/O thread, such as in a callback of
                ``lost.on_set``.
        """
        self._check("lose")
        count = self._io.run(self._lose(checks.name(name), checks.slot(slot)))
        self._come_to_rest()
        return count

    async def _lose(self, name: bytes, slot: int | None) -> int:
        # By the ids of these acquisitions alone: who was in line may be granted the name before this is done.
        engine = self._port.engine
        taken = [core for core in engine.leases.values() if core.name == name and slot in (None, core.slot)]
        for core in taken:
            session = core.session
            engine.lose(core, "expired")
            giving_up = AbandonCall(engine, core.acq_id, [core.name], core.lease_ms, session)
            engine.submit_errand(giving_up, engine.expiry(core.lease_ms))
        return len(taken)

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """For the time of a ``with`` block no node answers: calls end with ``Unavailable`` after their timeout, leases are not renewed.

        Blocks within and beside each other are one outage, until the last of them ends. Raises UsageError where ``lose`` does.
        """
        self._check("outage")
        self._io.run(self._door.shut())
        try:
            yield
        finally:
            if self._port.alive():
                self._io.run(self._door.unshut())
                self._come_to_rest()

    def _check(self, about: str) -> None:
        self._port.engine.check_blocking()
        self._requests.check(about)

    def _come_to_rest(self) -> None:
        """Whatever the node has said has been heard."""
        env = self._io.env
        if isinstance(env, ManualEnv):
            env.settle()
        else:
            self._io.run(_turns())


async def _turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _start(env: Env) -> tuple[LocalNode, _Door]:
    node = LocalNode(env)
    return node, _Door(node)
