"""The newest events of one node's table, kept for those who watch.

Knows: how events are numbered, how many bytes of them are kept. Must not know: who watches, sockets. Every node keeps what it applies, raft
leader or not, so that the next leader can go on where the last one stopped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from typing import Any, Final, NamedTuple

from cluster.limits import EVENTS_KEPT_MAX_BYTES, EVENTS_PAGE_MAX
from cluster.opcodes import Event
from cluster.server.answers import events_of

# What a batch of events takes beside its bytes.
BATCH_COST_BYTES: Final = 192
# Events that were decoded for one watcher are there for the others, as long as they are few.
DECODED_MAX: Final = 20_000
# How many events are looked at for one watcher before others have their turn.
LOOK_MAX: Final = 5_000


class Page(NamedTuple):
    """Events with numbers from ``first`` to ``last`` were looked at; ``rows`` are those that were asked for."""

    first: int
    last: int
    rows: list[list[Any]]


class Events:
    """Events by number, oldest first out.

    Attributes:
        first: the number of the oldest event that is kept; ``next`` if there is none.
        next: the number that the next event will have.
    """

    def __init__(self, next_event: int) -> None:
        self._batches: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._decoded: OrderedDict[int, list[list[Any]]] = OrderedDict()
        self._decoded_rows = 0
        self.first = self.next = next_event

    @property
    def size(self) -> int:
        """Bytes that are taken."""
        return self._bytes

    def begin_anew(self, next_event: int) -> None:
        """The state was replaced: what happened before ``next_event`` is not known here."""
        self._batches.clear()
        self._decoded.clear()
        self._bytes = self._decoded_rows = 0
        self.first = self.next = next_event

    def add(self, events: bytes, next_event: int) -> None:
        """Keep the events of one batch, whose last one has the number before ``next_event``."""
        if not events:
            return
        self._batches.append((self.next, events))
        self._bytes += len(events) + BATCH_COST_BYTES
        self.next = next_event
        if self._bytes > EVENTS_KEPT_MAX_BYTES:
            self._trim()

    def _trim(self) -> None:
        """Many batches at a time: taking one from the front of a list costs as much as taking many."""
        count = 0
        while count < len(self._batches) and self._bytes > EVENTS_KEPT_MAX_BYTES * 7 // 8:
            self._bytes -= len(self._batches[count][1]) + BATCH_COST_BYTES
            count += 1
        del self._batches[:count]
        self.first = self._batches[0][0] if self._batches else self.next

    def page(self, after: int, prefix: bytes, *, extended: bool) -> Page:
        """Look at what came after a number, at most LOOK_MAX events and as many as it takes to find EVENTS_PAGE_MAX.

        A ``first`` that does not follow ``after`` says that events between the two are not known here. ``after`` may be larger than any
        number that was given: then nothing is known of it either, and ``last`` is smaller.
        """
        start = after + 1 if self.first <= after + 1 <= self.next else self.first if after < self.first else self.next
        rows: list[list[Any]] = []
        number, end = start, min(self.next, start + LOOK_MAX)
        at = bisect_left(self._batches, (start + 1,)) - 1
        while number < end and len(rows) < EVENTS_PAGE_MAX:
            base = self._batches[at][0]
            decoded = self._decode(at)
            for event in decoded[number - base : end - base]:
                if event[1].startswith(prefix) and (extended or event[0] != Event.EXTENDED):
                    rows.append([number, *event])
                    if len(rows) == EVENTS_PAGE_MAX:
                        return Page(start, number, rows)
                number += 1
            at += 1
        return Page(start, number - 1, rows)

    def _decode(self, at: int) -> list[list[Any]]:
        base, data = self._batches[at]
        found = self._decoded.get(base)
        if found is None:
            found = self._decoded[base] = list(events_of(data))
            self._decoded_rows += len(found)
            while self._decoded_rows > DECODED_MAX and len(self._decoded) > 1:
                self._decoded_rows -= len(self._decoded.popitem(last=False)[1])
        else:
            self._decoded.move_to_end(base)
        return found
