"""One coordinator, many threads and loops: no cross-talk, no lost wake-up, interrupts that leave nothing (D1, D3, D5).

Knows: threads, loops, signals. Must not know: how results travel.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

import tenure
from cluster.client import Coordinator, Extended, Lease
from cluster.errors import LeaseLostError, UsageError
from tests.client.support import counts
from tests.support import eventually

pytestmark = pytest.mark.fast


@pytest.fixture
def coordinator(tenure_local: Coordinator) -> Iterator[Coordinator]:
    yield tenure_local
    eventually(lambda: not counts(tenure_local), 5, f"something is left: {counts(tenure_local)}")


def run_all(works: list[Callable[[], None]]) -> None:
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_ten_threads_and_a_hundred_tasks_share_one_coordinator__D5(coordinator: Coordinator) -> None:
    tokens: dict[str, list[int]] = {}

    def blocking(thread: int) -> None:
        name = f"thread/{thread}"
        for _ in range(40):
            lease = coordinator.acquire(name, lease_time=30)
            assert lease is not None
            assert lease.name == name
            assert coordinator.acquire(name) is None
            tokens.setdefault(name, []).append(lease.token)
            assert lease.release() is True

    async def one(task: str) -> None:
        for _ in range(5):
            lease = await coordinator.aio.acquire(task, lease_time=30)
            assert lease is not None
            assert lease.name == task
            state = await coordinator.aio.state(task)
            assert state.leader is not None
            assert state.leader.token == lease.token
            tokens.setdefault(task, []).append(lease.token)
            assert await lease.release() is True

    def tasks(thread: int) -> None:
        async def many() -> None:
            await asyncio.gather(*(one(f"task/{thread}/{n}") for n in range(50)))

        asyncio.run(many())

    run_all([*(lambda n=n: blocking(n) for n in range(10)), *(lambda n=n: tasks(n) for n in range(2))])
    assert len(tokens) == 110
    for found in tokens.values():
        assert found == sorted(set(found))
    every = [token for found in tokens.values() for token in found]
    assert len(set(every)) == len(every)


def test_contending_threads_never_overlap__I1(coordinator: Coordinator) -> None:
    inside = 0
    most = 0
    done = 0

    def contend() -> None:
        nonlocal inside, most, done
        for _ in range(30):
            with _taken(coordinator):
                inside += 1
                most = max(most, inside)
                inside -= 1
                done += 1

    run_all([contend] * 8)
    assert (most, done) == (1, 240)


def _taken(coordinator: Coordinator) -> Lease:
    lease = coordinator.acquire("one", lease_time=30, wait_time=30)
    assert lease is not None
    return lease


def test_a_blocking_call_on_the_io_thread_is_refused(coordinator: Coordinator) -> None:
    lease = coordinator.acquire("job", lease_time=0.3)
    assert lease is not None
    found: list[str] = []

    def on_io_thread() -> None:
        for call in (lambda: coordinator.acquire("x"), lambda: coordinator.state("x"), lease.release, lease.extend, coordinator.close):
            with pytest.raises(UsageError, match="I/O thread"):
                call()
            found.append("refused")

    lease.lost.on_set(on_io_thread)
    eventually(lambda: len(found) == 5, 3, "the refusals")


def test_threads_and_tasks_wait_for_the_loss__A2(coordinator: Coordinator) -> None:
    lease = coordinator.acquire("job", lease_time=0.4)
    assert lease is not None
    deadline = time.monotonic() + lease.remaining()
    seen: list[tuple[bool, float]] = []

    def wait() -> None:
        seen.append((lease.lost.wait(), time.monotonic()))

    def wait_in_loop() -> None:
        seen.append((asyncio.run(lease.lost.wait_async()), time.monotonic()))

    run_all([wait, wait, wait_in_loop])
    assert all(lost for lost, _ in seen)
    assert all(deadline - 0.01 <= at < deadline + 0.5 for _, at in seen)
    with pytest.raises(LeaseLostError):
        lease.check()


def test_waiting_for_the_loss_has_a_timeout_and_ends_with_the_release(coordinator: Coordinator) -> None:
    lease = coordinator.acquire("job", lease_time=30)
    assert lease is not None
    started = time.monotonic()
    assert lease.lost.wait(0.05) is False
    assert time.monotonic() - started < 1
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(lease.lost.wait()))
    thread.start()
    assert isinstance(lease.extend(), Extended)
    lease.release()
    thread.join(2)
    assert seen == [False]


def test_an_interrupt_while_waiting_for_a_grant_leaves_nothing__D1(coordinator: Coordinator) -> None:
    blocker = coordinator.acquire("job", lease_time=30)
    assert blocker is not None
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        coordinator.acquire("job", wait_time=20)
    assert time.monotonic() - started < 2
    timer.join()
    eventually(lambda: not coordinator.state("job").waiters, 2, "the waiter is gone")
    blocker.release()
    assert coordinator.state("job").leader is None


def test_signals_are_handled_while_a_thread_waits__D1(coordinator: Coordinator) -> None:
    blocker = coordinator.acquire("job", lease_time=30)
    assert blocker is not None
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        timer = threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1))
        timer.start()
        assert coordinator.acquire("job", wait_time=0.4) is None
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]
    blocker.release()


def test_a_grant_for_a_loop_that_was_closed_is_given_back__D3(coordinator: Coordinator) -> None:
    loop = asyncio.new_event_loop()
    blocker = coordinator.acquire("job", lease_time=30)
    assert blocker is not None
    coroutine = coordinator.aio.acquire("job", wait_time=20)
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0))
    eventually(lambda: coordinator.state("job").waiters, 2, "it stands in line")
    # Closed under a task, as a program does that forgets it.
    loop.close()
    blocker.release()
    eventually(lambda: not coordinator.state("job").leader and not coordinator.state("job").waiters, 3, "the grant is given back")
    # The task is never run again: say so to those who would complain about it.
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine.close()


def test_many_loops_come_and_go_without_a_trace(coordinator: Coordinator) -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def use() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        lease = await coordinator.aio.acquire("job")
        assert lease is not None
        await lease.release()

    for _ in range(20):
        asyncio.run(use())
    gc.collect()
    assert sum(ref() is not None for ref in loops) <= 1


def test_the_thread_ends_with_the_coordinator() -> None:
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "tenure-local"]

    before = len(threads())
    opened = tenure.local()
    assert len(threads()) == before + 1
    opened.acquire("job")
    opened.close(limit=0)
    opened.close()
    assert len(threads()) == before
    with pytest.raises(UsageError, match="closed"):
        opened.acquire("job")


def test_close_from_a_loop_and_with_many_closers() -> None:
    opened = tenure.local()

    async def use() -> None:
        async with opened.aio as aio:
            lease = await aio.acquire("job")
            assert lease is not None
            await lease.release()
        await asyncio.gather(opened.aio.close(), opened.aio.close())

    asyncio.run(use())
    run_all([opened.close] * 4)


def test_a_storm_of_threads_finishes(coordinator: Coordinator) -> None:
    # A lost wake-up would leave a thread waiting for its timeout.
    def storm() -> None:
        for _ in range(150):
            coordinator.state("anything", timeout=20)

    started = time.monotonic()
    run_all([storm] * 16)
    assert time.monotonic() - started < 15
