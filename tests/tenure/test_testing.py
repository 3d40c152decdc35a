"""``tenure.testing``: a clock that a test moves, leases that are lost on command, outages.

Knows: what a test of a program sees. Must not know: timers, loops.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tenure
from cluster.limits import WAIT_MAX_S
from tenure.listeners import flush
from tenure.metrics import MemoryMetrics
from tenure.testing import FakeCoordinator, ManualClock, NodeGroup, eventually
from tenure.testing._clock import TIMERS_FEW, ManualEnv

pytestmark = pytest.mark.fast


def in_thread(results: list[Any], call: Any) -> threading.Thread:
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return thread


def test_time_stands_still_until_it_is_moved(tenure_fake: FakeCoordinator) -> None:
    lease = tenure_fake.acquire("job", lease_time=60)
    assert lease is not None
    left = lease.remaining()
    assert lease.remaining() == left
    tenure_fake.clock.advance(timedelta(seconds=30))
    assert lease.remaining() == pytest.approx(left - 30)
    assert tenure_fake.acquire("job") is None
    tenure_fake.clock.advance(30)
    assert lease.lost.is_set()
    assert lease.confidence == "lost"
    following = tenure_fake.acquire("job")
    assert following is not None
    assert following.token > lease.token


def test_an_extended_lease_lives_as_long_as_time_is_moved_and_what_waits_gets_its_turn(
    tenure_fake: FakeCoordinator,
) -> None:
    kept = tenure_fake.acquire("kept", lease_time=3, auto_extend=True)
    tenure_fake.acquire("short", lease_time=10)
    granted: list[Any] = []
    waiting = in_thread(granted, lambda: tenure_fake.acquire("short", wait_time=600))
    eventually(lambda: tenure_fake.state("short").waiters == 1)
    tenure_fake.clock.advance(9.9)
    assert not granted
    tenure_fake.clock.advance(50)
    waiting.join()
    assert granted[0].name == "short"
    assert kept is not None
    assert kept.confidence == "held"


def test_who_waits_is_refused_at_the_end_of_its_wait_and_not_before(tenure_fake: FakeCoordinator) -> None:
    tenure_fake.acquire("job", lease_time=60)
    refused: list[Any] = []
    waiting = in_thread(refused, lambda: tenure_fake.acquire("job", wait_time=20))
    eventually(lambda: tenure_fake.state("job").waiters == 1)
    tenure_fake.clock.advance(19)
    assert not refused
    tenure_fake.clock.advance(2)
    waiting.join()
    assert refused == [None]


@pytest.mark.parametrize("real_time", [False, True])
def test_a_lease_is_lost_on_command_and_its_name_is_free(real_time: bool) -> None:
    coordinator = FakeCoordinator(real_time=real_time)
    taken = coordinator.acquire("job", lease_time=60, auto_extend=True)
    other = coordinator.acquire("other")
    two = [coordinator.acquire("pool", max_leaders=2) for _ in range(2)]
    assert coordinator.lose("job") == 1
    assert taken is not None
    assert taken.lost.is_set()
    assert coordinator.acquire("job") is not None
    assert coordinator.lose("pool", slot=1) == 1
    assert [lease.lost.is_set() for lease in two if lease is not None] == [False, True]
    assert coordinator.lose("nobody-has-it") == 0
    assert other is not None
    assert other.confidence == "held"
    coordinator.close(limit=0)


@pytest.mark.parametrize("real_time", [False, True])
def test_who_stands_in_line_is_granted_what_was_lost_and_keeps_it(real_time: bool) -> None:
    coordinator = FakeCoordinator(real_time=real_time)
    coordinator.acquire("job", lease_time=60)
    granted: list[Any] = []
    waiting = in_thread(granted, lambda: coordinator.acquire("job", wait_time=600))
    eventually(lambda: coordinator.state("job").waiters == 1)
    assert coordinator.lose("job") == 1
    waiting.join()
    assert granted[0].confidence == "held"
    assert coordinator.acquire("job") is None
    coordinator.close(limit=0)


def test_one_lease_of_a_set_is_lost_and_the_others_stay(tenure_fake: FakeCoordinator) -> None:
    taken = tenure_fake.acquire_all(["a", "b"], lease_time=60)
    assert taken is not None
    assert tenure_fake.lose("a") == 1
    assert [lease.confidence for lease in taken] == ["lost", "held"]
    assert tenure_fake.acquire("a") is not None
    assert tenure_fake.acquire("b") is None


def test_an_action_is_cancelled_when_its_lease_is_lost(tenure_fake: FakeCoordinator) -> None:
    async def main() -> Any:
        started = asyncio.Event()

        async def action() -> None:
            started.set()
            await asyncio.Event().wait()

        elector = tenure.AsyncLeaderElector(tenure_fake)
        running = asyncio.ensure_future(elector.run_if_leader_result("job", action))
        await started.wait()
        tenure_fake.lose("job")
        return await running

    assert isinstance(asyncio.run(main()), tenure.LeaseLost)


@pytest.mark.parametrize("elector", [tenure.LeaderElector, tenure.LeaderGroupElector])
def test_metrics_measure_the_time_that_the_test_lets_pass__G1(tenure_fake: FakeCoordinator, elector: Any) -> None:
    metrics = MemoryMetrics()
    elector(tenure_fake, metrics=metrics).for_tenant("acme").run_if_leader("job", lambda: tenure_fake.clock.advance(30))
    assert flush(20)
    assert metrics.observed("held_seconds").total == 30.0
    assert metrics.observed("wait_seconds").total == 0.0


def test_a_watch_tells_a_command_to_lose_from_an_expiry(tenure_fake: FakeCoordinator) -> None:
    watch = tenure_fake.watch("job")
    tenure_fake.acquire("job-1")
    tenure_fake.lose("job-1")
    tenure_fake.acquire("job-2", lease_time=5)
    tenure_fake.clock.advance(7)
    told = [next(watch) for _ in range(4)]
    watch.close()
    assert [(event.kind, event.reason) for event in told if isinstance(event, tenure.LeaseEvent)] == [
        ("granted", ""), ("released", "abandoned"), ("granted", ""), ("expired", "")
    ]  # fmt: skip


def test_an_outage_makes_calls_unavailable_and_ends_leases_and_passes(tenure_fake: FakeCoordinator) -> None:
    def ask() -> Any:
        try:
            return tenure_fake.state("job")
        except tenure.Unavailable as error:
            return error

    def moved_until_answered() -> bool:
        tenure_fake.clock.advance(0.5)
        return bool(answers)

    lease = tenure_fake.acquire("job", lease_time=3, auto_extend=True)
    answers: list[Any] = []
    assert lease is not None
    with tenure_fake.outage():
        asking = in_thread(answers, ask)
        eventually(moved_until_answered)
        asking.join()
        assert isinstance(answers[0], tenure.Unavailable)
        tenure_fake.clock.advance(3)
        assert lease.lost.is_set()
    assert ask().name == "job"
    assert tenure_fake.acquire("job") is not None


def test_two_coordinators_may_share_a_clock() -> None:
    clock = ManualClock()
    with FakeCoordinator(clock) as one, FakeCoordinator(clock) as two:
        leases = [coordinator.acquire("job", lease_time=5) for coordinator in (one, two)]
        clock.advance(6)
        assert all(lease is not None and lease.lost.is_set() for lease in leases)


def test_it_closes_by_itself_while_its_clock_stands_still() -> None:
    coordinator = FakeCoordinator()
    lease = coordinator.acquire("job", lease_time=60)
    coordinator.close(limit=0.05)
    assert lease is not None
    assert lease.lost.is_set()


@pytest.mark.parametrize("seconds", [-0.001, WAIT_MAX_S + 1, float("nan"), "1"])
def test_a_clock_is_moved_forwards_only(seconds: Any) -> None:
    with pytest.raises(tenure.UsageError, match="seconds"):
        ManualClock().advance(seconds)


def test_a_clock_is_moved_as_far_as_a_wait_may_last() -> None:
    clock = ManualClock()
    before = clock.now()
    clock.advance(WAIT_MAX_S)
    assert clock.now() == before + WAIT_MAX_S


def test_a_clock_is_not_moved_from_within(tenure_fake: FakeCoordinator) -> None:
    errors: list[Exception] = []

    def move() -> None:
        try:
            tenure_fake.clock.advance(1)
        except tenure.UsageError as error:
            errors.append(error)

    lease = tenure_fake.acquire("job", lease_time=5)
    assert lease is not None
    lease.lost.on_set(move)
    tenure_fake.lose("job")
    eventually(lambda: errors)
    assert "from the test" in str(errors[0])


@pytest.mark.parametrize("disturb", ["lose", "outage"])
def test_nothing_is_disturbed_from_within_and_nothing_hangs(tenure_fake: FakeCoordinator, disturb: str) -> None:
    errors: list[Exception] = []

    def again() -> None:
        try:
            if disturb == "lose":
                tenure_fake.lose("other")
            else:
                with tenure_fake.outage():
                    """It is refused before."""
        except tenure.UsageError as error:
            errors.append(error)

    lease = tenure_fake.acquire("job")
    assert lease is not None
    lease.lost.on_set(again)
    losing = threading.Thread(target=tenure_fake.lose, args=("job",), daemon=True)
    losing.start()
    losing.join(10)
    assert not losing.is_alive()
    assert "I/O thread" in str(errors[0])


def test_an_outage_lasts_until_the_last_of_those_who_asked_for_it_is_done() -> None:
    with FakeCoordinator(real_time=True, timeout=timedelta(seconds=0.1)) as coordinator:
        with coordinator.outage():
            with coordinator.outage():
                """One within the other."""
            with pytest.raises(tenure.Unavailable):
                coordinator.acquire("job")
        lease = coordinator.acquire("job", timeout=10)
        assert lease is not None
        lease.release()


def test_a_closed_coordinator_is_not_disturbed_and_may_be_closed_in_an_outage() -> None:
    coordinator = FakeCoordinator()
    with coordinator.outage():
        coordinator.close(limit=0)
    with pytest.raises(tenure.UsageError, match="closed"):
        coordinator.lose("job")
    with pytest.raises(tenure.UsageError, match="closed"), coordinator.outage():
        """It is refused before."""


def test_timers_that_were_cancelled_are_not_kept_while_time_stands_still(tenure_fake: FakeCoordinator) -> None:
    for _ in range(10 * TIMERS_FEW):
        lease = tenure_fake.acquire("job", auto_extend=True)
        assert lease is not None
        lease.release()
    env = tenure_fake._io.env
    assert isinstance(env, ManualEnv)
    assert len(env._timers) <= 3 * TIMERS_FEW
    held = tenure_fake.acquire("job", lease_time=5)
    assert held is not None
    tenure_fake.clock.advance(6)
    assert held.lost.is_set()


def test_a_signal_handler_cannot_move_the_clock_that_is_being_moved(tenure_fake: FakeCoordinator) -> None:
    errors: list[Exception] = []

    def handler(number: int, frame: object) -> None:
        try:
            tenure_fake.clock.advance(1)
        except tenure.UsageError as error:
            errors.append(error)

    def signalled() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        eventually(lambda: errors)

    lease = tenure_fake.acquire("job", lease_time=5)
    assert lease is not None
    # The clock is under way then, and stays so until the handler has run.
    lease.lost.on_set(signalled)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        tenure_fake.clock.advance(6)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "already" in str(errors[0])


@pytest.mark.parametrize(
    "given",
    [
        {"clock": 5},
        {"clock": ManualClock},
        {"real_time": "no"},
        {"real_time": True, "clock": ManualClock()},
        {"timeout": -1},
    ],
)
def test_a_fake_coordinator_of_bad_arguments_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(tenure.UsageError, match=next(iter(given))):
        FakeCoordinator(**given)


@pytest.mark.parametrize(
    "given", [{"size": 0}, {"size": "3"}, {"size": True}, {"options": "--single"}, {"directory": "/no/such/place"}]
)
def test_a_raft_group_of_bad_arguments_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(tenure.UsageError, match=next(iter(given))):
        NodeGroup(**{"directory": str(tmp_path), **given})


def test_what_does_not_run_is_not_frozen_and_what_is_no_node_is_said(tmp_path: Path) -> None:
    group = NodeGroup(tmp_path, size=1)
    with pytest.raises(AssertionError, match="does not run"):
        group.nodes[0].pause()
    with pytest.raises(tenure.UsageError, match="no node of this group"):
        group.node("127.0.0.1:1")
    with pytest.raises(AssertionError, match="never true"):
        eventually(lambda: False, float("nan"), "never true")
