"""Speaking to a table in a test: operations by name, answers as lists.

Knows: the operations' arrays. Must not know: the rules. Every batch is seen by a witness of I1 to I7.
"""

from __future__ import annotations

from typing import Any

from cluster import limits
from tests.table.invariants import Witness
from tests.table.packing import batch, decode, decode_all
from tests.table.scripts import Machine

OK, HELD, NOT_HELD, SESSION_ENDED, NOT_YET, WRONG_EPOCH, INVALID, LIMIT, REVOKED = range(9)
GRANTED, RELEASED, EXPIRED, MARKED, FREED, VACATED, ABANDONED, EXTENDED = range(1, 9)


def ident(number: int) -> bytes:
    return number.to_bytes(16, "big")


def acquire(
    name: bytes,
    by: int,
    *,
    lease_ms: int = 1_000,
    max_leaders: int = 1,
    min_ms: int = 0,
    session: int = 0,
    node: bytes = b"",
    meta: bytes = b"",
) -> list[Any]:
    return [1, ident(by), name, lease_ms, max_leaders, min_ms, session, node or b"node%d" % by, meta]


def acquire_all(
    names: list[bytes], by: int, *, lease_ms: int = 1_000, max_leaders: int = 1, min_ms: int = 0, session: int = 0
) -> list[Any]:
    return [2, ident(by), names, lease_ms, max_leaders, min_ms, session, b"node%d" % by, b""]


def extend(name: bytes, by: int, token: int, lease_ms: int = 1_000) -> list[Any]:
    return [3, ident(by), name, token, lease_ms]


def session_renew(session: int) -> list[Any]:
    return [4, session]


def release(name: bytes, by: int, token: int, outcome: int = 1) -> list[Any]:
    return [5, ident(by), name, token, outcome]


def abandon(name: bytes, by: int) -> list[Any]:
    return [6, ident(by), name]


def revoke(name: bytes, slot: int | None = None, *, force: bool = False) -> list[Any]:
    return [7, name, slot, force]


def session_open(lease_ms: int = 1_000, node: bytes = b"host:1") -> list[Any]:
    return [12, lease_ms, node]


def check(name: bytes, by: int, token: int) -> list[Any]:
    return [13, ident(by), name, token]


EPOCH, TICK = [8], [10]


class Talk:
    """One machine at one time, in epoch 1. ``events`` are those of the last batch."""

    def __init__(self, machine: Machine, *, sweep_max: int = limits.SWEEP_MAX_PER_BATCH, now: int = 0) -> None:
        self.machine = machine
        self.events: list[Any] = []
        self.now = now
        self.epoch = 1
        self.witness = Witness(machine.snapshot(), sweep_max)
        self.send(batch([EPOCH], 0, 1))

    def send(self, data: bytes) -> list[Any]:
        replies, events = self.machine.apply(data)
        self.events = decode_all(events)
        self.witness.saw(data, replies, events, self.machine.snapshot())
        return decode_all(replies)

    def all(self, *operations: Any) -> list[Any]:
        """The answers to one batch."""
        return self.send(batch(operations, self.now, self.epoch))

    def one(self, operation: Any) -> list[Any]:
        answer: list[Any] = self.all(operation)[0]
        return answer

    def wait(self, ms: int) -> list[Any]:
        """Let time pass and sweep. Returns the events."""
        self.now += ms
        self.one(TICK)
        return self.events

    def pass_time(self, ms: int) -> None:
        """Let time pass, to be noticed by the next batch only."""
        self.now += ms

    def state(self) -> list[Any]:
        value, _ = decode(self.machine.snapshot())
        state: list[Any] = value
        return state

    def kinds(self) -> list[int]:
        return [event[0] for event in self.events]
