"""The power of all nodes is gone at once, again and again, while clients work.

Knows: when it is cut, what comes back. Must not know: what is checked.
"""

from __future__ import annotations

import asyncio

from tests.sim.faults import Faults
from tests.sim.node import restarted
from tests.sim.world import World


class PowerCuts(Faults):
    """In place of all other faults: what no disk had synced is gone on every node in the same moment.

    ``written_back``: but the kernels had written everything back by themselves up to a second before, as they do after a while.
    """

    def __init__(self, world: World, *, written_back: bool = False) -> None:
        super().__init__(world)
        self._written_back = written_back

    async def run(self, until: float) -> None:
        while self.world.loop.time() < until:
            # Some come before the nodes have found a leader again, most while there are grants under way.
            await asyncio.sleep(self.rng.uniform(0.0, 2.0))
            if self._written_back:
                for node in self.world.nodes:
                    for disk in node.host.disks.values():
                        disk.write_back()
            await asyncio.sleep(self.rng.uniform(0.2, 1.0))
            self.world.raise_failure()
            self.count("power cut everywhere", self.world.leader())
            for node in self.world.nodes:
                node.crash(power=True)
            await asyncio.sleep(self.rng.uniform(0.0, 0.2))
            for node in self.world.nodes:
                await restarted(node)
