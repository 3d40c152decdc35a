"""Who waits for which name, in order of arrival.

Knows: the queues, who is first, when to look again. Must not know: sockets, the log, how an operation is encoded.

A waiter stands in the queue of each of its names from the moment it arrives, also while its first try is under way, so that nobody
overtakes it. Only a waiter that is first in all of its queues is proposed, one at a time per name. Order is kept within one reign of a raft
leader. Prior art: the queue of ZooKeeper's lock recipe, without its nodes to clean up.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from cluster.ports import Env, Handle
from cluster.server.turns import SLICE_S

# What a waiter takes for each name that it stands in line for: its place, the name's queue.
WAITER_COST_BYTES: Final = 512


@dataclass(eq=False, slots=True)
class Waiter:
    """One waiting request.

    Attributes:
        conn_id: the connection it came on.
        rid: the request's number there.
        acq_id: its acquisition id.
        names: what it wants, all at once.
        max_leaders: with this limit.
        operation: the encoded acquisition.
        until: when its wait is over, by the env's clock.
        proposed: its acquisition is queued or under way; only an answer ends that.
        cancelled: called off meanwhile: a refusal ends it.
        heard: number of the connection's last frame when it was proposed.
        client: the client that it belongs to.
    """

    conn_id: int
    rid: int
    acq_id: bytes
    names: tuple[bytes, ...]
    max_leaders: int
    operation: bytes
    until: float
    proposed: bool = False
    cancelled: bool = False
    heard: int = 0
    client: bytes = b""
    timer: Handle | None = field(default=None, repr=False)

    @property
    def weight(self) -> int:
        """Bytes of memory that it takes, about."""
        return len(self.operation) + WAITER_COST_BYTES * len(self.names)


class Host(Protocol):
    """What the queues ask of the server."""

    def alive(self, waiter: Waiter) -> bool:
        """Whether its connection was heard lately."""

    def free_in_s(self, waiter: Waiter, name: bytes) -> float:
        """Seconds until the name might be granted to it; 0 or less: now."""

    def propose(self, waiter: Waiter) -> None: ...
    def unheard(self, waiter: Waiter) -> None:
        """It was dropped from the queues because its connection is silent."""

    def timed_out(self, waiter: Waiter) -> None:
        """It was dropped from the queues because its wait is over."""


class WaitQueues:
    """The queues of all names. ``waited`` is shared with the intake: acquisitions of these names come by way of the server."""

    def __init__(self, env: Env, host: Host, waited: set[bytes]) -> None:
        self._env = env
        self._host = host
        self._waited = waited
        # In order of arrival; whoever is in the middle of it leaves at no cost, however long it is.
        self._queues: dict[bytes, OrderedDict[Waiter, None]] = {}
        self._timers: dict[bytes, Handle] = {}
        self._of_connection: dict[int, dict[bytes, Waiter]] = {}
        self._left: dict[bytes, None] = {}
        self.count = 0
        self.weight = 0

    def arrive(self, waiter: Waiter) -> None:
        """Stand in every queue, and be proposed at once if first in all."""
        self.count += 1
        self.weight += waiter.weight
        self._of_connection.setdefault(waiter.conn_id, {})[waiter.acq_id] = waiter
        for name in waiter.names:
            self._queues.setdefault(name, OrderedDict())[waiter] = None
            self._waited.add(name)
        waiter.timer = self._env.call_later(max(0.0, waiter.until - self._env.clock()), self._expire, waiter)
        self.look(waiter.names[0])

    def length(self, name: bytes) -> int:
        return len(self._queues.get(name, ()))

    def first(self, name: bytes) -> Waiter | None:
        queue = self._queues.get(name)
        return next(iter(queue)) if queue else None

    def of(self, conn_id: int, acq_id: bytes) -> Waiter | None:
        return self._of_connection.get(conn_id, {}).get(acq_id)

    def freed(self, names: Iterable[bytes]) -> None:
        """Somebody has left these names."""
        for name in names:
            if name in self._queues:
                self.look(name)

    def look(self, name: bytes) -> None:
        """Propose the first waiter of the name if it is its turn everywhere, or set a timer for when it might be."""
        while (waiter := self.first(name)) is not None:
            if waiter.proposed or any(self.first(other) is not waiter for other in waiter.names):
                return
            if not self._host.alive(waiter):
                self.remove(waiter)
                self._host.unheard(waiter)
                continue
            delay_s = max(self._host.free_in_s(waiter, other) for other in waiter.names)
            if delay_s <= 0:
                waiter.proposed = True
                self._host.propose(waiter)
            else:
                self._arm(name, delay_s)
            return

    def refused(self, waiter: Waiter, *, again_in_s: float = 0.0) -> None:
        """Its proposal was refused: it keeps its place, and times out at once if its wait is over."""
        waiter.proposed = False
        if waiter.until <= self._env.clock():
            self._expire(waiter)
        elif again_in_s > 0:
            self._arm(waiter.names[0], again_in_s)
        else:
            self.look(waiter.names[0])

    def remove(self, waiter: Waiter) -> None:
        """Take it out of every queue and let the next ones have their turn. Does nothing if it is gone already."""
        mine = self._of_connection.get(waiter.conn_id)
        if mine is None or mine.get(waiter.acq_id) is not waiter:
            return
        del mine[waiter.acq_id]
        if not mine:
            del self._of_connection[waiter.conn_id]
        self.count -= 1
        self.weight -= waiter.weight
        if waiter.timer is not None:
            waiter.timer.cancel()
        for name in waiter.names:
            queue = self._queues[name]
            del queue[waiter]
            if not queue:
                del self._queues[name]
                self._waited.discard(name)
                timer = self._timers.pop(name, None)
                if timer is not None:
                    timer.cancel()
        # Not now: the caller may be in the middle of handing out answers. And once for all who leave in one turn.
        if not self._left:
            self._env.call_soon(self._look_again)
        self._left.update(dict.fromkeys(waiter.names))

    def _look_again(self) -> None:
        """Who comes next where somebody has left, for a slice of this turn."""
        until = self._env.clock() + SLICE_S
        try:
            while self._left:
                name = next(iter(self._left))
                del self._left[name]
                self.look(name)
                if self._env.clock() >= until:
                    break
        finally:
            # Also if an unexpected error met one of them.
            if self._left:
                self._env.call_soon(self._look_again)

    def drop_connection(self, conn_id: int) -> None:
        for waiter in list(self._of_connection.get(conn_id, {}).values()):
            self.remove(waiter)

    def drain(self) -> list[Waiter]:
        """Empty all queues; the waiters, for the owner to answer."""
        waiters = [waiter for mine in self._of_connection.values() for waiter in mine.values()]
        for waiter in waiters:
            if waiter.timer is not None:
                waiter.timer.cancel()
        for timer in self._timers.values():
            timer.cancel()
        self._queues.clear()
        self._timers.clear()
        self._of_connection.clear()
        self._waited.clear()
        self._left.clear()
        self.count = self.weight = 0
        return waiters

    def _arm(self, name: bytes, delay_s: float) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        self._timers[name] = self._env.call_later(delay_s, self._wake, name)

    def _wake(self, name: bytes) -> None:
        self._timers.pop(name, None)
        self.look(name)

    def _expire(self, waiter: Waiter) -> None:
        # A waiter whose time runs out while its grant is proposed gets the grant; a refusal comes back here.
        if not waiter.proposed:
            self.remove(waiter)
            self._host.timed_out(waiter)


