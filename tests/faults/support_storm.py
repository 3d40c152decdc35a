"""Random faults over a raft group and its workers: which there are, whom they meet, and that everything is put right again.

Knows: nodes and workers as processes, links, disks, clocks, descriptors. Must not know: what the workers do, what is right.
"""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

import tenure
from tests.faults.support_crew import CrewMember
from tests.faults.support_group import LinkedGroup
from tests.faults.support_links import ANY
from tests.faults.support_machine import (
    SmallDisk,
    WallClock,
    descriptors_limited,
    forget_faketime,
    open_descriptors,
)
from tests.support_cluster import NodeProcess

READY_WITHIN_S = 60.0
NO_SPACE = "No space left on device"
STRANGERS = 60
SPARE_DESCRIPTORS = 12
LEADER = "leader"
FOLLOWER = "follower"
ROLES = (LEADER, FOLLOWER)
ALL_KILLED = "all nodes killed"
WORKER_STOPPED = "worker stopped"
LOOKS_MAX = 30
STEPS_S = (-3600, 0, 3600)


class EndedByItself(AssertionError):
    """A process that no fault had ended."""


class Storm:
    """Draws faults from ``rng``, up to three at a time. ``counts``: how often each came, and in which role it met whom.

    Each comes again only when all have come, and meets the raft leader about as often as a follower: so in a long storm none is missing.
    """

    def __init__(
        self, group: LinkedGroup, crew: Sequence[CrewMember], names: Sequence[str], rng: random.Random
    ) -> None:
        self.group = group
        self.crew = crew
        self.asking: tenure.Coordinator | None = None
        self.disks: Mapping[NodeProcess, SmallDisk] = {}
        self.clocks: Sequence[WallClock] = ()
        self.counts: Counter[tuple[str, str]] = Counter()
        self._names = names
        self._rng = rng
        self._lives = 0
        self._leader = group.nodes[0]
        self._struck: set[object] = set()
        self._deck: list[str] = []

    def node_faults(self) -> dict[str, Callable[[], AbstractContextManager[None]]]:
        """Those of them that meet one node, the raft leader or a follower."""
        found: dict[str, Callable[[], AbstractContextManager[None]]] = {
            "node killed": self._kill_node,
            "node stopped": self._stop_node,
            "isolated": self._isolate,
            "deaf": self._deaf,
            "mute": self._mute,
            "connections cut": self._cut,
            "connections dropped": self._drop,
            "descriptors used up": self._use_descriptors,
        }
        if self.disks:
            found["disk full"] = self._fill_disk
        return found

    def faults(self) -> dict[str, Callable[[], AbstractContextManager[None]]]:
        """Those that this machine can have."""
        found = {
            **self.node_faults(),
            ALL_KILLED: self._kill_all,
            "worker killed": self._kill_worker,
            WORKER_STOPPED: self._stop_worker,
            "slow links": self._slow,
        }
        if self.clocks:
            found["wall clocks set"] = self._set_clocks
        return found

    def missing(self) -> list[str]:
        """What has not come yet: each fault that this machine can have, and those of one node in both roles."""
        of_nodes = self.node_faults()
        wanted = [(name, role) for name in of_nodes for role in ROLES]
        came = {name for name, _ in self.counts}
        return [
            *(f"{name}, {role}" for name, role in wanted if not self.counts[name, role]),
            *(name for name in self.faults() if name not in of_nodes and name not in came),
        ]

    def draw(self) -> list[str]:
        """The faults of the next round."""
        chosen: list[str] = []
        for _ in range(self._rng.choice((1, 1, 2))):
            if not set(self._deck) - set(chosen):
                self._deck += self._rng.sample(sorted(self.faults()), len(self.faults()))
            chosen.append(self._deck.pop(next(at for at, name in enumerate(self._deck) if name not in chosen)))
        if ALL_KILLED in chosen:
            # Alone: the other one comes next.
            self._deck[:0] = [name for name in chosen if name != ALL_KILLED]
            return [ALL_KILLED]
        if WORKER_STOPPED not in chosen and self._rng.random() < 0.6:
            # First, while it is known who holds: what only the gate guards against is a stop between looking and writing.
            chosen.insert(0, WORKER_STOPPED)
        return chosen

    def blow(self, until: float) -> None:
        """One round: one to three faults for a while, all put right, and the group serves again before this returns."""
        self._leader = self.group.leader(READY_WITHIN_S)
        self._struck = set()
        faults = self.faults()
        with ExitStack() as stack:
            for name in self.draw():
                stack.enter_context(faults[name]())
                self._pass(self._rng.uniform(0.0, 0.5), until)
            self._pass(self._rng.uniform(0.3, 3.0), until)
        self.group.links.heal()
        self._all_run()
        self.group.wait_ready(READY_WITHIN_S)
        self._pass(self._rng.uniform(0.0, 1.0), until)

    @staticmethod
    def _pass(seconds: float, until: float) -> None:
        time.sleep(max(0.0, min(seconds, until - time.monotonic())))

    def _all_run(self) -> None:
        for node in self.group.nodes:
            if not node.alive:
                raise EndedByItself(f"node {node.address} ended by itself\n{node.log()[-3000:]}")
        for member in self.crew:
            if not member.alive:
                raise EndedByItself(f"{member.me} ended by itself\n{member.said()}")

    # Whom.

    def _node(self, what: str) -> NodeProcess:
        """A node that no other fault of this round has met; the leader as often as all others together."""
        free = [node for node in self.group.nodes if node not in self._struck]
        followers = [node for node in free if node is not self._leader]
        ahead = self.counts[what, LEADER] - self.counts[what, FOLLOWER]
        leads = self._leader in free and (not followers or ahead < 0 or (ahead == 0 and self._rng.random() < 0.5))
        node = self._leader if leads else self._rng.choice(followers)
        self._struck.add(node)
        self.counts[what, LEADER if leads else FOLLOWER] += 1
        return node

    def _member(self, what: str) -> CrewMember:
        """A worker: mostly the one that holds a name at this very moment."""
        free = [member for member in self.crew if member not in self._struck]
        holder = self._holder()
        holding = [member for member in free if member.me == holder]
        holds = bool(holding) and self._rng.random() < 0.8
        member = holding[0] if holds else self._rng.choice(free)
        self._struck.add(member)
        self.counts[what, "holder" if holds else "any worker"] += 1
        return member

    def _holder(self) -> str | None:
        """Who holds one of the names; None: nobody was seen to, or nobody can say."""
        assert self.asking is not None
        with contextlib.suppress(tenure.CoordinationError):
            for _ in range(LOOKS_MAX):
                state = self.asking.state(self._rng.choice(self._names), timeout=1.0)
                if state.leader is not None:
                    return state.leader.node_id
        return None

    # What.

    @contextmanager
    def _kill_node(self) -> Iterator[None]:
        node = self._node("node killed")
        self._end(node)
        yield
        node.start()

    def _end(self, node: NodeProcess) -> None:
        node.kill()
        forget_faketime(node.pid)

    @contextmanager
    def _kill_all(self) -> Iterator[None]:
        self.counts[ALL_KILLED, "all"] += 1
        for node in self.group.nodes:
            self._end(node)
        yield
        for node in self.group.nodes:
            node.start()

    @contextmanager
    def _stop_node(self) -> Iterator[None]:
        node = self._node("node stopped")
        node.pause()
        yield
        node.resume()

    @contextmanager
    def _kill_worker(self) -> Iterator[None]:
        member = self._member("worker killed")
        member.kill()
        forget_faketime(member.pid)
        yield
        self._lives += 1
        member.start(self._lives)

    @contextmanager
    def _stop_worker(self) -> Iterator[None]:
        member = self._member(WORKER_STOPPED)
        member.stop()
        yield
        member.go_on()

    @contextmanager
    def _isolate(self) -> Iterator[None]:
        self.group.links.isolate(self._node("isolated").address)
        yield

    @contextmanager
    def _deaf(self) -> Iterator[None]:
        node = self._node("deaf")
        for other in self.group.other_than(node):
            self.group.links.block(other.address, node.address)
        yield

    @contextmanager
    def _mute(self) -> Iterator[None]:
        node = self._node("mute")
        for other in self.group.other_than(node):
            self.group.links.block(node.address, other.address)
        yield

    @contextmanager
    def _slow(self) -> Iterator[None]:
        self.counts["slow links", "all"] += 1
        self.group.links.delay_nodes(self._rng.uniform(0.01, 0.3))
        yield

    @contextmanager
    def _cut(self) -> Iterator[None]:
        self.group.links.cut(self._node("connections cut").address, ANY)
        yield

    @contextmanager
    def _drop(self) -> Iterator[None]:
        self.group.links.drop(self._node("connections dropped").address, ANY)
        yield

    @contextmanager
    def _use_descriptors(self) -> Iterator[None]:
        node = self._node("descriptors used up")
        if not node.alive:
            yield
            return
        host, _, port = node.listen.rpartition(":")
        with descriptors_limited(node.pid, open_descriptors(node.pid) + SPARE_DESCRIPTORS), ExitStack() as strangers:
            for _ in range(STRANGERS):
                with contextlib.suppress(OSError):
                    strangers.enter_context(socket.create_connection((host, int(port)), timeout=1.0))
            yield

    @contextmanager
    def _fill_disk(self) -> Iterator[None]:
        """Nothing can be written that is not there already: it shows when a term or a vote has to be, so there is an election."""
        node = self._node("disk full")
        self.disks[node].fill()
        term_changes = self._leader if self._leader is not node else self._rng.choice(self.group.other_than(node))
        if self._leader is node:
            self.group.links.isolate(node.address)
        elif term_changes.alive and term_changes not in self._struck:
            self._struck.add(term_changes)
            term_changes.pause()
        yield
        self.group.links.heal()
        term_changes.resume()
        self._pass(1.0, time.monotonic() + 1.0)
        self.disks[node].empty()
        if not node.alive:
            if NO_SPACE not in node.log().splitlines()[-1]:
                raise EndedByItself(f"node {node.address} ended, not because of its disk\n{node.log()[-3000:]}")
            self.counts["disk full", "ended with a clear error"] += 1
            forget_faketime(node.pid)
            node.start()

    @contextmanager
    def _set_clocks(self) -> Iterator[None]:
        self.counts["wall clocks set", "all"] += 1
        for clock in self.clocks:
            clock.set(self._rng.choice(STEPS_S))
        yield
