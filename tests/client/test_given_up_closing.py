"""A close that nobody waits for any more goes on, and the I/O thread ends with it (D1, D3).

Knows: the ways in which who closes can be stopped. Must not know: how a client is closed.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator

import pytest

import tenure
from cluster.client import Coordinator
from tests.support import eventually

pytestmark = pytest.mark.fast

WITHIN_S = 10.0


def cancelled(opened: Coordinator) -> None:
    async def main() -> None:
        closing = asyncio.ensure_future(opened.aio.close(limit=0.2))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(main())


def without_a_loop(opened: Coordinator) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        opened.aio.close(limit=0.2).send(None)


async def _entered(opened: Coordinator) -> None:
    async with opened:
        await asyncio.get_running_loop().create_future()


async def _entered_for_tasks(opened: Coordinator) -> None:
    async with opened.aio:
        await asyncio.get_running_loop().create_future()


def in_a_coroutine_that_is_closed(opened: Coordinator) -> None:
    async def main() -> None:
        run = _entered(opened)
        run.send(None)
        run.close()

    asyncio.run(main())


def in_a_coroutine_whose_loop_is_closed(opened: Coordinator) -> None:
    loop = asyncio.new_event_loop()
    run = _entered_for_tasks(opened)
    task = loop.create_task(run)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    # Never run again: say so to those who would complain about it.
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    run.close()


def on_the_io_thread(opened: Coordinator) -> None:
    def steps() -> Generator[None, None, None]:
        with opened:
            yield

    suspended = [steps()]
    next(suspended[0])
    # Where a collector may find it.
    opened._port.hand_over(suspended.clear)


def interrupted(opened: Coordinator) -> None:
    lease = opened.acquire("job")
    assert lease is not None
    closing, over = threading.Event(), threading.Event()
    main = threading.main_thread().ident or 0

    def interrupt(*_: object) -> None:
        if not over.is_set():
            over.set()
            lease.release_soon()
            raise KeyboardInterrupt

    def pester() -> None:
        # More than once: one that comes just before the main thread falls asleep does not wake it.
        closing.wait(WITHIN_S)
        while not over.wait(0.02):
            signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    thread = threading.Thread(target=pester)
    thread.start()
    lease.lost.on_set(closing.set)
    try:
        with pytest.raises(KeyboardInterrupt):
            opened.close(limit=60)
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "give_up",
    [
        cancelled,
        without_a_loop,
        in_a_coroutine_that_is_closed,
        in_a_coroutine_whose_loop_is_closed,
        on_the_io_thread,
        interrupted,
    ],
)
def test_a_close_that_is_given_up_ends_its_thread_all_the_same__D3(give_up: Callable[[Coordinator], None]) -> None:
    before = set(threading.enumerate())
    opened = tenure.local()
    (io,) = (thread for thread in set(threading.enumerate()) - before if thread.name == "tenure-local")
    give_up(opened)
    eventually(lambda: not io.is_alive(), WITHIN_S, "the I/O thread has ended")
    opened.close()
