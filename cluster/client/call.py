"""One operation on its way, as the dispatcher sees it.

Knows: the states of a call. Must not know: any operation, connections.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from cluster.client.answers import Answer
from cluster.ports import Handle

if TYPE_CHECKING:
    from cluster.client.wire import Wire


class State(IntEnum):
    NEW = 0
    READY = 1
    SENT = 2
    RESTING = 3
    DONE = 4


class Call:
    """One operation. Subclasses say what is sent and what its answers mean; everything happens on the I/O thread.

    Attributes:
        changes: whether it may change something in the cluster.
        anywhere: whether any node can answer it.
        urgent: whether it goes before others, and whatever is in flight: renewals.
        background: whether nobody waits for it in person.
        waits: whether its frame may be answered much later.
        unknown: whether a frame of it may have been applied without an answer.
    """

    # Defaults live in the class: a call is made for every operation, and most of them never differ from these.
    changes = True
    anywhere = False
    urgent = False
    background = False
    waits = False
    unknown = False
    bucket = -1
    deadline = 0.0
    rid = 0
    sent_at = 0.0
    sent_bytes = 0
    state = State.NEW
    timer: Handle | None = None
    tries = 0
    trouble = ""
    wire: Wire | None = None

    def operation(self, now: float) -> Sequence[Any]:
        """What to send now."""
        raise AssertionError("a call without an operation")

    def answered(self, answer: Answer, base: float) -> None:
        """An answer that settles it. May raise ValueError or IndexError for one that is malformed; then ``broken`` follows."""

    def again(self) -> bool:
        """The last frame brought no verdict (see ``unknown``). Whether to ask again."""
        return True

    def overdue(self, unknown: bool) -> float | None:
        """Its deadline has passed. ``unknown``: it may have been applied, or may still be. A new deadline, or None: it is over."""
        return None

    def broken(self) -> None:
        """The answer was none of this protocol."""

    def stopped(self) -> None:
        """The client stops: it will not be asked again."""
