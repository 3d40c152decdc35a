"""What a watch tells: events of leases, and that some are missing.

Knows: the events of docs/protocol.md and their names for people. Must not know: how they travelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cluster.opcodes import Event, Outcome

EventKind = Literal["granted", "extended", "released", "expired", "revoked", "vacated"]


@dataclass(frozen=True, slots=True)
class LeaseEvent:
    """What happened to one lease. Events of one raft group are numbered; every node gives an event the same number.

    Attributes:
        sequence: its number: larger than that of every earlier event, also of those before a restore. Resume after it.
        kind: ``"granted"``; ``"extended"`` (by hand; only on request); ``"released"``; ``"expired"``; ``"revoked"``; ``"vacated"``: the
            time is over for which ``min_lease_time`` kept a slot after an early release.
        name, slot, token, node_id: of the lease. ``node_id`` is its holder's, as people see it.
        reason: of a release how the action ended: ``"completed"``, ``"failed"``, ``"lost"``, ``"cancelled"``, ``"not_started"``, or
            ``"abandoned"``: granted to a caller that had given up. Of a revocation ``"marked"``: it ends when its holder confirms, or at
            its deadline; or ``"forced"``: it ended at once. Otherwise empty.
    """

    sequence: int
    kind: EventKind
    name: str
    slot: int
    token: int
    node_id: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WatchGap:
    """Some events are not known any more, and what happened in them is not: look at ``leases`` anew.

    A node keeps only the newest events, and none of before it loaded a snapshot, or of before the raft group was restored or formed anew.

    Attributes:
        after: the number of the last event that was seen.
        sequence: the watch goes on after this number. It is smaller than ``after`` where the raft group never gave that number.
        kind: always ``"gap"``.
    """

    after: int
    sequence: int
    kind: Literal["gap"] = field(default="gap", init=False)


_KINDS: Final[dict[int, EventKind]] = {
    Event.GRANTED: "granted",
    Event.EXTENDED: "extended",
    Event.RELEASED: "released",
    Event.ABANDONED: "released",
    Event.EXPIRED: "expired",
    Event.REVOKED: "revoked",
    Event.FREED: "revoked",
    Event.VACATED: "vacated",
}
_REASONS: Final[dict[int, str]] = {Event.ABANDONED: "abandoned", Event.REVOKED: "marked", Event.FREED: "forced"}


def _event(row: Any) -> LeaseEvent:
    sequence, kind, name, slot, token, node_id, reason = row
    if kind not in _KINDS or not all(type(number) is int for number in (sequence, slot, token, reason)):
        raise ValueError("not an event")
    why = Outcome(reason).name.lower() if kind == Event.RELEASED else _REASONS.get(kind, "")
    return LeaseEvent(
        sequence, _KINDS[kind], name.decode("ascii"), slot, token, node_id.decode("utf-8", "replace"), why
    )


def position(answer: list[Any]) -> int:
    """The number of the newest event, of the answer to a watch that asks for nothing else. Raises ValueError for anything else."""
    _, first, last, _ = answer
    if type(first) is not int or type(last) is not int:
        raise ValueError("not a page of events")
    return last


def read_page(answer: list[Any], after: int) -> tuple[list[LeaseEvent | WatchGap], int]:
    """What a watch that had seen ``after`` is told, and what it has seen then. Raises ValueError for anything else."""
    _, first, last, rows = answer
    if type(first) is not int or type(last) is not int or type(rows) is not list:
        raise ValueError("not a page of events")
    told: list[LeaseEvent | WatchGap] = []
    if first != after + 1:
        told.append(WatchGap(after, first - 1))
    told.extend(map(_event, rows))
    return told, last
