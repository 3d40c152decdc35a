"""What all pieces of the adapter share: the engine underneath, the parts around it, and which decisions a piece must take.

Knows: how a ``SyncObj`` is made and entered, how the node stops. Must not know: any message, any rule of Raft.

The adapter is one class put together from pieces (``adapter.py``). A piece that makes up for a hazard of the released library is named
after it. Decisions that have no harmless default are abstract here, so that the class cannot be made without the piece that takes them.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cluster.ports import Env, Machine, PeerNet
from cluster.raft.bridge import Bridge
from cluster.raft.config import RaftConfig
from cluster.raft.engine import FOLLOWER, LEADER, NOTHING_TO_POLL, Member, Node, SyncObj, engine_config, stock
from cluster.raft.peer import Peer
from cluster.storage import Storage

logger = logging.getLogger(__name__)

DISK_FAILED: Final = "the disk of this node failed: {}"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a raft node is given. ``fatal`` is told, once, why the node had to stop."""

    env: Env
    config: RaftConfig
    storage: Storage
    machine: Machine
    net: PeerNet
    fatal: Callable[[str], None]


class Core(SyncObj, ABC):
    """The engine and its surroundings. See the module's docstring."""

    def __init__(self, parts: Parts) -> None:
        self._env = parts.env
        self._config = parts.config
        self._storage = parts.storage
        self._machine = parts.machine
        self._net = parts.net
        self._fatal = parts.fatal
        self._clock = parts.env.clock
        self._log = parts.storage.journal
        self._meta = parts.storage.meta
        self._stopped = False
        self._won = False
        self._announced: tuple[bool, int, str | None] = (False, 0, None)
        self._peers: dict[str, Peer] = {}
        self._others: tuple[Peer, ...] = ()
        self._voting: list[Node] = []
        self._engine_made = False
        self._bridge = Bridge(parts.net)
        applied = self._begin_from_disk()
        self._begin_members()
        me = Member(parts.config.node_id)
        config = engine_config(parts.config.election_min_s, parts.config.election_max_s)
        self._stock(SyncObj.__init__, me, self._voting, config, None, Member, self._bridge)
        self._engine_made = True
        self._poller = NOTHING_TO_POLL
        self._first = self._log[0][1]
        self._SyncObj__raftCommitIndex = self._SyncObj__raftLastApplied = max(applied, self._first)
        self._log.on_error = lambda error: self._stop(DISK_FAILED.format(error))

    # The engine underneath.

    def _stock(self, call: Callable[..., Any], *args: Any) -> None:
        """Let pysyncobj's own code run."""
        stock(self._log, self._clock, call, self, *args)

    def _name_voters(self, nodes: list[Node]) -> None:
        """Tell the engine whose votes it is to ask for, and how many are a majority."""
        self._voting = nodes
        if self._engine_made:
            self._SyncObj__otherNodes = set(nodes)

    def _SyncObj__generateRaftTimeout(self) -> float:
        config = self._config
        return config.election_min_s + (config.election_max_s - config.election_min_s) * self._env.random.random()

    def _SyncObj__onBecomeLeader(self) -> None:
        """Noted only: what follows in the engine's own code counts the leader's log as durable. The reign begins after it."""
        self._won = True

    def _SyncObj__applyLogEntries(self) -> bool:
        """Not at ticks: entries are applied when they are committed. The engine asks whether to send; there is nothing to send."""
        return False

    def _SyncObj__tryLogCompaction(self) -> None:
        """Not at ticks: see ``compaction``."""

    def _SyncObj__loadDumpFile(self, clearJournal: bool) -> None:
        """Never: snapshots are the storage's."""

    def _applyCommand(self, command: bytes, callback: Any, commandType: int | None = None) -> None:
        """Commands come through ``propose`` only: nothing is forwarded, so no request id can be mistaken for another."""
        raise RuntimeError("the engine takes no commands: propose them to the leader's node")

    # What the pieces ask.

    @property
    def is_leader(self) -> bool:
        return self._SyncObj__raftState == LEADER and not self._stopped

    @property
    def term(self) -> int:
        return self._SyncObj__raftCurrentTerm

    @property
    def leader(self) -> str | None:
        node = self._SyncObj__raftLeader
        return None if node is None or self._stopped else node.id

    def _patience(self) -> float:
        """When this follower stands for election if it hears nothing from now on."""
        return self._clock() + self._SyncObj__generateRaftTimeout()

    def _become_follower(self, term: int, why: str) -> None:
        """Follow nobody yet, in this term, which is the present one or a greater one."""
        if term > self._SyncObj__raftCurrentTerm:
            self._SyncObj__setCurrentTerm(term, None)
        if self._SyncObj__raftState != FOLLOWER:
            logger.info("raft.step_down node=%s term=%d why=%s", self._config.node_id, term, why)
            self._SyncObj__raftElectionDeadline = self._patience()
        self._SyncObj__setState(FOLLOWER)
        self._SyncObj__raftLeader = None
        self._settle()

    def _settle(self) -> None:
        """After anything that may have changed this node's role: begin the reign that was won, tell the machine, mind the timer."""
        if self._won:
            self._won = False
            self._begin_reign()
        leading, leader = self.is_leader, self.leader
        role = (leading, self.term if leader is not None else 0, leader)
        if role != self._announced and not self._stopped:
            self._announced = role
            self._machine.role_changed(leading, self.term, leader)
        self._arm()

    def _guard(self, call: Callable[..., None], *args: Any) -> None:
        """Make a call that the outside began: nothing after the end, and no error gets away."""
        if self._stopped:
            return
        try:
            call(*args)
        except OSError as error:
            # Term, vote and members are written in the middle of a call, and nothing else in here does I/O.
            self._stop(DISK_FAILED.format(error))
        except Exception as error:
            logger.exception("raft.failed node=%s", self._config.node_id)
            self._stop(f"an unexpected error: {type(error).__name__}: {error}")

    def _stop(self, why: str) -> None:
        """Take no further part: say nothing, promise nothing. For what must not happen; the process is expected to end."""
        if self._stopped:
            return
        was_leading = self.is_leader
        self._stopped = True
        logger.critical("raft.stopped node=%s term=%d why=%s", self._config.node_id, self.term, why)
        if was_leading:
            self._machine.role_changed(False, self.term, None)
        self._fatal(why)

    # Decisions and duties of pieces.

    @abstractmethod
    def _begin_from_disk(self) -> int:
        """Load what is on disk before the engine is made. Returns the index up to which the state is applied. (startup)"""

    @abstractmethod
    def _begin_members(self) -> None:
        """Take up the members that the disk knows, and connect with them. (members)"""

    @abstractmethod
    def _arm(self) -> None:
        """Have the timer fire no later than the next deadline. (timers)"""

    @abstractmethod
    def _begin_reign(self) -> None:
        """This node was elected. (leading)"""

    @abstractmethod
    def _may_stand(self) -> bool:
        """Whether this node may stand for election. (membership)"""

    @abstractmethod
    def _may_vote(self, term: int, forced: bool) -> bool:
        """Whether this node may answer a candidate in this term at all. (membership, stickiness)"""

    @abstractmethod
    def _is_member(self) -> bool:
        """Whether what this node acknowledges may be counted. (membership)"""
