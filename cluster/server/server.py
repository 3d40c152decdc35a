"""The server of one node: applies the log to the table, and serves clients while this node is the raft leader.

Knows: when a reign begins and ends, what follows from an applied batch. Must not know: sockets, how the log replicates. Decisions live
elsewhere: the stamp in ``timekeeper``, what travels together in ``batcher``, who is next in ``waiters``, what a request means in
``control``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from cluster import wall
from cluster._table import LEVEL, LeaseTable
from cluster.codec import pack, unpack
from cluster.errors import CoordinationError
from cluster.opcodes import Event, Op, Push, Status
from cluster.ports import Connection, Env, Handle, Hello, Replicator, Welcome
from cluster.server import answers
from cluster.server.backups import Backups
from cluster.server.batcher import Batcher, batch_of, header_of
from cluster.server.clients import Sessions
from cluster.server.control import Control
from cluster.server.events import Events
from cluster.server.timekeeper import TimeKeeper

logger = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 1.0
# While more is over than one sweep takes.
SWEEP_AGAIN_S = 0.02
# After these there may be room for who waits. A grant takes it away, an extension puts it off, and who is revoked has yet to go.
_FREEING = frozenset({Event.RELEASED, Event.EXPIRED, Event.FREED, Event.VACATED, Event.ABANDONED})
_EPOCH = pack([int(Op.EPOCH)])
_TICK = pack([int(Op.TICK)])
# Answers to what was under way when a reign ended; the next one asks again.
_REIGN_ENDED = (Status.WRONG_EPOCH, Status.NOT_LEADER, Status.CLOSING, Status.UNSURE)


class Server:
    """See ``ports.Machine``. ``bind`` gives it its log before anything is applied."""

    def __init__(self, env: Env, *, new_cluster_id: Callable[[], bytes], peers_wall_s: Callable[[], float]) -> None:
        self._env = env
        self._new_cluster_id = new_cluster_id
        self._peers_wall_s = peers_wall_s
        self.table = LeaseTable(seed=int.from_bytes(env.entropy(8), "big"))
        self.events = Events(self.table.next_event)
        self.keeper = TimeKeeper(env.clock)
        self._opening = 0
        self._sweep_timer: Handle | None = None
        self._sweep_ms = 0
        self._closed = False
        self._members_push = b""
        self._knows_cluster = False
        self.on_cluster_id: Callable[[bytes], None] = lambda cluster_id: None

    def bind(self, log: Replicator) -> None:
        self.log = log
        self.batcher = Batcher(self._env, log, self.keeper.stamp, self._deliver, self._refusal)
        self.backups = Backups(self._env, self.freeze, log.status)
        self.control = Control(self._env, self)
        self.sessions = Sessions(self._env, self.batcher.intake, self.control.on_frame, self.batcher.kick)
        self.sessions.on_gone = self.control.session_gone

    # What the log tells.

    def apply(self, index: int, term: int, command: bytes) -> None:
        level, epoch = header_of(command)
        if level > LEVEL or self.table.level > LEVEL:
            newer = max(level, self.table.level)
            raise CoordinationError(f"the raft group uses batch format level {newer}, this node knows {LEVEL}: upgrade it")
        before = self.table.epoch
        replies, events = self.table.apply(command)
        if self.table.epoch != before:
            # An epoch entry moves no time and is no base for anybody's clock; elections in a row must not stretch leases.
            if epoch == self._opening:
                self._open(epoch)
            return
        if epoch != before:
            self.batcher.applied(index, term, replies)
            return
        self.keeper.applied(self.table.time_ms)
        self._keep_events(events)
        self._learn_cluster_id()
        if self.batcher.serving:
            self.batcher.applied(index, term, replies)
            if events:
                self.control.told()
                if self.control.wants_events:
                    self._happened(events)
            self._arm_sweep()

    def freeze(self) -> Callable[[], bytes]:
        return self.table.freeze()

    def restore(self, state: bytes) -> None:
        self.table.restore(state)
        self.events.begin_anew(self.table.next_event)
        self.keeper.applied(self.table.time_ms)
        self._learn_cluster_id()

    def role_changed(self, leading: bool, term: int, leader: str | None) -> None:
        if leading:
            self._end_reign(leader)
            self._opening = term
            # Not from within the log's own call.
            self._env.call_soon(self._propose_epoch, term)
            return
        self._end_reign(leader)
        self.sessions.broadcast(answers.push(int(Push.LEADER), 0, leader or ""))

    # A reign.

    def _propose_epoch(self, term: int) -> None:
        if self._opening == term and self.log.term == term:
            self.log.propose(batch_of(_EPOCH, term, 0))

    def _open(self, epoch: int) -> None:
        """The own epoch entry is applied: stamp and answer from now on."""
        self._opening = 0
        init = b"" if self.table.cluster_id else self._init()
        self.keeper.begin()
        if init:
            self.batcher.submit(init, self._initialised)
        self.batcher.open(epoch)
        logger.info("epoch.open epoch=%d leases=%d cluster_time_ms=%d", epoch, self.table.lease_count, self.table.time_ms)
        self.sessions.broadcast(answers.push(int(Push.LEADER), epoch, self.log.node_id))
        self._arm_sweep()

    def _init(self) -> bytes:
        """What a group begins with. Raises CoordinationError, which stops this node, if its clock is none to begin with."""
        wall_s = self._peers_wall_s()
        if why := wall.objection(wall_s):
            raise CoordinationError(why)
        return pack([int(Op.INIT), self._new_cluster_id(), int(wall_s * 1000)])

    def _initialised(self, answer: bytes) -> None:
        fields = unpack(answer)
        if fields[0] == Status.OK:
            if self.table.grants_from > self.table.time_ms:
                logger.warning(
                    "cluster.restored wait_ms=%d nothing is granted before: holders from before may still run",
                    self.table.grants_from - self.table.time_ms,
                )
            logger.info("cluster.formed cluster_id=%s next_token=%d", fields[1].hex(), fields[2])
        elif fields[0] not in _REIGN_ENDED:
            # Its tokens would begin anew.
            logger.error("cluster.not_formed answer=%s nothing is served", fields[0])
            self._end_reign(None)
            raise CoordinationError(f"the raft group could not begin: INIT was answered with {fields[0]}")

    def _keep_events(self, events: bytes) -> None:
        if self.table.cluster_id and not self._knows_cluster:
            # A group begins, and numbers its events anew, above those of any group before it.
            self.events.begin_anew(self.table.next_event)
        else:
            self.events.add(events, self.table.next_event)

    def _learn_cluster_id(self) -> None:
        """Every node keeps it, not only the leader that proposed it: by it a node refuses the peers of another group."""
        if not self._knows_cluster and self.table.cluster_id:
            self._knows_cluster = True
            self.on_cluster_id(self.table.cluster_id)

    def _end_reign(self, leader: str | None) -> None:
        self._opening = 0
        if not self.keeper.leading:
            return
        logger.info("epoch.end epoch=%d leader=%s", self.batcher.intake.epoch, leader or "unknown")
        self.keeper.end()
        refusal = answers.not_leader(leader, 0)
        self.batcher.close(refusal, answers.UNSURE)
        self.control.end_reign(refusal)

    def _refusal(self) -> bytes:
        return answers.not_leader(self.log.leader, self.batcher.intake.epoch)

    def _deliver(self, number: int, frames: bytes) -> None:
        self.sessions.write(number, frames)

    def _happened(self, events: bytes) -> None:
        freed: dict[bytes, None] = {}
        pushes: list[bytes] = []
        for kind, name, slot, token, *_ in answers.events_of(events):
            if kind in _FREEING:
                freed[name] = None
            if kind == Event.REVOKED or kind == Event.FREED:
                pushes.append(answers.push(int(Push.REVOKED), name, slot, token))
        if pushes:
            # All at once: a group of a thousand may be revoked while a thousand clients are connected.
            self.sessions.broadcast(b"".join(pushes))
        self.control.names_freed(freed)

    def _arm_sweep(self) -> None:
        """Expired leases are dead at once, swept or not; the sweep only frees their memory and reports them, so once a second is enough.
        What one sweep has left over is reported soon."""
        deadline = self.table.next_deadline()
        if deadline < 0:
            return
        if self._sweep_timer is not None:
            if deadline >= self._sweep_ms:
                return
            self._sweep_timer.cancel()
        self._sweep_ms = deadline
        pause_s = SWEEP_AGAIN_S if deadline <= self.table.time_ms else max(SWEEP_INTERVAL_S, self.keeper.delay_s(deadline))
        self._sweep_timer = self._env.call_later(pause_s, self._sweep)

    def _sweep(self) -> None:
        self._sweep_timer = None
        if not self.batcher.serving or self._closed:
            return
        deadline = self.table.next_deadline()
        if 0 <= deadline <= self.keeper.stamp():
            self.batcher.submit(_TICK, lambda answer: None)
        else:
            self._arm_sweep()

    # What clients and operators see.

    def client_connected(self, connection: Connection) -> None:
        if self._closed:
            connection.close("this node stops")
            return
        self.sessions.add(connection)
        if self._members_push:
            connection.write(self._members_push)

    def members_changed(self, members: Sequence[str]) -> None:
        """The members are not those that were formed: clients learn where else to look for the raft leader."""
        self._members_push = answers.push(int(Push.MEMBERS), list(members))
        self.sessions.broadcast(self._members_push)

    def welcome(self, hello: Hello) -> Welcome:
        return Welcome(
            node_id=self.log.node_id,
            cluster_id=self.table.cluster_id,
            epoch=self.batcher.intake.epoch,
            leader=self.log.leader or "",
        )

    def status(self) -> dict[str, Any]:
        """For STATUS: the log's view, and this node's table."""
        return {
            **self.log.status(),
            "cluster_id": self.table.cluster_id.hex(),
            "cluster_time_ms": self.table.time_ms,
            "epoch": self.table.epoch,
            "serving": self.batcher.serving,
            "grants_in_ms": max(0, self.table.grants_from - (self.keeper.stamp() if self.keeper.leading else self.table.time_ms)),
            "leases": self.table.lease_count,
            "sessions": self.table.session_count,
            "waiters": self.control.waiter_count,
            "watchers": self.control.watcher_count,
            "clients": len(self.sessions),
        }

    def close(self) -> None:
        """Stop serving: everybody is told, nothing is released."""
        self._closed = True
        self.backups.close()
        self.keeper.end()
        self.batcher.close(answers.CLOSING, answers.UNSURE)
        self.control.end_reign(answers.CLOSING)
        self.sessions.close("this node stops")
