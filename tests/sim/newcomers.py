"""Membership changes as faults: a node is added, and another one, maybe the raft leader, is removed.

Knows: how an operator asks, asks again, and what must have come of it when all is well. Must not know: how members are changed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from cluster.ports import ChangeOutcome
from tests.sim.kinds import Count, Fault
from tests.sim.node import SimNode, restarted
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.world import World

ASKED_S = 3.0
LOOK_S = 0.02
TRIES = 4
SETTLED_S = 30.0
REPLACED_MAX = 2
"""So many nodes are replaced in one run: the clients know one of those that are left."""


class Change:
    """One change that an operator wants, until it is done or given up."""

    def __init__(self, world: World, node: SimNode, *, add: bool) -> None:
        self.world = world
        self.node = node
        self.add = add
        self.request = world.rng.randbytes(16)
        self.hint = ""

    @property
    def address(self) -> str:
        return f"{self.node.name}:7001"

    async def ask(self, tries: int) -> bool:
        """Ask the raft leader, and the next one if it is not sure. Whether it is done."""
        for _ in range(tries):
            leader = self.world.leader()
            if leader is None or leader.node is None:
                await asyncio.sleep(0.1)
                continue
            outcome = await self._ask_once(leader)
            if outcome is not None and outcome.kind == "done":
                return True
            self.hint = outcome.hint if outcome is not None else ""
            refused = outcome is not None and outcome.kind == "refused"
            if refused and leader.up and (self.address in leader.adapter._members) == self.add:
                # The first try was done, and so long ago that the log does not hold it any more: the list of members tells.
                return True
            await asyncio.sleep(0.1)
        return False

    async def _ask_once(self, leader: SimNode) -> ChangeOutcome | None:
        answers: list[ChangeOutcome] = []
        assert leader.node is not None
        leader.host.run(leader.node.raft.change_members, self.add, self.address, self.request, answers.append)
        for _ in range(round(ASKED_S / LOOK_S)):
            if answers or not leader.up:
                break
            await asyncio.sleep(LOOK_S)
        return answers[0] if answers else None


async def replace_member(world: World, count: Count) -> None:
    """A new node is started and added; when it counts, one of the first ones is removed, and stops."""
    if world.changing or not world.whole or world.replaced >= REPLACED_MAX:
        return
    world.changing = True
    world.replaced += 1
    newcomer = world.newcomer()
    await newcomer.start()
    count("member added", world.leader())
    world.nodes.append(newcomer)
    adding = Change(world, newcomer, add=True)
    if not await adding.ask(TRIES):
        world.open_changes.append(adding)
        return
    leader = world.leader()
    leaving = [node for node in world.nodes if node is not newcomer and node is not world.nodes[0]]
    victim = leader if leader in leaving and world.rng.random() < 0.5 else world.rng.choice(leaving)
    assert victim is not None
    count("member removed", victim)
    removing = Change(world, victim, add=False)
    victim.leaving = True
    if await removing.ask(TRIES):
        _gone(world, victim)
    else:
        world.open_changes.append(removing)
        return
    world.changing = False


def _gone(world: World, victim: SimNode) -> None:
    world.nodes.remove(victim)
    world.removed.append(victim)


async def finish(world: World) -> None:
    """All is well again: what was begun can be done, and who was removed has been told."""
    until = world.loop.time() + SETTLED_S
    for change in world.open_changes:
        while not await change.ask(1):
            if change.add and "empty data directory" in change.hint:
                # Its addition came to nothing, and it cannot be told from one that was undone: the logs do not go back so far.
                world.counts["newcomer begun anew"] += 1
                change.node.wipe()
                await restarted(change.node)
            if world.loop.time() > until:
                verb = "added" if change.add else "removed"
                raise Violation(f"{change.node.name} is not {verb} {SETTLED_S:g} s after the last fault")
        if not change.add:
            _gone(world, change.node)
    world.open_changes.clear()
    for victim in world.removed:
        while victim.up:
            if world.loop.time() > until:
                raise Violation(f"{victim.name} was removed, and runs on {SETTLED_S:g} s after the last fault")
            await asyncio.sleep(0.1)
    world.changing = False


FAULTS: tuple[Fault, ...] = (
    Fault(("member added", "member removed"), 1, replace_member, on_nodes=("member removed",)),
)
