"""Sees every committed batch once, in log order, and what clients believe; holds the invariants against it as it happens.

Knows: every committed batch in order, what each holder believes by its own clock. Must not know: how any of it came about.

The observer keeps a table of its own, of the kind that the nodes have, and applies each committed command the first time that any node
applies it. So it sees every grant at the earliest moment at which anybody can, and asks every holder at that moment whether it still
believes. Whether the table keeps its own rules is judged by the witness of ``tests.table``, which knows the rules and no table.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from cluster.codec import unpack, unpack_stream
from cluster.limits import SWEEP_MAX_PER_BATCH
from cluster.opcodes import Event, Status
from cluster.server.batcher import header_of
from cluster.server.events import Events
from tests.sim.clocks import Pace, Stamp
from tests.sim.violation import Violation
from tests.table.invariants import Witness

BELIEF_SLACK_S = 0.002
"""Stamps are whole milliseconds."""
_ENDS = (Event.EXPIRED, Event.FREED, Event.VACATED, Event.ABANDONED)


class Believer(Protocol):
    """A client, as far as the observer asks it."""

    name: str

    def believes(self, lease: bytes) -> list[tuple[int, int, float]]:
        """(token, slot, seconds left by its own clock) of each lease of this name that it would still act on."""

    def acts(self, lease: bytes) -> list[tuple[int, int]]:
        """(token, slot) of each of its actions under this name that runs, and was not told that it is over, though its process runs."""


class Observer:
    """Checks I1 to I9 on the log, as it is applied. ``clock`` is real time; ``table`` is a fresh one.

    Attributes:
        gone_at: when a token's occupancy was seen to end, in real time.
        floor: the newest token of the group before the last restore; 0: there was none.
        closed: acquisitions that their clients have ended, and were told so.
    """

    def __init__(self, clock: Callable[[], float], table: Any) -> None:
        self.table = table
        self.believers: list[Believer] = []
        self.counts: Counter[str] = Counter()
        self.gone_at: dict[int, float] = {}
        self.closed: set[tuple[bytes, bytes]] = set()
        self.last_index = 0
        self._clock = clock
        self._pace = Pace()
        self._witness = Witness(table.snapshot(), SWEEP_MAX_PER_BATCH, unpack)
        self._log: dict[int, tuple[int, bytes]] = {}
        self._applied_by: dict[tuple[str, int], int] = {}
        self._stamps: dict[bytes, Stamp] = {}
        self._accepted: set[int] = set()
        self._leaders: dict[int, str] = {}
        self._granted: dict[int, bytes] = {}
        self._events: dict[int, list[Any]] = {}
        self.floor = 0
        self._digest = hashlib.sha256()

    # What nodes do.

    def elected(self, node: str, term: int) -> None:
        """A node began to lead."""
        other = self._leaders.setdefault(term, node)
        if other != node:
            raise Violation(f"{node} and {other} were both elected in term {term}")

    def proposed(self, command: bytes, stamp: Stamp) -> None:
        """A leader sealed a batch."""
        self._stamps.setdefault(command, replace(stamp, known_s=self._pace.known_at(stamp.node)))

    def has_state(self, node: str) -> None:
        """A node has just loaded a state, or begun with what its disk had."""
        self._pace.reached(node, self._clock())

    def applied(self, node: str, life: int, index: int, term: int, command: bytes) -> None:
        """A node is about to apply a command."""
        before = self._applied_by.get((node, life), 0)
        if index <= before:
            raise Violation(f"{node} applies index {index} again: it has applied {before}")
        self._applied_by[(node, life)] = index
        mark = (term, hashlib.sha256(command).digest())
        known = self._log.get(index)
        if known is None:
            if index <= self.last_index:
                raise Violation(f"{node} applies index {index}, which nobody had applied when {self.last_index} was")
            self._log[index] = mark
            self.last_index = index
            self._digest.update(mark[1])
            self._committed(index, command)
        elif known != mark:
            raise Violation(f"{node} applies another command at index {index} than was applied there before")
        if index in self._accepted:
            self._pace.reached(node, self._clock())

    def begin_anew(self, state: bytes, index: int) -> None:
        """A new group begins with this state, which stands for this index: its log, terms and time are other ones. Tokens are not (I2)."""
        self.table.restore(state)
        self.floor = max(self._granted, default=0)
        self._witness = Witness(state, SWEEP_MAX_PER_BATCH, unpack)
        self._pace = Pace()
        self.last_index = index
        for of_the_old in (self._log, self._applied_by, self._stamps, self._leaders, self._accepted):
            of_the_old.clear()

    def _committed(self, index: int, command: bytes) -> None:
        table = self.table
        before = table.time_ms, table.epoch
        replies, events = table.apply(command)
        _, epoch = header_of(command)
        if epoch != table.epoch and (events or (table.time_ms, table.epoch) != before):
            raise Violation(f"index {index}: a batch of epoch {epoch} changed something in epoch {table.epoch} (I3)")
        try:
            self._witness.saw(command, replies, events, table.snapshot())
        except AssertionError as objection:
            raise Violation(f"index {index}: {objection}") from None
        self._look_at_time(index, command, epoch, before)
        happened = list(unpack_stream(events))
        for number, event in enumerate(happened, table.next_event - len(happened)):
            if number in self._events:
                raise Violation(f"index {index}: event {number} is given a second time")
            self._events[number] = event
            self.counts[Event(event[0]).name] += 1
            if event[0] == Event.GRANTED:
                self._check_grant(index, event)
            elif event[0] in _ENDS or (event[0] == Event.RELEASED and event[3] not in self._witness.before.leases):
                self.gone_at[event[3]] = self._clock()

    def _look_at_time(self, index: int, command: bytes, epoch: int, before: tuple[int, int]) -> None:
        time_ms, now_epoch = self.table.time_ms, self.table.epoch
        if time_ms < before[0] or now_epoch < before[1]:
            raise Violation(f"cluster time or epoch went back at index {index} (I3)")
        stamp = self._stamps.get(command)
        if stamp is not None and epoch == before[1] == now_epoch:
            self._accepted.add(index)
            self._pace.accepted(index, replace(stamp, epoch=epoch, time_ms=time_ms))

    def _check_grant(self, index: int, event: list[Any]) -> None:
        _, name, slot, token, node_id, _ = event
        if token <= self.floor:
            raise Violation(
                f"index {index}: token {token} is granted, when the group before had come to {self.floor} (I2)"
            )
        self._granted[token] = name
        lease = self._witness.before.leases.get(token)
        if lease is not None and (lease.acq_id, name) in self.closed:
            raise Violation(
                f"index {index}: {name!r} is granted with token {token} to {node_id!r}, which had ended this acquisition"
            )
        for believer in self.believers:
            for other, other_slot, left_s in believer.believes(name):
                if other != token and other_slot == slot:
                    raise Violation(
                        f"index {index}: {name!r} slot {slot} is granted to {node_id!r} with token {token}, while {believer.name} "
                        f"believes for {left_s:.4f} s more in token {other} (I8)"
                    )
            for other, other_slot in believer.acts(name):
                if other != token and other_slot == slot:
                    raise Violation(
                        f"index {index}: {name!r} slot {slot} is granted to {node_id!r} with token {token}, and the action of "
                        f"{believer.name} under token {other} was not told (rule 7)"
                    )

    # What clients are told.

    def acknowledged(self, name: str, token: int) -> None:
        """A client was told of a grant: it must be in the log that all agree on (I9)."""
        if self._granted.get(token) != name.encode():
            raise Violation(f"a client was granted {name!r} with token {token}, which no log has (I9)")

    def believed(self, holder: str, token: int, left_s: float) -> None:
        """A holder counts on a lease for so long: no longer than until the raft leader, going on as it does, may grant it (I8)."""
        lease, stamp = self._witness.before.leases.get(token), self._pace.last
        if lease is None or stamp is None:
            return
        passed_s = self._clock() - stamp.real_s
        until_s = (self._witness.before.ends(lease) - stamp.time_ms) / 1000 - passed_s
        if left_s > until_s + BELIEF_SLACK_S:
            raise Violation(
                f"{holder} counts on token {token} for {left_s:.4f} s, and {lease.name!r} may be granted to others in {until_s:.4f} s (I8)"
            )

    def refused(self, asked_at: float, answer: list[Any]) -> None:
        """A client was told that a name is held: it must have been so at some time since the client asked."""
        if answer[0] == Status.HELD and answer[3]:
            gone_at = self.gone_at.get(answer[3])
            if gone_at is not None and gone_at < asked_at:
                ago_s = asked_at - gone_at
                raise Violation(
                    f"a client was refused since token {answer[3]} held the name, which had ended {ago_s:.4f} s before it asked"
                )

    def event(self, number: int) -> list[Any] | None:
        """The event that has this number, as it is told."""
        event = self._events.get(number)
        return None if event is None else [number, *event]

    # At the end.

    def agrees(self, node: str, snapshot: bytes, kept: Events) -> None:
        """A node that applied everything has the state that the log gives (I6), and tells of the same events under the same numbers, from
        the oldest that it keeps on."""
        if snapshot != self.table.snapshot():
            raise Violation(f"{node} has another state at index {self.last_index} than the log gives (I6)")
        if kept.next != self.table.next_event:
            raise Violation(f"{node} numbers the next event {kept.next}, and the log {self.table.next_event}")
        after, told = kept.first - 1, list[list[Any]]()
        while after + 1 < kept.next:
            _, after, rows = kept.page(after, b"", extended=True)
            told += rows
        expected = [
            [number, *self._events[number]] for number in range(kept.first, kept.next) if number in self._events
        ]
        if told != expected:
            raise Violation(f"{node} tells of other events from number {kept.first} on than the log has (D9)")

    def fingerprint(self) -> str:
        return self._digest.hexdigest()
