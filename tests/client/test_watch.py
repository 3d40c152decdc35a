"""Watching from threads and tasks: nothing is missed, nothing is left, closing ends it (D9).

Knows: a coordinator on a node of one process. Must not know: frames.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

import tenure
from cluster.client import Coordinator, LeaseEvent, WatchGap
from cluster.errors import Unavailable, UsageError
from cluster.server import events as events_module
from tests.client.support import counts
from tests.support import eventually

pytestmark = pytest.mark.fast


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    with tenure.local() as opened:
        yield opened
        eventually(lambda: not counts(opened), 5, f"something is left: {counts(opened)}")


def hold(coordinator: Coordinator, name: str) -> None:
    lease = coordinator.acquire(name)
    assert lease is not None
    assert lease.release()


def kinds(watch: Iterator[LeaseEvent | WatchGap], count: int) -> list[str]:
    return [next(watch).kind for _ in range(count)]


def test_a_watch_goes_on_where_another_stopped__D9(coordinator: Coordinator) -> None:
    with coordinator.watch("a/") as watch:
        begun = watch.sequence
        for name in ("a/1", "b/1", "a/2"):
            hold(coordinator, name)
        first = next(watch)
        assert isinstance(first, LeaseEvent)
        assert (first.kind, first.name, first.slot, watch.sequence) == ("granted", "a/1", 0, first.sequence)
    with coordinator.watch("a/", after=watch.sequence) as again:
        rest = [again.next(10) for _ in range(3)]
        assert [(told.kind, told.name) for told in rest if isinstance(told, LeaseEvent)] == [
            ("released", "a/1"),
            ("granted", "a/2"),
            ("released", "a/2"),
        ]
        assert again.next(0.01) is None
    numbers = [told.sequence for told in (first, *rest) if told is not None]
    assert numbers == [begun + 1, begun + 2, begun + 5, begun + 6]


def test_what_is_not_asked_for_moves_the_watch_on_too(coordinator: Coordinator) -> None:
    with coordinator.watch("a/") as watch:
        begun = watch.sequence
        hold(coordinator, "a/1")
        hold(coordinator, "b/1")
        assert kinds(watch, 2) == ["granted", "released"]
        assert watch.sequence == begun + 4
        hold(coordinator, "b/2")
        hold(coordinator, "a/2")
        assert watch.next(10) is not None
        assert watch.sequence in (begun + 7, begun + 8)


def test_steps_block_until_something_happens_and_end_when_another_thread_closes(coordinator: Coordinator) -> None:
    watch = coordinator.watch()
    told: list[LeaseEvent | WatchGap] = []
    thread = threading.Thread(target=lambda: told.extend(watch))
    thread.start()
    hold(coordinator, "job")
    eventually(lambda: len(told) == 2, what="both events")
    watch.close()
    watch.close()
    thread.join(10)
    assert not thread.is_alive()
    assert (list(watch), watch.next(5), watch.closed) == ([], None, True)


def test_two_threads_share_a_watch_and_each_event_goes_to_one_of_them(coordinator: Coordinator) -> None:
    told: list[int] = []
    with coordinator.watch() as watch:
        threads = [threading.Thread(target=lambda: told.extend(each.sequence for each in watch)) for _ in range(2)]
        for thread in threads:
            thread.start()
        begun = watch.sequence
        for number in range(50):
            hold(coordinator, f"job/{number}")
        eventually(lambda: len(told) == 100, 20, "every event")
        assert sorted(told) == list(range(begun + 1, begun + 101))
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_a_coordinator_that_closes_ends_its_watches_at_once() -> None:
    coordinator = tenure.local()
    watch = coordinator.watch()
    errors: list[BaseException] = []

    def step() -> None:
        try:
            next(watch)
        except Unavailable as error:
            errors.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    eventually(lambda: coordinator._port.engine.attempts, what="it waits")
    coordinator.close()
    thread.join(10)
    assert len(errors) == 1
    with pytest.raises(UsageError, match="closed"):
        next(watch)
    with pytest.raises(UsageError, match="closed"):
        coordinator.watch(after=1)


def test_who_is_too_slow_is_told_of_the_gap(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    with coordinator.watch() as watch:
        begun = watch.sequence
        monkeypatch.setattr(events_module, "EVENTS_KEPT_MAX_BYTES", 2000)
        for number in range(40):
            hold(coordinator, f"job/{number}")
        gap = next(watch)
        assert isinstance(gap, WatchGap)
        assert (gap.after, gap.kind) == (begun, "gap")
        assert begun < gap.sequence < begun + 80
        assert watch.sequence == gap.sequence
        numbers = [next(watch).sequence for _ in range(begun + 80 - gap.sequence)]
        assert numbers == list(range(gap.sequence + 1, begun + 81))


def test_an_interrupted_step_loses_nothing(coordinator: Coordinator) -> None:
    interrupts = 0
    with coordinator.watch() as watch:
        for _ in range(5):
            timer = threading.Timer(
                0.05, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            )
            try:
                timer.start()
                next(watch)
            except KeyboardInterrupt:
                interrupts += 1
            timer.join()
        hold(coordinator, "job")
        assert kinds(watch, 2) == ["granted", "released"]
    assert interrupts == 5


def test_a_step_whose_turn_does_not_come_ends_in_its_time(coordinator: Coordinator) -> None:
    with coordinator.watch() as watch:
        told: list[LeaseEvent | WatchGap] = []
        first = threading.Thread(target=lambda: told.extend(watch), daemon=True)
        first.start()
        eventually(lambda: counts(coordinator), what="a step under way")
        found: list[object] = []
        second = threading.Thread(target=lambda: found.append(watch.next(0.01)), daemon=True)
        second.start()
        second.join(10)
        assert found == [None]
        hold(coordinator, "job")
        eventually(lambda: len(told) == 2, what="both events, for the first")
    first.join(10)
    assert not first.is_alive()


def test_a_step_in_a_signal_handler_during_a_step_is_refused_and_harms_none(coordinator: Coordinator) -> None:
    refused: list[BaseException] = []

    def handler(number: int, frame: object) -> None:
        try:
            watch.next(10)
        except UsageError as error:
            refused.append(error)
        hold(coordinator, "job")

    with coordinator.watch() as watch:
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            assert kinds(watch, 2) == ["granted", "released"]
        finally:
            signal.signal(signal.SIGALRM, before)
    assert len(refused) == 1


def test_a_forked_child_is_refused(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    with coordinator.watch() as watch:
        hold(coordinator, "job")
        next(watch)
        monkeypatch.setattr(coordinator._port.engine, "process", -1)
        # What is here already is refused too: the parent has it.
        with pytest.raises(UsageError, match="fork"):
            next(watch)
        monkeypatch.undo()
        assert next(watch).kind == "released"


def test_a_watch_that_nobody_has_any_more_leaves_nothing(coordinator: Coordinator) -> None:
    watch = coordinator.watch("nothing")
    assert watch.next(0.01) is None
    assert counts(coordinator)["attempts"] == 1
    del watch
    gc.collect()
    eventually(lambda: not counts(coordinator), what="its request is withdrawn")


def test_extensions_are_told_on_request(coordinator: Coordinator) -> None:
    with coordinator.watch("job", extended=True) as every, coordinator.watch("job") as plain:
        lease = coordinator.acquire("job", lease_time=5)
        assert lease is not None
        lease.extend(60)
        lease.extend(1)
        lease.release()
        assert kinds(every, 3) == ["granted", "extended", "released"]
        assert kinds(plain, 2) == ["granted", "released"]


def test_a_cancelled_step_loses_nothing_and_leaves_nothing(coordinator: Coordinator) -> None:
    async def story() -> list[str]:
        async with await coordinator.aio.watch("job") as watch:
            for _ in range(20):
                step = asyncio.create_task(watch.next())
                await asyncio.sleep(0)
                step.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await step
            assert await watch.next(timedelta(milliseconds=5)) is None
            lease = await coordinator.aio.acquire("job")
            assert lease is not None
            waiting = asyncio.create_task(watch.next(10))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await lease.release()
            return [(await watch.__anext__()).kind for _ in range(2)]

    assert asyncio.run(story()) == ["granted", "released"]


def test_an_async_watch_ends_when_it_is_closed(coordinator: Coordinator) -> None:
    async def story() -> None:
        watch = await coordinator.aio.watch()

        async def collect() -> list[LeaseEvent | WatchGap]:
            return [told async for told in watch]

        collecting = asyncio.create_task(collect())
        await asyncio.sleep(0)
        await watch.close()
        assert await asyncio.wait_for(collecting, 10) == []

    asyncio.run(story())


@pytest.mark.parametrize("after", [-1, 1 << 63, True, 1.0, "7"])
def test_what_is_no_number_of_an_event_is_refused(coordinator: Coordinator, after: object) -> None:
    with pytest.raises(UsageError, match="after"):
        coordinator.watch(after=after)  # type: ignore[arg-type]


def test_bad_arguments_are_refused(coordinator: Coordinator) -> None:
    with pytest.raises(UsageError, match="prefix"):
        coordinator.watch("/")
    with pytest.raises(UsageError, match="extended"):
        coordinator.watch(extended=1)  # type: ignore[arg-type]
    with coordinator.watch(after=(1 << 63) - 1) as watch:
        with pytest.raises(UsageError, match="timeout"):
            watch.next(0)
        gap = next(watch)
        assert isinstance(gap, WatchGap)
        assert gap.sequence < gap.after


def test_a_step_that_was_begun_on_another_loop_is_refused_and_waits_not_for_ever(coordinator: Coordinator) -> None:
    watch = asyncio.run(coordinator.aio.watch())
    assert asyncio.run(watch.next(0.01)) is None
    with pytest.raises(UsageError, match="another event loop"):
        asyncio.run(asyncio.wait_for(watch.next(), 10))
    asyncio.run(watch.close())
