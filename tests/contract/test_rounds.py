"""Runs that are disturbed leave nothing behind, counted: no lease, waiter, task, thread or file descriptor (C4, C8, C9, C10, D1).

Knows: the forms. Must not know: the steps of a run. Latches: ``test_latch_rounds.py``. A blocking call is given up by Ctrl-C, the others by
cancelling what they returned. ``-m long`` plays a thousand rounds of each.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tenure
from tests.contract.conftest import FORMS, GROUP_FORMS, STRATEGIC_FORMS
from tests.contract.support_forms import PATIENCE_S, Call, Form, Work
from tests.contract.support_rounds import Count, batches
from tests.support import eventually
from tests.tenure.test_interrupts import interrupted_at

# Instructions of ours that a blocking run takes at least.
INSTRUCTIONS = 150

pytestmark = pytest.mark.parametrize("form", [*FORMS, *GROUP_FORMS, *STRATEGIC_FORMS], indirect=True)


class Broken(Exception):
    pass


@pytest.fixture
def coordinator() -> Iterator[Any]:
    with tenure.local() as coordinator:
        yield coordinator


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
    count = Count(coordinator, getattr(form, "loop", None))
    for batch in batches(rounds):
        disturb(form, coordinator, [f"{name}/{number}" for number in batch])
    count.check()
