"""What must hold, looked at as it happens.

Knows: every committed batch in order, what each holder believes by its own clock. Must not know: how any of it came about.

The observer keeps a table of its own and applies each committed command the first time that any node applies it. So it sees every grant at
the earliest moment at which anybody can, and asks every holder at that moment whether it still believes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from cluster._table import LeaseTable
from cluster.codec import unpack_stream
from cluster.opcodes import Event


class Violation(AssertionError):
    """An invariant does not hold."""


class Believer(Protocol):
    """A client, as far as the observer asks it."""

    name: str

    def believes(self, lease: bytes) -> list[tuple[int, int, float]]:
        """(token, slot, seconds left by its own clock) of each lease of this name that it would still act on."""


@dataclass
class Observer:
    """Checks I1 to I3, I6, I8, and that all nodes apply the same."""

    believers: list[Believer] = field(default_factory=list)
    table: LeaseTable = field(default_factory=LeaseTable)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._log: dict[int, tuple[int, bytes]] = {}
        self._next: list[int] = []
        self._applied = 0
        self._token = 0
        self._granted: dict[int, bytes] = {}
        self._digest = hashlib.sha256()

    def applied(self, node: str, index: int, term: int, command: bytes, time_ms: int) -> None:
        """A node is about to apply a command."""
        del time_ms
        mark = (term, hashlib.sha256(command).digest())
        known = self._log.get(index)
        if known is not None:
            if known != mark:
                raise Violation(f"{node} applies another command at index {index} than was applied there before")
            return
        if index <= self._applied:
            raise Violation(f"{node} applies index {index}, which nobody had applied when {self._applied} was")
        self._log[index] = mark
        self._applied = index
        self._digest.update(mark[1])
        before = self.table.time_ms, self.table.epoch
        _, events = self.table.apply(command)
        if (self.table.time_ms, self.table.epoch) < before or self.table.epoch < before[1]:
            raise Violation(f"cluster time or epoch went back at index {index} (I3)")
        for event in unpack_stream(events):
            self.counts[Event(event[0]).name] += 1
            if event[0] == Event.GRANTED:
                self._check_grant(index, event)

    def _check_grant(self, index: int, event: list[Any]) -> None:
        _, name, slot, token, node_id, _ = event
        if token <= self._token:
            raise Violation(f"token {token} is not above {self._token} (I2)")
        self._token = token
        self._granted[token] = name
        for believer in self.believers:
            for other, other_slot, left_s in believer.believes(name):
                if other != token and other_slot == slot:
                    raise Violation(
                        f"index {index}: {name!r} slot {slot} is granted to {node_id!r} with token {token}, while {believer.name} "
                        f"believes for {left_s:.4f} s more in token {other} (I8)"
                    )

    def acknowledged(self, name: str, token: int) -> None:
        """A client was told of a grant: it must be in the log that all agree on (I9)."""
        if self._granted.get(token) != name.encode():
            raise Violation(f"a client was granted {name!r} with token {token}, which no log has (I9)")

    def agrees(self, node: str, index: int, snapshot: bytes) -> None:
        """At the end: a node that applied everything has the state that the log gives (I6)."""
        if index == self._applied and snapshot != self.table.snapshot():
            raise Violation(f"{node} has another state at index {index} than the log gives (I6)")

    @property
    def last_index(self) -> int:
        return self._applied

    def fingerprint(self) -> str:
        return self._digest.hexdigest()
