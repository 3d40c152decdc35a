"""A node process on a simulated host, started and ended many times, and watched.

Knows: the seams of the real node at which one can look on. Must not know: what is right (``observer``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster.codec import unpack
from cluster.errors import CoordinationError
from cluster.limits import WAITER_UNHEARD_S
from cluster.node import Node, NodeConfig
from tests.sim.clocks import Stamp
from tests.sim.host import Host
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.world import World

RESTART_S = 1.0
HEARD_SLACK_S = 0.1


class SimNode:
    """Restarted by its supervisor when it stops by itself."""

    def __init__(self, world: World, host: Host, config: NodeConfig) -> None:
        self.world = world
        self.host = host
        self.config = config
        self.node: Node | None = None
        self.fatal = ""
        self.leaving = False

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def up(self) -> bool:
        return self.node is not None

    @property
    def adapter(self) -> Any:
        assert self.node is not None
        return self.node.raft._adapter

    @property
    def member(self) -> bool:
        return self.node is not None and bool(self.adapter._member)

    async def start(self) -> None:
        if self.up or self in self.world.removed:
            return
        life = self.host.life
        node = await Node.start(self.host.env(), self.config, self._stopped_itself)
        if life != self.host.life:
            # It died while it started.
            return
        self.node = node
        self.world.observer.has_state(self.name)
        self._watch(node, life)

    def crash(self, *, power: bool = False) -> None:
        self.node = None
        self.host.crash(power=power)

    def wipe(self) -> None:
        """It comes back without its data."""
        self.crash()
        self.host.disks.clear()

    def _stopped_itself(self, why: str) -> None:
        self.fatal = why
        self.world.counts["stopped itself: " + why.partition(":")[0].partition("by index")[0][:40]] += 1
        if self.leaving and "was removed from its raft group" in why:
            self.world.loop.call_soon(self.crash)
            return
        # What stops a node in a sound system is its disk.
        if not self.host.disk_faulty:
            self.world.fail(Violation(f"{self.name} stopped itself: {why}"))
        self.world.loop.call_soon(self.crash)
        self.world.loop.call_later(RESTART_S, self.world.restart, self)

    # Looking on.

    def _watch(self, node: Node, life: int) -> None:
        server, raft, waiting = node.server, node.raft, node.server.control._waiting
        apply, restore, changed = server.apply, server.restore, server.role_changed
        propose, grant = raft.propose, waiting.propose

        def applied(index: int, term: int, command: bytes) -> None:
            self._see(lambda: self.world.observer.applied(self.name, life, index, term, command))
            apply(index, term, command)

        def restored(state: bytes) -> None:
            before = server.table.time_ms, server.table.epoch
            restore(state)
            self.world.observer.has_state(self.name)
            if (server.table.time_ms, server.table.epoch) < before:
                self.world.fail(Violation(f"{self.name}: a snapshot moved it back from {before} (I3)"))

        def role_changed(leading: bool, term: int, leader: str | None) -> None:
            if leading:
                self._see(lambda: self._elected(term))
            changed(leading, term, leader)

        def proposed(command: bytes) -> int | None:
            stamp = Stamp(self.name, 0, 0, self.host.clock(), self.world.loop.time())
            self.world.observer.proposed(command, stamp)
            return propose(command)

        def granting(waiter: Any) -> None:
            self._see(lambda: self._heard(unpack(waiter.operation)))
            grant(waiter)

        for owner, name, hook in (
            (server, "apply", applied), (server, "restore", restored), (server, "role_changed", role_changed),
            (raft, "propose", proposed), (waiting, "propose", granting),
        ):  # fmt: skip
            setattr(owner, name, hook)

    def _see(self, check: Callable[[], None]) -> None:
        try:
            check()
        except Violation as violation:
            self.world.fail(violation)
            raise

    def _elected(self, term: int) -> None:
        """Nobody of an earlier term may answer from memory any more. One of a later term may: this election was won too late, by a vote
        that was long under way, and its winner commits nothing."""
        self.world.observer.elected(self.name, term)
        for other in self.world.nodes:
            if other is self or other.node is None or other.adapter.term > term:
                continue
            if other.node.raft.has_fresh_majority():
                raise Violation(f"{self.name} leads in term {term} while {other.name} may still answer from memory")

    def _heard(self, operation: list[Any]) -> None:
        """A waiter is proposed: its client must have been heard of late."""
        client = operation[7].decode()
        heard_at = self.world.network.heard.get((client, self.name), 0.0)
        silent_s = self.world.loop.time() - heard_at
        if silent_s > WAITER_UNHEARD_S * 1.01 + HEARD_SLACK_S:
            raise Violation(f"{self.name} proposes a waiter of {client}, which it has not heard for {silent_s:.2f} s")


async def restarted(node: SimNode) -> None:
    """Start it if it is down. A disk that refuses is tried again later."""
    if node.up:
        return
    try:
        await node.start()
    except CoordinationError:
        if not node.host.disk_faulty:
            raise
        node.crash()
