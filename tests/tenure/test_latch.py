"""Latches: callbacks that misbehave, closes from inside, coordinators that close, loops that end (D3, D9).

Knows: the public latches, a coordinator of one process. Must not know: the rounds of a latch. What holds for every coordinator is in
tests/contract/test_latch.py.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Generator
from typing import Any

import pytest

import tenure
from tenure import AsyncLeaderLatch, ElectionOptions, LeaderLatch, UsageError
from tenure._background import background
from tests.support import eventually
from tests.tenure.support_tasks import turns, waiting

WITHIN_S = 10.0


def is_free(coordinator: Any) -> bool:
    state = coordinator.state("job", consistent=True)
    return (state.leader, state.waiters) == (None, 0)


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3)])
def test_a_callback_that_raises_is_logged_and_harmless__D9(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def raising(_: Any) -> None:
        raise error

    with tenure.local() as coordinator:
        with LeaderLatch(coordinator, on_elected=raising, on_lost=raising) as latch:
            latch.start("job")
            assert latch.wait(WITHIN_S)
        assert is_free(coordinator)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["latch.callback_raised"] * 2


def test_a_cancellation_of_a_callbacks_own_is_logged_and_harmless__D9(caplog: pytest.LogCaptureFixture) -> None:
    async def cancelled(_: Any) -> None:
        inner = asyncio.ensure_future(waiting())
        inner.cancel()
        await inner

    async def main(coordinator: Any) -> None:
        async with AsyncLeaderLatch(coordinator, on_elected=cancelled, on_lost=cancelled) as latch:
            await latch.start("job")
            assert await latch.wait(WITHIN_S)
            await asyncio.to_thread(eventually, lambda: caplog.records, WITHIN_S)
            assert latch.is_leader

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))
        assert is_free(coordinator)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["latch.callback_raised"] * 2


@pytest.mark.parametrize("which", ["on_elected", "on_lost"])
def test_a_latch_can_be_closed_by_its_own_callbacks(which: str) -> None:
    over = threading.Event()

    def close(_: Any) -> None:
        latch.close()
        over.set()

    callback: dict[str, Any] = {which: close}
    with tenure.local() as coordinator:
        latch = LeaderLatch(coordinator, **callback)
        latch.start("job")
        if which == "on_lost":
            assert latch.wait(WITHIN_S)
            latch.close()
        assert over.wait(WITHIN_S)
        eventually(lambda: is_free(coordinator), WITHIN_S)
        latch.close()
        assert not latch.wait(0)


@pytest.mark.parametrize("by", ["itself", "its task"])
@pytest.mark.parametrize("which", ["on_elected", "on_lost"])
def test_an_asyncio_latch_can_be_closed_by_its_own_callbacks(which: str, by: str) -> None:
    async def main(coordinator: Any) -> None:
        over = asyncio.Event()

        async def close(_: Any) -> None:
            await (latch.close() if by == "itself" else asyncio.gather(latch.close()))
            over.set()

        callback: dict[str, Any] = {which: close}
        latch = AsyncLeaderLatch(coordinator, **callback)
        await latch.start("job")
        if which == "on_lost":
            assert await latch.wait(WITHIN_S)
            await latch.close()
        await asyncio.wait_for(over.wait(), WITHIN_S)
        await latch.close()

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))
        assert is_free(coordinator)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_an_eager_callback_can_close_its_latch() -> None:
    async def main(coordinator: Any) -> None:
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009
        over = asyncio.Event()

        async def close(_: Any) -> None:
            await latch.close()
            over.set()

        latch = AsyncLeaderLatch(coordinator, on_elected=close)
        await latch.start("job")
        await asyncio.wait_for(over.wait(), WITHIN_S)
        await latch.close()

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))
        assert is_free(coordinator)


def test_a_closed_coordinator_ends_the_latch_that_leads_and_the_one_that_waits() -> None:
    told: list[str] = []
    coordinator = tenure.local()
    one = LeaderLatch(coordinator, on_lost=lambda lease: told.append("lost"))
    one.start("job")
    assert one.wait(WITHIN_S)
    other = LeaderLatch(coordinator)
    other.start("job")
    eventually(lambda: coordinator.state("job").waiters == 1, WITHIN_S)
    coordinator.close()
    assert one.wait(WITHIN_S) is False
    assert other.wait(WITHIN_S) is False
    assert told == ["lost"]
    for latch in (one, other):
        latch.close()


def test_a_latch_whose_loop_ends_gives_its_name_back__D3() -> None:
    told: list[str] = []

    async def main(coordinator: Any) -> None:
        latch = AsyncLeaderLatch(coordinator, on_lost=lambda lease: told.append("lost"))
        await latch.start("job")
        assert await latch.wait(WITHIN_S)

    with tenure.local() as coordinator:
        # ``asyncio.run`` cancels the latch's task at its end.
        asyncio.run(main(coordinator))
        assert told == ["lost"]
        eventually(lambda: is_free(coordinator), WITHIN_S)


def test_a_latch_that_waits_when_its_loop_ends_leaves_nobody_in_line__C4() -> None:
    async def main(coordinator: Any) -> None:
        latch = AsyncLeaderLatch(coordinator)
        await latch.start("job")
        await asyncio.to_thread(eventually, lambda: coordinator.state("job").waiters == 1, WITHIN_S)

    with tenure.local() as coordinator, tenure.LeaderElector(coordinator).leading("job") as lease:
        asyncio.run(main(coordinator))
        eventually(lambda: coordinator.state("job", consistent=True).waiters == 0, WITHIN_S)
        lease.check()


def test_a_wait_that_is_cancelled_leaves_the_latch_alone__rule_5() -> None:
    async def main(coordinator: Any) -> None:
        async with AsyncLeaderLatch(coordinator) as latch:
            lease = await coordinator.aio.acquire("job")
            await latch.start("job")
            waiting = asyncio.ensure_future(latch.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await lease.release()
            assert await latch.wait(WITHIN_S)

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))
        assert is_free(coordinator)


def test_a_wait_that_is_cancelled_as_its_latch_is_elected_is_cancelled__rule_5() -> None:
    async def main(coordinator: Any) -> None:
        elected = asyncio.Event()

        def cancel(_: Any) -> None:
            waits.cancel()
            elected.set()

        async with AsyncLeaderLatch(coordinator, on_elected=cancel) as latch:
            lease = await coordinator.aio.acquire("job")
            await latch.start("job")
            waits = asyncio.ensure_future(latch.wait(WITHIN_S))
            await turns(2)
            await lease.release()
            await asyncio.wait_for(elected.wait(), WITHIN_S)
            with pytest.raises(asyncio.CancelledError):
                await waits

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))


def test_a_wait_of_no_time_says_whether_it_leads() -> None:
    async def main(coordinator: Any) -> None:
        async with AsyncLeaderLatch(coordinator) as latch:
            await latch.start("job")
            assert await latch.wait(WITHIN_S)
            assert await latch.wait(0)
            await latch.close()
            assert not await latch.wait(0)

    with tenure.local() as coordinator:
        asyncio.run(main(coordinator))


def test_an_unusable_node_id_is_refused_at_the_start_and_later_ends_the_latch(caplog: pytest.LogCaptureFixture) -> None:
    said = ["me", "me", ""]
    with tenure.local() as coordinator:
        with pytest.raises(UsageError, match="node_id"):
            LeaderLatch(coordinator, ElectionOptions(node_id=lambda: "")).start("job")
        caplog.set_level(logging.WARNING)
        latch = LeaderLatch(coordinator, ElectionOptions(node_id=iter(said).__next__))
        latch.start("job")
        assert latch.wait(WITHIN_S)
        assert latch.lease is not None
        assert latch.lease.node_id == "me"
        latch.close()
        assert is_free(coordinator)


@pytest.mark.parametrize(("raised", "error"), [(LookupError("no"), LookupError), (SystemExit(3), UsageError)])
def test_a_start_that_fails_leaves_a_latch_that_can_be_started(raised: BaseException, error: type[Exception]) -> None:
    said: list[Any] = [raised, "me"]

    def node_id() -> str:
        first = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(first, BaseException):
            raise first
        return str(first)

    with tenure.local() as coordinator, LeaderLatch(coordinator, ElectionOptions(node_id=node_id)) as latch:
        with pytest.raises(error):
            latch.start("job")
        assert latch not in background().closers
        with pytest.raises(UsageError, match="not started"):
            latch.wait(0)
        latch.start("job")
        assert latch.wait(WITHIN_S)


def _under_the_guard(coordinator: Any, work: Any) -> None:
    with coordinator._port.engine.guard:
        work()


@pytest.mark.parametrize(
    "where",
    [
        lambda coordinator, work: coordinator._port.hand_over(work),
        lambda coordinator, work: background().call(work),
        lambda coordinator, work: threading.Thread(
            target=_under_the_guard, args=(coordinator, work), daemon=True
        ).start(),
    ],
    ids=["on the I/O thread", "on the loop in the background", "within a step of a lease"],
)
def test_a_latch_that_is_collected_where_nobody_may_wait_ends_all_the_same__D5(where: Any) -> None:
    def steps(coordinator: Any) -> Generator[None, None, None]:
        with LeaderLatch(coordinator) as latch:
            latch.start("job")
            assert latch.wait(WITHIN_S)
            yield

    others = len(background().closers)
    with tenure.local() as coordinator:
        suspended = [steps(coordinator)]
        next(suspended[0])
        left = threading.Event()

        def drop() -> None:
            suspended.clear()
            left.set()

        where(coordinator, drop)
        assert left.wait(WITHIN_S)
        eventually(lambda: is_free(coordinator), WITHIN_S, "the name is given back")
        eventually(lambda: len(background().closers) == others, WITHIN_S, "it is not kept")


def test_an_interrupt_of_the_start_leaves_nothing_that_takes_part__D1() -> None:
    interrupted = threading.Event()
    main = threading.main_thread().ident or 0
    asked: list[None] = []

    def node_id() -> str:
        asked.append(None)
        if len(asked) == 1:
            # More than once: one that comes just before the main thread falls asleep does not wake it.
            while not interrupted.wait(0.02):
                signal.pthread_kill(main, signal.SIGINT)
        return "me"

    def interrupt(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with tenure.local() as coordinator, LeaderLatch(coordinator, ElectionOptions(node_id=node_id)) as latch:
            with pytest.raises(KeyboardInterrupt):
                latch.start("job")
            assert latch not in background().closers
            eventually(lambda: is_free(coordinator), WITHIN_S, "nobody takes part")
            latch.start("job")
            assert latch.wait(WITHIN_S)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("field", ["on_elected", "on_lost"])
def test_a_callback_that_cannot_be_called_is_refused_when_the_latch_is_made(field: str) -> None:
    wrong: dict[str, Any] = {field: 5}
    unawaited: dict[str, Any] = {field: asyncio.sleep}
    with tenure.local() as coordinator:
        for make in (LeaderLatch, AsyncLeaderLatch):
            with pytest.raises(UsageError, match=f"{field} is int"):
                make(coordinator, **wrong)
        with pytest.raises(UsageError, match=f"{field} is a coroutine function"):
            LeaderLatch(coordinator, **unawaited)
