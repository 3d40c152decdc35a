"""Wait queues: order of arrival, one proposal at a time per name, nobody unheard is proposed."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from cluster.server.waiters import Waiter, WaitQueues

pytestmark = pytest.mark.fast


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Clockwork:
    """The part of an Env that the queues use, in virtual time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._due: list[tuple[float, int, Timer, Callable[..., Any], tuple[Any, ...]]] = []

    def clock(self) -> float:
        return self.now

    def call_later(self, delay_s: float, fn: Callable[..., Any], *args: Any) -> Timer:
        timer = Timer()
        heapq.heappush(self._due, (self.now + delay_s, next(self._order), timer, fn, args))
        return timer

    def call_soon(self, fn: Callable[..., Any], *args: Any) -> Timer:
        return self.call_later(0.0, fn, *args)

    def run_until(self, when: float) -> None:
        while self._due and self._due[0][0] <= when:
            at, _, timer, fn, args = heapq.heappop(self._due)
            self.now = max(self.now, at)
            if not timer.cancelled:
                fn(*args)
        self.now = when

    def pending(self) -> int:
        return sum(not timer.cancelled for _, _, timer, _, _ in self._due)


class Host:
    def __init__(self, env: Clockwork) -> None:
        self.env = env
        self.free_at: dict[bytes, float] = {}
        self.silent: set[int] = set()
        self.proposed: list[Waiter] = []
        self.told: list[tuple[str, Waiter]] = []

    def alive(self, waiter: Waiter) -> bool:
        return waiter.conn_id not in self.silent

    def free_in_s(self, waiter: Waiter, name: bytes) -> float:
        return self.free_at.get(name, 0.0) - self.env.now

    def propose(self, waiter: Waiter) -> None:
        self.proposed.append(waiter)

    def unheard(self, waiter: Waiter) -> None:
        self.told.append(("unheard", waiter))

    def timed_out(self, waiter: Waiter) -> None:
        self.told.append(("timed out", waiter))


class Bench:
    def __init__(self) -> None:
        self.env = Clockwork()
        self.host = Host(self.env)
        self.waited: set[bytes] = set()
        self.queues = WaitQueues(self.env, self.host, self.waited)  # type: ignore[arg-type]
        self._ids = count(1)

    def arrive(self, *names: bytes, conn: int = 1, wait_s: float = 60.0) -> Waiter:
        number = next(self._ids)
        waiter = Waiter(conn, number, number.to_bytes(16, "big"), names, 1, b"", self.env.now + wait_s)
        self.queues.arrive(waiter)
        return waiter

    def grant(self, waiter: Waiter, until: float) -> None:
        for name in waiter.names:
            self.host.free_at[name] = until
        self.queues.remove(waiter)
        self.env.run_until(self.env.now)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_first_come_first_served_also_while_a_first_try_is_under_way(bench: Bench) -> None:
    first, second, third = bench.arrive(b"job"), bench.arrive(b"job"), bench.arrive(b"job")
    assert bench.host.proposed == [first]
    bench.grant(first, until=5.0)
    assert bench.host.proposed == [first]
    bench.env.run_until(4.9)
    assert bench.host.proposed == [first]
    bench.env.run_until(5.0)
    assert bench.host.proposed == [first, second]
    bench.grant(second, until=7.0)
    bench.host.free_at[b"job"] = 6.0
    bench.queues.freed([b"job"])
    bench.env.run_until(6.0)
    assert bench.host.proposed == [first, second, third]


def test_one_waiter_is_proposed_for_one_freed_slot__F3(bench: Bench) -> None:
    bench.host.free_at[b"job"] = 10.0
    waiters = [bench.arrive(b"job") for _ in range(5)]
    bench.host.free_at[b"job"] = 0.0
    bench.queues.freed([b"job"])
    bench.queues.freed([b"job"])
    assert bench.host.proposed == waiters[:1]


def test_who_times_out_is_told_and_leaves_no_trace__C4(bench: Bench) -> None:
    bench.host.free_at[b"job"] = 100.0
    waiter = bench.arrive(b"job", wait_s=2.0)
    bench.env.run_until(2.0)
    assert bench.host.told == [("timed out", waiter)]
    bench.env.run_until(2.0)
    assert bench.queues.count == 0
    assert not bench.waited
    assert bench.env.pending() == 0


def test_time_running_out_during_the_proposal_leaves_the_decision_to_the_table(bench: Bench) -> None:
    waiter = bench.arrive(b"job", wait_s=1.0)
    bench.env.run_until(2.0)
    assert bench.host.told == []
    bench.queues.refused(waiter)
    assert bench.host.told == [("timed out", waiter)]


def test_who_is_not_heard_is_not_proposed__A1(bench: Bench) -> None:
    bench.host.free_at[b"job"] = 3.0
    silent, live = bench.arrive(b"job", conn=1), bench.arrive(b"job", conn=2)
    bench.host.silent.add(1)
    bench.env.run_until(3.0)
    assert bench.host.proposed == [live]
    assert bench.host.told == [("unheard", silent)]


def test_a_closed_connection_leaves_every_queue__C4(bench: Bench) -> None:
    bench.host.free_at = {b"a": 9.0, b"b": 9.0}
    bench.arrive(b"a", b"b", conn=1)
    bench.arrive(b"b", conn=1)
    behind = bench.arrive(b"b", conn=2)
    bench.queues.drop_connection(1)
    bench.env.run_until(9.0)
    assert bench.host.proposed == [behind]
    assert bench.queues.count == 1


def test_acquire_all_is_proposed_when_first_in_all_its_queues(bench: Bench) -> None:
    bench.host.free_at = {b"a": 1.0}
    single = bench.arrive(b"a")
    both = bench.arrive(b"a", b"b")
    late = bench.arrive(b"b")
    assert bench.host.proposed == []
    bench.env.run_until(1.0)
    assert bench.host.proposed == [single]
    bench.grant(single, until=2.0)
    bench.env.run_until(2.0)
    assert bench.host.proposed == [single, both]
    bench.grant(both, until=3.0)
    bench.env.run_until(3.0)
    assert bench.host.proposed == [single, both, late]


def test_a_refused_waiter_keeps_its_place(bench: Bench) -> None:
    first, second = bench.arrive(b"job"), bench.arrive(b"job")
    bench.host.free_at[b"job"] = 4.0
    bench.queues.refused(first)
    bench.env.run_until(4.0)
    assert bench.host.proposed == [first, first]
    assert bench.queues.first(b"job") is first
    assert second.proposed is False


def test_draining_gives_back_all_and_stops_the_timers(bench: Bench) -> None:
    bench.host.free_at[b"b"] = 5.0
    waiters = {bench.arrive(b"a"), bench.arrive(b"b"), bench.arrive(b"b")}
    assert set(bench.queues.drain()) == waiters
    assert bench.queues.count == 0
    assert not bench.waited
    assert bench.env.pending() == 0


def test_a_connection_with_many_waiters_ends_at_a_cost_of_each__G5(bench: Bench) -> None:
    """And not of each with all who stand in the same line: that took seconds of one turn."""
    bench.host.free_at[b"a"] = 1e9
    for conn in (1, 2):
        for _ in range(8_000):
            bench.arrive(b"a", conn=conn)
    began = time.process_time()
    bench.queues.drop_connection(2)
    assert time.process_time() - began < 0.3
    assert bench.queues.length(b"a") == 8_000


def test_those_who_come_next_after_many_have_left_are_looked_at_in_slices__G5(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.server.waiters.SLICE_S", 0.0)
    names = [b"n%d" % number for number in range(20)]
    for conn in (1, 2):
        for name in names:
            bench.arrive(name, name + b"x", conn=conn)
    assert len(bench.host.proposed) == 20
    bench.queues.drop_connection(1)
    assert bench.env.pending() == 1 + 20, "once for all names, and the waits"
    bench.env.run_until(bench.env.now)
    assert len(bench.host.proposed) == 40
