"""Runs that are disturbed leave nothing behind, counted: no lease, waiter, task, thread or file descriptor (C4, C8, C9, C10, D1).

Knows: the forms, the counters of a client. Must not know: the steps of a run. A blocking call is given up by Ctrl-C, the others by
cancelling what they returned. ``-m long`` plays a thousand rounds of each.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tenure
from tenure._background import background
from tests.contract.conftest import FORMS, GROUP_FORMS, STRATEGIC_FORMS
from tests.contract.support_forms import PATIENCE_S, Call, Form, Work
from tests.support import eventually
from tests.tenure.test_interrupts import interrupted_at

AT_ONCE = 25
# Instructions of ours that a blocking run takes at least.
INSTRUCTIONS = 150

pytestmark = pytest.mark.parametrize("form", [*FORMS, *GROUP_FORMS, *STRATEGIC_FORMS], indirect=True)


class Broken(Exception):
    pass


@pytest.fixture
def coordinator() -> Iterator[Any]:
    with tenure.local() as coordinator:
        yield coordinator


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))


class Count:
    """What there is before the first round, to be found again after the last."""

    def __init__(self, form: Form, coordinator: Any) -> None:
        self._loop = getattr(form, "loop", None)
        self._coordinator = coordinator
        # What is made once is there: the loop of the process.
        background()
        self._before = self._now()

    def _now(self) -> tuple[int, int]:
        return descriptors(), len([each for each in threading.enumerate() if each.name != "tenure-worker"])

    def left(self) -> dict[str, int]:
        """What is there that was not before."""
        counts = self._coordinator._port.engine.counts()
        workers = [each for each in threading.enumerate() if each.name == "tenure-worker"]
        found = {what: number for what, number in counts.items() if what != "timers"}
        found["leases in the table"] = len(list(self._coordinator.leases()))
        found["runs"] = background().live + len(background()._tasks)
        # Idle ones end by themselves; never are there more than were busy at once, and the two that hand over.
        found["workers"] = max(0, len(workers) - 2 * AT_ONCE)
        found["descriptors"], found["threads"] = (now - was for now, was in zip(self._now(), self._before, strict=True))
        if self._loop is not None:
            found["tasks"] = len(asyncio.run_coroutine_threadsafe(_tasks(), self._loop).result(PATIENCE_S)) - 1
        return {what: number for what, number in found.items() if number > 0}

    def check(self) -> None:
        gc.collect()
        with contextlib.suppress(AssertionError):
            eventually(lambda: not self.left(), 20.0)
        assert self.left() == {}


async def _tasks() -> set[Any]:
    return asyncio.all_tasks()


def batches(rounds: int) -> Iterator[range]:
    for first in range(0, rounds, AT_ONCE):
        yield range(first, min(rounds, first + AT_ONCE))


def ended(calls: list[Call]) -> list[type[BaseException] | None]:
    found: list[type[BaseException] | None] = []
    for call in calls:
        try:
            call.result()
            found.append(None)
        except BaseException as error:
            found.append(type(error))
    return found


def interrupt(when: Callable[[], object]) -> threading.Thread:
    """Ctrl-C to the main thread, as soon as it stands where it shall."""

    def run() -> None:
        eventually(when, PATIENCE_S)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def waits(form: Form, coordinator: Any, name: str) -> bool:
    """Whether somebody waits for the name: in line, or as a candidate."""
    state: tenure.LeaderState = coordinator.state(name)
    return state.waiters == 1 if form.queues else len(coordinator.candidates(name)) == 1


def given_up_waiting(form: Form, coordinator: Any, names: list[str]) -> None:
    works = [Work() for _ in names]
    holders = [coordinator.acquire(name) for name in names]
    if form.name == "blocking":
        for name, work in zip(names, works, strict=True):
            run = form.method(coordinator, False, wait_time=PATIENCE_S)
            sender = interrupt(functools.partial(waits, form, coordinator, name))
            with pytest.raises(KeyboardInterrupt):
                run(name, work.run)
            sender.join()
    else:
        calls = [form.start(coordinator, n, w, wait_time=PATIENCE_S) for n, w in zip(names, works, strict=True)]
        eventually(lambda: all(waits(form, coordinator, name) for name in names), PATIENCE_S)
        for call in calls:
            call.cancel()
        assert set(ended(calls)) == {asyncio.CancelledError}
    for holder in holders:
        holder.release()
    assert not any(work.calls for work in works)


class Granting:
    """The coordinator, whose grants are given up in the moment in which they arrive."""

    def __init__(self, coordinator: Any, call: Callable[[], None]) -> None:
        self._coordinator = coordinator
        self._call = call

    @property
    def aio(self) -> Any:
        return self

    async def acquire(self, name: str, **options: Any) -> Any:
        return await self._given_up("acquire", name, options)

    async def acquire_elected(self, name: str, **options: Any) -> Any:
        return await self._given_up("acquire_elected", name, options)

    async def _given_up(self, verb: str, name: str, options: dict[str, Any]) -> Any:
        lease = await getattr(self._coordinator.aio, verb)(name, **options)
        self._call()
        return lease

    async def keep_candidate(self, *args: Any) -> Any:
        return await self._coordinator.aio.keep_candidate(*args)


def give_up(form: Form, calls: list[Call], started: threading.Event) -> None:
    """On the loop of the run, which has just been granted its name."""
    if form.name == "asyncio":
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
    else:
        assert started.wait(PATIENCE_S)
        calls[0].cancel()


def given_up_at_the_start(form: Form, coordinator: Any, names: list[str]) -> None:
    works = [Work() for _ in names]
    for at, (name, work) in enumerate(zip(names, works, strict=True)):
        work.finish()
        if form.name == "blocking":
            run = form.method(coordinator, False)
            interrupted_at(1 + at * INSTRUCTIONS // len(names), functools.partial(run, name, work.run))
            continue
        calls: list[Call] = []
        started = threading.Event()

        granting = Granting(coordinator, functools.partial(give_up, form, calls, started))
        calls.append(form.start(granting, name, work))
        started.set()
        assert ended(calls) == [asyncio.CancelledError]
    assert all(work.calls <= 1 for work in works)


def given_up_in_the_action(form: Form, coordinator: Any, names: list[str]) -> None:
    works = [Work() for _ in names]
    if form.name == "blocking":
        for name in names:
            run = form.method(coordinator, False)
            with pytest.raises(KeyboardInterrupt):
                run(name, signal.raise_signal, signal.SIGINT)
        return
    calls = [form.start(coordinator, name, work) for name, work in zip(names, works, strict=True)]
    for call, work in zip(calls, works, strict=True):
        work.wait_started()
        call.cancel()
        if form.name == "thread":
            work.finish()
    assert set(ended(calls)) == {asyncio.CancelledError}
    for work in works:
        work.wait_ended()


def raised_in_the_action(form: Form, coordinator: Any, names: list[str]) -> None:
    works = [Work() for _ in names]
    for work in works:
        work.fail(Broken())
    calls = [form.start(coordinator, name, work) for name, work in zip(names, works, strict=True)]
    assert set(ended(calls)) == {Broken}


def over(call: Call, work: Work) -> bool:
    return call.done or (work.lease is not None and work.lease.lost.is_set())


def lost_in_the_action(form: Form, coordinator: Any, names: list[str]) -> None:
    works = [Work() for _ in names]
    calls = [form.start(coordinator, n, w, lease_time=0.3) for n, w in zip(names, works, strict=True)]
    for call, work in zip(calls, works, strict=True):
        # On a busy machine a lease may be over before its action could begin; then none began.
        eventually(functools.partial(over, call, work), PATIENCE_S)
        if form.name not in ("asyncio", "future"):
            work.finish()
    # On a busier one still, a lease may be over before its grant arrived: then it is not known to have been one.
    assert set(ended(calls)) <= {tenure.LeaseLostError, tenure.Indeterminate}


DISTURBANCES = [
    given_up_waiting,
    given_up_at_the_start,
    given_up_in_the_action,
    raised_in_the_action,
    lost_in_the_action,
]


@pytest.mark.parametrize("disturb", DISTURBANCES)
@pytest.mark.parametrize("rounds", [10, pytest.param(1000, marks=pytest.mark.long)])
def test_a_disturbed_run_leaves_nothing__C4(
    coordinator: Any, form: Form, name: str, disturb: Callable[[Form, Any, list[str]], None], rounds: int
) -> None:
    disturb(form, coordinator, [f"{name}/first"])
    count = Count(form, coordinator)
    for batch in batches(rounds):
        disturb(form, coordinator, [f"{name}/{number}" for number in batch])
    count.check()
