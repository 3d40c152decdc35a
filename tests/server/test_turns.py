"""Whose request is answered next: all together have one slice of a turn, round robin, and an error costs nobody its place for good.

Knows: a loop and a clock that are moved by hand. Must not know: requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from cluster.ports import Env
from cluster.server.turns import SLICE_S, Turns

pytestmark = pytest.mark.fast


class Loop:
    """See ``ports.Env``: each look at the clock costs a share of a slice."""

    def __init__(self, looks_in_a_slice: int) -> None:
        self.now = 0.0
        self._cost_s = SLICE_S / looks_in_a_slice
        self._soon: list[Callable[[], None]] = []

    def clock(self) -> float:
        self.now += self._cost_s
        return self.now

    def call_soon(self, fn: Callable[..., None], *args: Any) -> None:
        self._soon.append(lambda: fn(*args))

    def turn(self) -> bool:
        """One turn of the loop. Whether there was anything to do."""
        soon, self._soon = self._soon, []
        for call in soon:
            call()
        return bool(soon)

    def turns(self) -> None:
        """Until there is nothing to do."""
        while self.turn():
            pass


class Client:
    queued = False

    def __init__(self, name: str, log: list[str], requests: int) -> None:
        self.name, self.left, self._log = name, requests, log
        self.fails = False

    def step(self) -> bool:
        if self.fails:
            self.fails = False
            raise ZeroDivisionError
        self._log.append(self.name)
        self.left -= 1
        return self.left > 0


def crowd(looks_in_a_slice: int, *requests: int) -> tuple[Loop, Turns, list[str], list[Client]]:
    loop = Loop(looks_in_a_slice)
    log: list[str] = []
    return (
        loop,
        Turns(cast(Env, loop)),
        log,
        [Client(name, log, each) for name, each in zip("abc", requests, strict=True)],
    )


def test_all_together_have_one_slice_of_a_turn_round_robin() -> None:
    loop, turns, log, clients = crowd(6, 40, 40, 40)
    for client in clients:
        turns.serve(client)
    begun = len(log)
    assert begun <= 7, "the first slice is for all too"
    while all(client.left > 10 for client in clients):
        before = len(log)
        assert loop.turn()
        now = log[before:]
        assert 3 <= len(now) <= 7, now
        assert max(map(now.count, "abc")) - min(map(now.count, "abc")) <= 1, now
    loop.turns()
    assert [client.left for client in clients] == [0, 0, 0]
    assert not any(client.queued for client in clients)


def test_who_is_alone_is_served_at_once_without_a_turn_of_the_loop() -> None:
    _, turns, log, (one, _, _) = crowd(6, 3, 0, 0)
    turns.serve(one)
    assert log == ["a"] * 3
    assert not one.queued


def test_who_failed_once_is_served_again() -> None:
    loop, turns, _, (one, other, _) = crowd(1, 3, 3, 0)
    turns.serve(one)
    turns.serve(other)
    failing = next(client for client in (one, other) if client.queued)
    failing.fails = True
    with pytest.raises(ZeroDivisionError):
        loop.turns()
    assert not failing.queued
    turns.serve(failing)
    loop.turns()
    assert failing.left == 0
