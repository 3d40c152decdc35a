"""A history read: calls with their intervals, and what is certain about each lease.

Knows: the events of ``record``. Must not know: which histories are right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from tests.history.record import Record


@dataclass
class Call:
    """One call, from ``began`` to ``ended`` (infinite: it never returned)."""

    id: int
    process: str
    op: str
    names: list[str]
    about: dict[str, Any]
    began: float
    ended: float = inf
    result: str = "unknown"
    found: dict[str, Any] = field(default_factory=dict)


@dataclass
class Hold:
    """One grant, as far as clients know of it.

    Attributes:
        asked: when its acquire was called; the grant is not older.
        told: when it returned; the grant is not younger. Infinite: no client was told.
        held_at: the last moment at which its holder could act on it.
        over_at: its occupancy certainly was over then: when its release was confirmed, or its holder's successor was told of its grant.
        looks: (when, held, seconds left) by its holder.
    """

    name: str
    slot: int
    token: int
    process: str
    asked: float
    told: float
    max_leaders: int = 1
    held_at: float = -inf
    over_at: float = inf
    looks: list[tuple[float, bool, float]] = field(default_factory=list)


class Malformed(ValueError):
    """These events are no history."""


def read_calls(events: Iterable[Record]) -> dict[int, Call]:
    """All calls, by number.

    Raises:
        Malformed: a return without a call, two returns of one, time that goes back.
    """
    calls: dict[int, Call] = {}
    now = -inf
    for event in events:
        if event["at"] < now:
            raise Malformed(f"time goes back at {event}")
        now = event["at"]
        if event["kind"] == "call":
            about = {
                key: value for key, value in event.items() if key not in ("at", "kind", "id", "process", "op", "names")
            }
            calls[event["id"]] = Call(event["id"], event["process"], event["op"], event["names"], about, now)
        elif event["kind"] == "return":
            call = calls.get(event["id"])
            if call is None or call.ended != inf:
                raise Malformed(f"a return without its call: {event}")
            call.ended, call.result, call.found = now, event["result"], event
    return calls


def read_holds(calls: dict[int, Call], events: Iterable[Record]) -> tuple[dict[int, Hold], list[str]]:
    """Every grant that a client was told of, by token; and what is wrong already: a token told twice (I2, I5)."""
    holds: dict[int, Hold] = {}
    wrong = []
    for call in calls.values():
        if call.op != "acquire" or call.result != "ok":
            continue
        if [grant[0] for grant in call.found["grants"]] != call.names:
            wrong.append(f"call {call.id} asked for {call.names} and was granted {call.found['grants']}")
        for name, slot, token in call.found["grants"]:
            if token in holds:
                wrong.append(
                    f"token {token} was told to two calls, for {holds[token].name!r} and for {name!r} (I2, I5)"
                )
            holds[token] = Hold(
                name, slot, token, call.process, call.began, call.ended, call.about.get("max_leaders", 1)
            )
    for event in events:
        if event["kind"] == "look" and event["token"] in holds:
            hold = holds[event["token"]]
            hold.looks.append((event["at"], event["held"], event["left"]))
            if event["held"]:
                hold.held_at = max(hold.held_at, event["at"])
    return holds, wrong
