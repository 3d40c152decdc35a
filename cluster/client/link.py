"""The way to the raft leader: find it, follow it, notice when it is silent.

Knows: the door, whom the nodes name as leader, jitter. Must not know: operations, leases, who waits for answers.

At most one connection is used. While no leader is known, a connection to any node serves as *scout*: it is told at once when there is a
leader, by a push. Dialling is spread: full jitter per address, at most ``DIALS_MAX`` attempts at a time, in an order that each client
shuffles for itself.
"""

from __future__ import annotations

import asyncio
import logging
from enum import IntEnum
from typing import Any, Final, Protocol

from cluster.client.answers import Trouble
from cluster.client.call import Call
from cluster.client.door import Door
from cluster.client.seek import Seek
from cluster.client.wire import Wire
from cluster.errors import CoordinationError
from cluster.limits import MEMBERS_MAX
from cluster.opcodes import Op, Push, Status
from cluster.ports import Connection, Env, Handle, Hello, Welcome

logger = logging.getLogger(__name__)

# A waiter unheard for WAITER_UNHEARD_S is not proposed; "each second" with a little to spare.
PING_EVERY_S: Final = 0.9
UNHEARD_S: Final = 3.0
LATE_S: Final = 0.5
LOST_SPREAD_S: Final = 0.05
ADOPT_AFTER_S: Final = 5.0
# A question that changes nothing, wherever it is asked and however late: take an acquisition out of a queue that it does not stand in.
_PROBE: Final = (int(Op.CANCEL), bytes(16))


class Need(IntEnum):
    """How much the owner wants a connection."""

    NONE = 0
    BACKGROUND = 1
    FOREGROUND = 2


class LinkOwner(Protocol):
    def need(self) -> Need: ...
    def link_ready(self) -> None:
        """There is a connection now, or it has become one to the raft leader."""

    def link_lost(self, calls: list[Call], reason: str) -> None:
        """These calls will get no answer from the connection that they were sent on."""

    def replied(self, wire: Wire, call: Call, answer: list[Any], base: float) -> None: ...
    def pushed(self, push: list[Any]) -> None: ...
    def chunk_done(self) -> None: ...
    def time_jumped(self) -> None:
        """This process stood still for a while."""

    def cluster_changed(self) -> None:
        """The nodes now serve another cluster: nothing of the old one is left."""

    def dial_failed(self) -> None: ...


class Link:
    """One client's way to the raft leader.

    Attributes:
        wire: the connection, if there is one.
        leading: whether ``wire`` goes to the raft leader.
        epoch: the epoch last learned.
        contacts: how many handshakes succeeded.
    """

    def __init__(self, env: Env, door: Door, hello: Hello, owner: LinkOwner) -> None:
        self._env = env
        self._door = door
        self._hello = hello
        self._owner = owner
        self._seek = Seek(list(door.endpoints), env.random)
        self._dials: dict[str, asyncio.Task[None]] = {}
        self._seek_timer: Handle | None = None
        self._pulse_timer: Handle | None = None
        self._pulse_due = 0.0
        self._expecting_since = 0.0
        self._cluster_id = b""
        self._cluster_seen_at = 0.0
        self._closed = False
        self._probe = Call()
        self._probed: Wire | None = None
        self.wire: Wire | None = None
        self.leading = False
        self.epoch = 0
        self.contacts = 0

    # What the owner asks.

    def want(self) -> None:
        """Something waits for an answer, or a lease is held: look for the raft leader, and keep the pulse."""
        if self._closed:
            return
        if not self.leading and self._seek_timer is None:
            self._seek.begin(self._env.clock())
            self._look()
        if self._pulse_timer is None:
            self._expecting_since = self._env.clock()
            self._arm_pulse()

    def trouble(self) -> Trouble:
        """What stands in the way of an answer, for the text of an error."""
        return self._seek.trouble(self.wire.address if self.wire is not None else "", self.leading)

    def not_leader(self, wire: Wire, leader: str) -> None:
        """The node at the other end of ``wire`` does not lead; ``leader`` is whom it names, or empty."""
        if wire is not self.wire:
            return
        self.leading = False
        self._hint(leader)
        self._look_soon()
        self.want()

    def leave(self, wire: Wire, reason: str) -> None:
        """Use this connection no more."""
        if wire is self.wire:
            self._drop(reason)
            self.want()

    def close(self) -> list[Call]:
        """For good. Returns the calls that will get no answer."""
        self._closed = True
        for task in list(self._dials.values()):
            task.cancel()
        self._dials.clear()
        self._stop_seeking()
        if self._pulse_timer is not None:
            self._pulse_timer.cancel()
            self._pulse_timer = None
        wire, self.wire = self.wire, None
        self.leading = False
        return self._calls(wire.close("the client closes")) if wire is not None else []

    @property
    def awake(self) -> bool:
        """Whether ``want`` would do nothing."""
        return self.leading and self._pulse_timer is not None

    @property
    def timers(self) -> int:
        """Timers and tasks under way, for those who count."""
        return (self._seek_timer is not None) + (self._pulse_timer is not None) + len(self._dials)

    # What the wire tells.

    def replied(self, wire: Wire, call: Call, answer: list[Any], base: float) -> None:
        if call is not self._probe:
            self._owner.replied(wire, call, answer, base)
            return
        self._probed = None
        if answer[0] == Status.NOT_LEADER and len(answer) > 1:
            self.not_leader(wire, str(answer[1]))
        elif answer[0] == Status.STALE_EPOCH and len(answer) > 1 and type(answer[1]) is int:
            self._lead(answer[1])
        elif answer[0] == Status.OK and wire is self.wire:
            self._lead(self.epoch)

    def chunk_done(self) -> None:
        self._owner.chunk_done()

    def pushed(self, wire: Wire, push: list[Any]) -> None:
        if wire is not self.wire:
            return
        if push[0] == Push.MEMBERS and len(push) >= 2 and type(push[1]) is list:
            self._seek.learn([address for address in push[1][:MEMBERS_MAX] if type(address) is str])
            return
        if push[0] != Push.LEADER:
            self._owner.pushed(push)
            return
        if len(push) < 3 or type(push[1]) is not int or not isinstance(push[2], str):
            self.wire_closed(wire, "protocol error: not a push of this protocol")
            return
        epoch, leader = push[1], push[2]
        if leader == wire.node_id and epoch > 0:
            self._lead(epoch)
            return
        self.leading = False
        self._hint(leader)
        self._look_soon()

    def wire_closed(self, wire: Wire, reason: str) -> None:
        if wire is not self.wire:
            wire.close(reason)
            return
        logger.info("link.lost address=%s leading=%s reason=%s", wire.address, self.leading, reason)
        self._seek.failed(wire.address, reason, None, self._env.clock(), scouting=True)
        self._drop(reason)
        if self._owner.need() and not self._closed:
            # Everybody else has lost this node in the same moment, and the next raft leader takes longer than this to be elected.
            self._stop_seeking()
            self._seek_timer = self._env.call_later(self._env.random.uniform(0.0, LOST_SPREAD_S), self._look_again)
            self.want()

    def _drop(self, reason: str) -> None:
        wire, self.wire = self.wire, None
        self.leading = False
        if wire is not None:
            self._owner.link_lost(self._calls(wire.close(reason)), reason)

    def _calls(self, calls: list[Call]) -> list[Call]:
        return [call for call in calls if call is not self._probe]

    def _hint(self, leader: str) -> None:
        own = self.wire is not None and leader == self.wire.node_id
        self._seek.hint = "" if own else leader

    # Looking for the raft leader.

    def _look_again(self) -> None:
        self._seek_timer = None
        if self.wire is not None and not self.leading and self._probed is not self.wire:
            # Only here, not when something was just learned: a node that knows no leader would be asked without end.
            self._probed = self.wire
            self.wire.send(self._probe, _PROBE, self.epoch, self._env.clock())
            self.wire.flush()
        self._look()

    def _look(self) -> None:
        """Start the attempts whose time has come, and look again soon. Decisions are made in ``seek``."""
        need = self._owner.need()
        if self.leading or not need or self._closed:
            return
        now = self._env.clock()
        for address in self._seek.next(now, self.wire.address if self.wire is not None else "", self._dials):
            self._dials[address] = self._env.spawn(self._dial(address), f"tenure-dial {address}")
        if self._seek_timer is None:
            self._seek_timer = self._env.call_later(self._seek.pause_s(background=need is Need.BACKGROUND), self._look_again)

    def _look_soon(self) -> None:
        """Something was learned: do not wait for the timer."""
        self._stop_seeking()
        self._look()

    def _stop_seeking(self) -> None:
        if self._seek_timer is not None:
            self._seek_timer.cancel()
            self._seek_timer = None

    async def _dial(self, address: str) -> None:
        hello = self._hello
        try:
            connection, welcome = await self._door.open(self._env, address, hello)
        except asyncio.CancelledError:
            raise
        except (OSError, asyncio.TimeoutError, CoordinationError) as error:
            self._failed(address, error)
        except Exception as error:
            logger.exception("link.dial_broke address=%s", address)
            self._failed(address, error)
        else:
            self._dials.pop(address, None)
            self._opened(address, connection, welcome)

    def _failed(self, address: str, error: Exception) -> None:
        self._dials.pop(address, None)
        kind = type(error) if isinstance(error, CoordinationError) else None
        text = error.detail if isinstance(error, CoordinationError) else str(error) or type(error).__name__
        logger.debug("link.dial_failed address=%s reason=%s", address, text)
        background = self._owner.need() is not Need.FOREGROUND
        self._seek.failed(address, text, kind, self._env.clock(), scouting=self.wire is not None, background=background)
        self._owner.dial_failed()

    def _opened(self, address: str, connection: Connection, welcome: Welcome) -> None:
        now = self._env.clock()
        if self._closed or self.leading:
            connection.close("not needed")
            return
        if not self._belongs(welcome, now):
            connection.close("another cluster")
            self._seek.failed(address, "it belongs to another cluster", None, now, scouting=self.wire is not None)
            return
        self.contacts += 1
        leading = welcome.epoch > 0
        if not leading:
            self._seek.reached(address, now)
            redirect = welcome.leader if welcome.leader != welcome.node_id else ""
            if self.wire is not None and not self._seek.scout_is_stale(now):
                connection.close("not needed")
                self._seek.hint = redirect or self._seek.hint
                self._look_soon()
                return
            self._seek.hint = redirect
        self._drop("another node is used")
        self._seek.scouting_since = now
        self._expecting_since = now
        self.wire = Wire(self._env, connection, welcome, address, self)
        if leading:
            self._lead(welcome.epoch)
        else:
            logger.info("link.scout address=%s leader=%s", address, welcome.leader or "unknown")
            self._owner.link_ready()
            if not self.leading:
                self._look_soon()

    def _lead(self, epoch: int) -> None:
        wire = self.wire
        assert wire is not None
        for task in list(self._dials.values()):
            task.cancel()
        self._dials.clear()
        self._stop_seeking()
        self.leading = True
        self.epoch = epoch
        self._seek.found(wire.address)
        logger.info("link.leader address=%s epoch=%d", wire.address, epoch)
        self._owner.link_ready()

    def _belongs(self, welcome: Welcome, now: float) -> bool:
        """Whether the node serves the cluster that we know. An ephemeral raft group that lost all its nodes forms anew under the same
        addresses; it is taken as the new one when the old one was not met for a while, and everything held in the old one is lost."""
        if not welcome.cluster_id or welcome.cluster_id == self._cluster_id:
            self._cluster_seen_at = now if welcome.cluster_id else self._cluster_seen_at
            return True
        if self._cluster_id:
            if now - self._cluster_seen_at < ADOPT_AFTER_S:
                return False
            logger.warning("link.cluster_changed old=%s new=%s", self._cluster_id.hex(), welcome.cluster_id.hex())
            self._owner.cluster_changed()
        self._cluster_id = welcome.cluster_id
        self._cluster_seen_at = now
        return True

    # The pulse.

    def _arm_pulse(self) -> None:
        self._pulse_due = self._env.clock() + PING_EVERY_S
        self._pulse_timer = self._env.call_later(PING_EVERY_S, self._beat)

    def _beat(self) -> None:
        """Ping while something is expected, and leave a connection that was silent for too long."""
        self._pulse_timer = None
        now = self._env.clock()
        late = now - self._pulse_due > LATE_S
        if late:
            # This process, not the node, was silent: look at the clock first, and read what has come meanwhile.
            self._owner.time_jumped()
            self._expecting_since = now
        if not self._owner.need():
            return
        self._arm_pulse()
        wire = self.wire
        if self.leading:
            self._cluster_seen_at = now
        if wire is None:
            self.want()
        elif now - max(wire.heard_at, self._expecting_since) > UNHEARD_S:
            self.wire_closed(wire, f"nothing was heard for {UNHEARD_S:g} s")
        else:
            wire.ping(self.epoch)
