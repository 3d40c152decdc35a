"""Operations on their way to an answer: sent, asked again, overdue.

Knows: which answers settle a call, when to ask again and how often, when its time is over. Must not know: what an operation means,
threads, how the raft leader is found.

A call has at most one frame out at a time. What happened to a frame without an answer is unknown until the same operation, asked
again, is answered: every operation is idempotent by its ids, and a frame of a connection that is gone is never sealed after one that came
later on a new connection.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from cluster.client.answers import ASK_AGAIN, Answer, Trouble
from cluster.client.call import Call, State
from cluster.client.deadlines import Deadlines
from cluster.client.door import Door
from cluster.client.link import Link, LinkOwner, Need
from cluster.client.wire import Wire
from cluster.opcodes import Status
from cluster.ports import Env, Hello

# More than this many operations under way gain nothing, and their answers would queue up at the node.
IN_FLIGHT_MAX: Final = 16_384
PAUSE_FIRST_S: Final = 0.01
PAUSE_MAX_S: Final = 0.2


class Dispatcher(LinkOwner):
    """The calls of one link. The owner is told what concerns leases; see ``LinkOwner`` for the rest."""

    def __init__(self, env: Env, door: Door, hello: Hello) -> None:
        self._env = env
        self._ready: deque[Call] = deque()
        self._ready_anywhere: deque[Call] = deque()
        self._deadlines: Deadlines[Call] = Deadlines(env, self._overdue)
        self._live = 0
        self._live_background = 0
        self._in_flight = 0
        self._pump_scheduled = False
        self._stopped = False
        self.held = 0
        self.link = Link(env, door, hello, self)

    # What the owner may override.

    def pushed(self, push: list[Any]) -> None: ...
    def time_jumped(self) -> None: ...
    def cluster_changed(self) -> None: ...
    def dial_failed(self) -> None: ...

    # Calls come and go.

    @property
    def live(self) -> int:
        """Calls that are not settled."""
        return self._live

    def counts(self) -> dict[str, int]:
        return {
            "calls": self._live,
            "background": self._live_background,
            "in_flight": self._in_flight,
            "dated": len(self._deadlines),
            "timers": self.link.timers,
        }

    def submit(self, call: Call, deadline: float) -> None:
        """Ask, until ``deadline`` by the env's clock. A call that is settled may be submitted again."""
        if self._stopped:
            call.stopped()
            return
        call.deadline = deadline
        call.tries = 0
        self._live += 1
        if call.background:
            self._live_background += 1
        self._deadlines.set(call, deadline)
        self._queue(call)

    def withdraw(self, call: Call) -> None:
        """It is not wanted any more. A frame that is out stays out; its answer is ignored."""
        if call.state in (State.NEW, State.DONE):
            return
        if call.state is State.SENT:
            self._in_flight -= not call.waits
            if call.wire is not None:
                call.wire.forget(call)
        self._settle(call)

    def to_background(self, call: Call, deadline: float) -> None:
        """Nobody waits for it in person any more, but its answer still matters."""
        if not call.background:
            call.background = True
            self._live_background += 1
        call.deadline = deadline
        self._deadlines.set(call, deadline)

    def stop(self) -> None:
        """For good. What is not settled is told ``stopped``."""
        self._stopped = True
        for call in self.link.close():
            call.unknown = True
        for call in self._deadlines.clear():
            self._settle(call)
            call.stopped()

    def _queue(self, call: Call, *, first: bool = False) -> None:
        call.state = State.READY
        queue = self._ready_anywhere if call.anywhere else self._ready
        if first or call.urgent:
            queue.appendleft(call)
        else:
            queue.append(call)
        if not self._pump_scheduled:
            self._pump_scheduled = True
            self._env.call_soon(self.pump)

    def _settle(self, call: Call) -> None:
        call.state = State.DONE
        call.wire = None
        self._deadlines.drop(call)
        self._live -= 1
        if call.background:
            self._live_background -= 1
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None

    def hold_pump(self) -> None:
        """Many calls follow in one go: ``pump`` is called after them."""
        self._pump_scheduled = True

    def pump(self) -> None:
        """Send what is ready, in order, as far as there is a connection for it."""
        self._pump_scheduled = False
        link = self.link
        wire = link.wire
        now = self._env.clock()
        if wire is not None:
            queue = self._ready_anywhere
            while queue and not wire.full:
                self._send(wire, queue.popleft(), now)
            queue = self._ready
            if link.leading:
                while queue and (queue[0].urgent or (self._in_flight < IN_FLIGHT_MAX and not wire.full)):
                    self._send(wire, queue.popleft(), now)
            if queue and wire.full:
                # Maybe nothing but waits is out, whose answers may take long.
                wire.ask_how_far(link.epoch)
            wire.flush()
        if not link.awake and self.need():
            link.want()

    def _send(self, wire: Wire, call: Call, now: float) -> None:
        if call.state is not State.READY:
            return
        operation = call.operation(now)
        call.state = State.SENT
        call.wire = wire
        self._in_flight += not call.waits
        wire.send(call, operation, self.link.epoch, now)

    # What the link tells: see LinkOwner.

    def need(self) -> Need:
        if self._live > self._live_background or self.held:
            return Need.FOREGROUND
        return Need.BACKGROUND if self._live else Need.NONE

    def link_ready(self) -> None:
        self.pump()

    def link_lost(self, calls: list[Call], reason: str) -> None:
        for call in reversed(calls):
            self._in_flight -= not call.waits
            call.unknown = call.unknown or call.changes
            self._retry(call, first=True)

    def chunk_done(self) -> None:
        if self._ready or self._ready_anywhere:
            self.pump()
        elif self.link.wire is not None:
            self.link.wire.flush()

    def replied(self, wire: Wire, call: Call, answer: Answer, base: float) -> None:
        self._in_flight -= not call.waits
        status = answer[0]
        if status in ASK_AGAIN:
            try:
                self._unsettled(wire, call, answer)
            except (ValueError, IndexError, TypeError):
                self._retry(call, pause=True)
                self.link.leave(wire, "protocol error: not an answer of this protocol")
            return
        self._settle(call)
        try:
            call.answered(answer, base)
        except (ValueError, IndexError, TypeError):
            call.broken()

    def _unsettled(self, wire: Wire, call: Call, answer: Answer) -> None:
        """An answer that says: not here, not now, or not sure."""
        status = answer[0]
        if status == Status.STALE_EPOCH:
            call.trouble = ""
            moved = self.link.epoch != answer[1]
            self.link.epoch = int(answer[1])
            # Once at once; a node that goes on refusing the epoch it names is asked more slowly.
            self._retry(call, first=moved, pause=not moved)
        elif status == Status.NOT_LEADER:
            self.link.not_leader(wire, str(answer[1]))
            self._retry(call, pause=self.link.leading)
        elif status == Status.CLOSING:
            self._retry(call)
            self.link.leave(wire, "the node stops")
        elif status == Status.OVERLOADED:
            call.trouble = f"the node refused it: {answer[1]} is reached"
            self._retry(call, pause=True)
        else:
            call.unknown = call.unknown or (status == Status.UNSURE and call.changes)
            self._retry(call, pause=call.tries > 0)

    def _retry(self, call: Call, *, first: bool = False, pause: bool = False) -> None:
        call.state = State.NEW
        call.wire = None
        call.tries += 1
        if not call.again():
            self._settle(call)
        elif pause:
            call.state = State.RESTING
            longest = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2 ** min(call.tries, 10))
            call.timer = self._env.call_later(self._env.random.uniform(0.0, longest), self._rested, call)
        else:
            self._queue(call, first=first)

    def _rested(self, call: Call) -> None:
        call.timer = None
        self._queue(call)

    def _overdue(self, call: Call) -> None:
        unknown = call.unknown or (call.state is State.SENT and call.changes)
        deadline = call.overdue(unknown)
        if deadline is not None:
            call.deadline = deadline
            self._deadlines.set(call, deadline)
        elif call.state is not State.DONE:
            self.withdraw(call)

    def trouble_of(self, call: Call) -> Trouble:
        return Trouble(call.trouble) if call.trouble else self.link.trouble()
