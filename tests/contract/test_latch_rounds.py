"""Latches that are disturbed leave nothing behind, counted: no lease, waiter, task, thread or file descriptor (C4, C9, C10).

Knows: the public latches, leases that are lost on command. Must not know: the rounds of a latch. ``-m long`` plays a thousand of each.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tenure.testing import FakeCoordinator
from tests.contract.support_forms import PATIENCE_S, LoopThread
from tests.contract.support_rounds import Count, batches
from tests.contract.test_latch import Latch, Story
from tests.contract.test_rounds import Broken, interrupt
from tests.support import eventually


class Rounds:
    """Makes latches of one form, each with the story that it tells."""

    def __init__(self, form: str, loop: asyncio.AbstractEventLoop, coordinator: Any) -> None:
        self.loop = None if form == "blocking" else loop
        self.coordinator = coordinator
        self._make = functools.partial(Latch, form, loop)

    def started(self, names: list[str], way: Any = None, story: type[Story] = Story) -> list[tuple[Latch, Story]]:
        stories = [story() for _ in names]
        latches = [self._make(way or self.coordinator, each) for each in stories]
        for name, latch in zip(names, latches, strict=True):
            latch.do("start", name)
        return list(zip(latches, stories, strict=True))


@pytest.fixture
def coordinator() -> Iterator[FakeCoordinator]:
    coordinator = FakeCoordinator(real_time=True)
    with coordinator:
        yield coordinator


@pytest.fixture(params=["blocking", "asyncio"])
def rounds_of(request: pytest.FixtureRequest, loop_thread: LoopThread, coordinator: FakeCoordinator) -> Rounds:
    return Rounds(request.param, loop_thread.loop, coordinator)


def in_line(of: Rounds, name: str) -> bool:
    waiters: int = of.coordinator.state(name).waiters
    return waiters == 1


def closed_while_it_waits(of: Rounds, names: list[str]) -> None:
    holders = [of.coordinator.acquire(name) for name in names]
    made = of.started(names)
    eventually(lambda: all(in_line(of, name) for name in names), PATIENCE_S)
    for latch, story in made:
        latch.do("close")
        assert story.told == []
    assert [of.coordinator.state(name, consistent=True).waiters for name in names] == [0] * len(names)
    for holder in holders:
        holder.release()


class Granting:
    """The coordinator, at whose grant the latch is closed: before the grant has reached it."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator, self._port = coordinator, coordinator._port
        self.close: Callable[[], object] = lambda: None

    @property
    def aio(self) -> Any:
        return self

    async def acquire(self, name: str, **options: Any) -> Any:
        lease = await self._coordinator.aio.acquire(name, **options)
        self.close()
        return lease


def closed_at_its_grant(of: Rounds, names: list[str]) -> None:
    for name in names:
        holder = of.coordinator.acquire(name)
        granting = Granting(of.coordinator)
        ((latch, story),) = of.started([name], granting)
        inner = latch.latch if of.loop is not None else latch.latch._inner
        granting.close = inner.begin_close
        holder.release()
        eventually(functools.partial(getattr, inner, "_over"), PATIENCE_S, "it has ended")
        latch.do("close")
        assert story.told == []


def closed_while_it_leads(of: Rounds, names: list[str]) -> None:
    for latch, story in of.started(names):
        assert latch.leads()
        latch.do("close")
        assert story.told == ["elected", "lost"]


class Raising(Story):
    """Raises in both callbacks, after it has noted them."""

    def elected(self, lease: Any) -> None:
        super().elected(lease)
        raise Broken

    def lost(self, lease: Any) -> None:
        super().lost(lease)
        raise Broken


def raised_in_its_callbacks(of: Rounds, names: list[str]) -> None:
    for latch, story in of.started(names, story=Raising):
        assert latch.leads()
        latch.do("close")
        assert story.told == ["elected", "lost"]


def lost_while_it_leads(of: Rounds, names: list[str]) -> None:
    for (latch, story), name in zip(of.started(names), names, strict=True):
        assert latch.leads()
        assert of.coordinator.lose(name) == 1
        eventually(functools.partial(story.told.__eq__, ["elected", "lost", "elected"]), PATIENCE_S, "it leads again")
        assert story.leases[1].token > story.leases[0].token
        latch.do("close")


def wait_for(latch: Latch, about_to: threading.Event) -> None:
    about_to.set()
    latch.do("wait")


def given_up_by_who_waits_for_it(of: Rounds, names: list[str]) -> None:
    """The wait is given up, not the latch."""
    for name in names:
        holder = of.coordinator.acquire(name)
        ((latch, _),) = of.started([name])
        if of.loop is None:
            about_to = threading.Event()
            sender = interrupt(about_to.is_set)
            with pytest.raises(KeyboardInterrupt):
                wait_for(latch, about_to)
            sender.join()
        else:
            waiting = asyncio.run_coroutine_threadsafe(latch.latch.wait(), of.loop)
            eventually(functools.partial(in_line, of, name), PATIENCE_S)
            waiting.cancel()
        holder.release()
        assert latch.leads()
        latch.do("close")


DISTURBANCES = [
    closed_while_it_waits,
    closed_at_its_grant,
    closed_while_it_leads,
    raised_in_its_callbacks,
    lost_while_it_leads,
    given_up_by_who_waits_for_it,
]


@pytest.mark.parametrize("disturb", DISTURBANCES)
@pytest.mark.parametrize("rounds", [10, pytest.param(1000, marks=pytest.mark.long)])
def test_a_disturbed_latch_leaves_nothing__C4(
    rounds_of: Rounds, name: str, disturb: Callable[[Rounds, list[str]], None], rounds: int
) -> None:
    disturb(rounds_of, [f"{name}/first"])
    count = Count(rounds_of.coordinator, rounds_of.loop)
    for batch in batches(rounds):
        disturb(rounds_of, [f"{name}/{number}" for number in batch])
    count.check()
