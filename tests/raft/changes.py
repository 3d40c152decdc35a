"""Members that come and go in random weather.

Knows: what an operator may ask for, who is told of a removal. Must not know: other faults, when they come.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any

from cluster.ports import ChangeOutcome
from tests.raft.lab import LabNode, World
from tests.raft.profiles import Profile


class Changes(World):
    """``outside``: nodes that are started when they are to be added. ``counts``: how often what came of it."""

    profile: Profile
    outside: dict[str, None]
    asleep: dict[str, list[tuple[Callable[..., None], tuple[Any, ...]]]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.counts: Counter[str] = Counter()
        super().__init__(*args, **kwargs)

    def removed(self, name: str) -> None:
        """A node says that it was removed, and stopped: then whoever has applied most agrees. Its directory is done with."""
        furthest = max(
            (node for node in self.nodes.values() if node.alive and node.name not in self.outside),
            key=lambda node: int(node.raft.status()["applied_index"]),
        )
        if name in furthest.adapter._lists[0].names:
            self.ledger.fail("WronglyRemoved", f"{name} says {self[name].fatal}, and {furthest.name} counts it")
        self[name].drive.crash_at = 0
        self.kill(name)
        self.wipe(name)
        self[name].fatal.clear()
        self.asleep.pop(name, None)
        self.outside[name] = None
        self.counts["removed and told"] += 1

    def calls(self, caller: str, called: str) -> bool:
        """Whether a call would be taken; the caller may learn by it that it was removed, and stop."""
        if not (self[caller].alive and self[called].alive):
            return False
        found = self.let_in(caller, called)
        self.on(caller, int)
        return found

    def wanted(self, name: str, peer: str) -> None:
        self.at(self.rng.uniform(0.0, 0.1), self.try_connect, name, peer)

    def not_wanted(self, name: str, peer: str) -> None:
        super().not_wanted(name, peer)
        # That one may want it, and calls again.
        self.at(0.1, self.try_connect, peer, name)

    def some_change(self) -> None:
        """An operator adds or removes a node; the one to be added is started first."""
        leader = next((n for n in self.nodes.values() if n.alive and n.raft.is_leader and n.name not in self.asleep), None)
        if leader is None:
            return
        members = leader.adapter._members
        if self.profile.wipes and not all(self[name].alive and self[name].storage.meta.joined for name in members):
            # A disk that was lost counts as a member: with one removed besides, it might be half of them.
            return
        others = [name for name in self.names if name not in members]
        add = bool(others) and (len(members) == 1 or self.rng.random() < 0.55)
        name = self.rng.choice(others if add else members)
        if add and name in self.outside:
            del self.outside[name]
            self[name].told = (leader.name,)
            self[name].config.pop("single", None)
            self.start_node(name)
        self.on(leader.name, self.do_change, leader.name, add, name)

    def do_change(self, leader: str, add: bool, name: str) -> None:
        def settled(outcome: ChangeOutcome) -> None:
            self.counts[f"{'add' if add else 'remove'} {outcome.kind}"] += 1

        self.counts["asked"] += 1
        self[leader].raft.change_members(add, name, b"%d" % self.next_number(), settled)

    def members(self) -> list[LabNode]:
        """The members by the newest leader that lives."""
        leaders = [node for node in self.nodes.values() if node.alive and node.raft.is_leader]
        newest = max(leaders, key=lambda node: node.raft.term)
        return [self[name] for name in newest.adapter._members]

    # What runs by itself.

    @abstractmethod
    def at(self, delay_s: float, fn: Callable[..., None], *args: Any) -> None: ...
    @abstractmethod
    def on(self, name: str, fn: Callable[..., Any], *args: Any) -> None: ...
    @abstractmethod
    def start_node(self, name: str) -> None: ...
    @abstractmethod
    def try_connect(self, a: str, b: str) -> None: ...
