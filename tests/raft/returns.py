"""Leadership that is handed over, and leaders that lead again with answers to their earlier reign under way.

Knows: who leads, how nodes are cut off and how a direction is held up. Must not know: other faults, when they come.
"""

from __future__ import annotations

from abc import abstractmethod

from tests.raft.changes import Changes


class Returns(Changes):
    """``stalled``: until when what one node sends to another is held up. ``apart``: who cannot connect."""

    stalled: dict[tuple[str, str], float]
    apart: set[frozenset[str]]

    def some_return(self) -> None:
        """A leader is cut off with one follower; another reigns; then the first leads again, and only now hears what that follower had
        answered."""
        first = next((node.name for node in self.nodes.values() if node.alive and node.raft.is_leader), None)
        if first is None:
            return
        beside = self.rng.choice([name for name in self.names if name != first])
        pairs = {frozenset((a, b)) for a in (first, beside) for b in self.names if b not in (first, beside)}
        self.apart |= pairs
        for a, b in sorted(map(sorted, pairs)):
            if b in self[a].net.links and not {a, b} & set(self.asleep):
                self.cut(a, b)
        back = self.rng.uniform(0.7, 1.2)
        for one, other in ((first, beside), (beside, first)):
            self.at(self.rng.uniform(0.0, 0.3), self.stall, one, other, back + 0.8)
        self.at(back, self.rejoin, pairs)
        for step in range(8):
            self.at(back + 0.1 * step, self.lead_again, first, beside)

    def stall(self, sender: str, receiver: str, seconds: float) -> None:
        self.stalled[sender, receiver] = self.now + seconds

    def lead_again(self, name: str, beside: str) -> None:
        if self[name].alive and self[name].raft.is_leader:
            self.stalled.pop((beside, name), None)
        for node in self.nodes.values():
            if node.alive and node.raft.is_leader and node.name != name:
                self.on(node.name, node.raft.transfer, name)

    def some_handover(self) -> None:
        name = self.some()
        if self[name].alive:
            self.on(name, self.do_handover, name)

    def do_handover(self, name: str) -> None:
        self[name].raft.transfer(None)

    @abstractmethod
    def rejoin(self, pairs: set[frozenset[str]]) -> None: ...
    @abstractmethod
    def some(self) -> str: ...
