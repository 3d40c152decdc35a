"""Bodies of ``with lease:`` that are left where nobody can wait for the release: by a collector, on any thread, in any loop or none.

Knows: generators and coroutines that are closed. Must not know: how a release travels.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator
from typing import Any

import pytest

from cluster.client import Coordinator, handoff
from tests.client.support import counts
from tests.support import eventually

pytestmark = pytest.mark.fast

NAMES = ("a", "b")


@pytest.fixture
def coordinator(tenure_local: Coordinator) -> Iterator[Coordinator]:
    yield tenure_local
    eventually(lambda: not counts(tenure_local), 5, f"something is left: {counts(tenure_local)}")


def one(coordinator: Coordinator) -> Any:
    return coordinator.acquire("a", auto_extend=True)


def many(coordinator: Coordinator) -> Any:
    return coordinator.acquire_all(NAMES, auto_extend=True)


async def one_in_a_task(coordinator: Coordinator) -> Any:
    return await coordinator.aio.acquire("a", auto_extend=True)


async def many_in_a_task(coordinator: Coordinator) -> Any:
    return await coordinator.aio.acquire_all(NAMES, auto_extend=True)


def no_name_is_held(coordinator: Coordinator) -> None:
    eventually(lambda: not list(coordinator.leases()), 5, "all names are free")


def on_io_thread(coordinator: Coordinator, work: Callable[[], object]) -> None:
    done = threading.Event()

    def run() -> None:
        try:
            work()
        finally:
            done.set()

    assert coordinator._port.hand_over(run)
    assert done.wait(10)


@pytest.mark.parametrize("take", [one, many])
def test_a_generator_that_is_collected_on_the_io_thread_gives_back__rule_4(
    coordinator: Coordinator, take: Callable[[Coordinator], Any]
) -> None:
    def steps() -> Generator[None, None, None]:
        with take(coordinator):
            yield

    suspended = [steps()]
    next(suspended[0])
    assert list(coordinator.leases())
    on_io_thread(coordinator, suspended.clear)
    no_name_is_held(coordinator)


@pytest.mark.parametrize("take", [one, many])
def test_a_body_that_ends_on_the_io_thread_gives_back_and_waits_for_nothing(
    coordinator: Coordinator, take: Callable[[Coordinator], Any]
) -> None:
    leases = take(coordinator)
    raised: list[BaseException] = []

    def body() -> None:
        try:
            with leases:
                pass
        except BaseException as error:
            raised.append(error)

    on_io_thread(coordinator, body)
    no_name_is_held(coordinator)
    assert raised == []


@pytest.mark.parametrize("take", [one_in_a_task, many_in_a_task])
@pytest.mark.parametrize("how", ["by hand", "its loop is closed", "its body ends in another error"])
def test_a_coroutine_that_is_closed_gives_back_without_awaiting__rule_4(
    coordinator: Coordinator, take: Callable[[Coordinator], Coroutine[Any, Any, Any]], how: str
) -> None:
    entered = asyncio.Event()

    async def body() -> None:
        async with await take(coordinator):
            entered.set()
            try:
                await asyncio.get_running_loop().create_future()
            except GeneratorExit:
                if how == "its body ends in another error":
                    raise ValueError("while it was closed") from None
                raise

    async def by_hand() -> None:
        run = body()
        while not entered.is_set():
            future = run.send(None)
            if not entered.is_set():
                await asyncio.wait({future})
        run.close()

    if how == "by hand":
        asyncio.run(by_hand())
    else:
        loop = asyncio.new_event_loop()
        run = body()
        task = loop.create_task(run)
        loop.run_until_complete(entered.wait())
        loop.close()
        # Never run again: say so to those who would complain about it.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        if how == "its loop is closed":
            run.close()
        else:
            with pytest.raises(RuntimeError, match="no running event loop") as caught:
                run.close()
            assert isinstance(caught.value.__context__, ValueError)
    no_name_is_held(coordinator)


@pytest.mark.parametrize("take", [one, many])
def test_a_generator_that_is_collected_within_a_step_of_a_lease_gives_back__D5(
    coordinator: Coordinator, take: Callable[[Coordinator], Any]
) -> None:
    """What the I/O thread needs to go on is held there: who waited for it would wait for itself."""

    def steps() -> Generator[None, None, None]:
        with take(coordinator):
            yield

    suspended = [steps()]
    next(suspended[0])

    def step() -> None:
        with coordinator._port.engine.guard:
            suspended.clear()

    thread = threading.Thread(target=step, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    no_name_is_held(coordinator)


def test_a_collector_that_closes_a_body_while_a_loop_gets_its_bridge_hangs_nothing__D5(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector may run wherever something is made: here always in the moment in which the loop's first result needs its way."""
    made = 0
    within: list[BaseException] = []

    class Bridge(handoff._Bridge):
        def __init__(self) -> None:
            nonlocal made
            super().__init__()
            made += 1
            if made == 1:
                # What a ``with`` that is left there does, and more than it must.
                try:
                    handoff.LoopWaiter()
                except BaseException as error:
                    within.append(error)

    async def main() -> None:
        monkeypatch.setattr(handoff, "_Bridge", Bridge)
        first = handoff.LoopWaiter()
        assert first._bridge is handoff.LoopWaiter()._bridge
        lease = await coordinator.aio.acquire("a")
        assert lease is not None
        await lease.release()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    assert (made, within) == (2, [])
    gc.collect()
