"""One raft entry in flight: what arrives meanwhile becomes the next batch.

Knows: the intake, the batch header, which batch is under way and who waits for its answers. Must not know: what the operations mean,
sockets.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

from cluster._wire import Intake, Sealed
from cluster.limits import BATCH_MAX_BYTES, BATCH_MAX_OPS, REQUESTS_QUEUED_MAX
from cluster.ports import Env, Replicator
from cluster.server.turns import SLICE_S

_HEADER = struct.Struct("<BBHIQq")
LEVEL = 1

Answered = Callable[[bytes], None]


def batch_of(operation: bytes, epoch: int, stamp_ms: int) -> bytes:
    """A batch of one operation, for the epoch entry."""
    return _HEADER.pack(LEVEL, 0, 0, 1, epoch, stamp_ms) + operation


def header_of(batch: bytes) -> tuple[int, int]:
    """(format level, epoch) of a batch; level 0 if it is too short to have a header."""
    if len(batch) < _HEADER.size:
        return 0, 0
    fields = _HEADER.unpack_from(batch)
    return fields[0], fields[4]


class Batcher:
    """Collects operations, seals them with a stamp, proposes them, and hands out the answers.

    ``deliver(conn_id, frames)`` writes ready frames to a connection; answers of operations that came through ``submit`` go to their
    callback. ``refusal`` makes the answer for what could not be proposed, since this node is no longer the raft leader.
    """

    def __init__(
        self,
        env: Env,
        log: Replicator,
        stamp: Callable[[], int],
        deliver: Callable[[int, bytes], None],
        refusal: Callable[[], bytes],
    ) -> None:
        self._env = env
        self._log = log
        self._stamp = stamp
        self._deliver = deliver
        self._refusal = refusal
        self.intake = Intake(LEVEL, BATCH_MAX_OPS, BATCH_MAX_BYTES, REQUESTS_QUEUED_MAX)
        self._flying: Sealed | None = None
        self._index = 0
        self._term = 0
        self._scheduled = False
        self._tickets: dict[int, Answered] = {}
        self._next_ticket = 1
        self._afterwards: list[Callable[[], None]] = []
        self._due: deque[Callable[[], None]] = deque()
        self._handing_out = False

    @property
    def serving(self) -> bool:
        return self.intake.epoch != 0

    def open(self, epoch: int) -> None:
        """Take requests that name this epoch. What was submitted before goes first."""
        self.intake.epoch = epoch
        self.kick()

    def submit(self, operation: bytes, answered: Answered) -> None:
        """Queue one operation of the slow path. ``answered`` gets its answer, or the one given to ``close``. Never before this returns."""
        ticket = self._next_ticket
        self._next_ticket += 1
        self._tickets[ticket] = answered
        self.intake.add(operation, ticket)
        self.kick()

    def after_flight(self, then: Callable[[], None]) -> bool:
        """Call ``then`` when the batch under way has been answered, or the next one if there is one to come; at once if there is none.

        While answers are handed out their batch is still under way: those that are left may change what ``then`` looks at.
        Returns False, and will not call it, if REQUESTS_QUEUED_MAX wait like this already.
        """
        if self._flying is None and not self.intake.queued and not self._handing_out:
            then()
        elif len(self._afterwards) + len(self._due) >= REQUESTS_QUEUED_MAX:
            return False
        else:
            self._afterwards.append(then)
        return True

    def kick(self) -> None:
        """Something may be queued: seal at the end of this round of the loop, so that what arrives in the same round travels together."""
        if self._flying is None and not self._scheduled and self.intake.queued and self.intake.epoch:
            self._scheduled = True
            self._env.call_soon(self._seal)

    def _seal(self) -> None:
        self._scheduled = False
        if self._flying is not None or not self.intake.epoch:
            return
        sealed = self.intake.seal(self._stamp())
        if sealed is None:
            # All that was queued has gone with its connections.
            self._go_on()
            return
        # Set first: a raft group of one applies within propose.
        self._flying, self._index, self._term = sealed, 0, self._log.term
        index = self._log.propose(sealed.batch)
        if index is None:
            self._flying = None
            self._hand_out(sealed.refuse(self._refusal()))
        elif self._flying is sealed:
            self._index = index

    def applied(self, index: int, term: int, replies: bytes) -> None:
        """A batch was applied. If it is the one under way its answers go out, and the next one is sealed."""
        sealed = self._flying
        if sealed is None or term != self._term or (self._index and index != self._index):
            return
        self._flying = None
        self._hand_out(sealed.route(replies))
        self.kick()

    def close(self, queued: bytes, flying: bytes) -> None:
        """Stop serving: what is queued gets the one answer (it did not happen), what is under way the other (it may have)."""
        self.intake.epoch = 0
        sealed, self._flying = self._flying, None
        if sealed is not None:
            self._hand_out(sealed.refuse(flying))
        waiting = self.intake.take_all()
        if waiting is not None:
            self._hand_out(waiting.refuse(queued))
        self._go_on()
        while self._due:
            self._due.popleft()()

    def _hand_out(self, routed: tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]) -> None:
        frames, answers = routed
        deliver = self._deliver
        self._handing_out = True
        try:
            for conn_id, data in frames:
                deliver(conn_id, data)
            for ticket, answer in answers:
                self._tickets.pop(ticket)(answer)
        finally:
            self._handing_out = False
        self._go_on()

    def _go_on(self) -> None:
        """Do what was to be done after the batch that was under way, for a slice of this turn, and the rest in the next ones."""
        waiting = bool(self._due)
        self._due.extend(self._afterwards)
        self._afterwards.clear()
        if not waiting:
            self._work_off()

    def _work_off(self) -> None:
        until = self._env.clock() + SLICE_S
        try:
            while self._due:
                self._due.popleft()()
                if self._env.clock() >= until:
                    break
        finally:
            # Also if an unexpected error met one of them: the others have not been told.
            if self._due:
                self._env.call_soon(self._work_off)
