"""Latches: elected, told of the loss before anyone else leads, back in line afterwards (C9, D1, D3, F3).

Knows: the public latches, real leases, for every coordinator. Must not know: the rounds of a latch.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import cluster.client
import tenure
from tenure import AsyncLeaderLatch, LeaderLatch, UsageError
from tests.contract.conftest import Ways
from tests.contract.support_forms import PATIENCE_S, LoopThread
from tests.support import eventually


class Story:
    """What a latch's callbacks were told, in order, and who led meanwhile."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.leases: list[Any] = []
        self.current: list[Any] = []
        self.hold = threading.Event()
        self.hold.set()

    def elected(self, lease: Any) -> None:
        self.leases.append(lease)
        self.current.append(tenure.current_lease())
        self.told.append("elected")

    def lost(self, lease: Any) -> None:
        assert lease.token == self.leases[-1].token
        assert self.hold.wait(PATIENCE_S)
        self.told.append("lost")


class Latch:
    """A latch of either form, driven by blocking calls."""

    def __init__(self, form: str, loop: asyncio.AbstractEventLoop, way: Any, story: Story, **options: Any) -> None:
        self.loop = None if form == "blocking" else loop
        chosen = tenure.ElectionOptions(**options)
        kind: Any = LeaderLatch if form == "blocking" else AsyncLeaderLatch
        self.latch = kind(way, chosen, on_elected=story.elected, on_lost=story.lost)
        self._story = story

    def leads(self) -> bool:
        """Wait until it leads, and has said so."""
        elected: bool = self.do("wait", PATIENCE_S)
        if elected:
            eventually(lambda: self._story.told[-1:] == ["elected"], PATIENCE_S, "its callback was called")
        return elected

    def do(self, verb: str, *args: Any) -> Any:
        made = getattr(self.latch, verb)(*args)
        return made if self.loop is None else asyncio.run_coroutine_threadsafe(made, self.loop).result(PATIENCE_S)


class Maker:
    def __init__(self, form: str, loop: asyncio.AbstractEventLoop) -> None:
        self.form = form
        self._loop = loop
        self._made: list[Latch] = []

    def __call__(self, way: Any, story: Story, **options: Any) -> Latch:
        self._made.append(Latch(self.form, self._loop, way, story, **options))
        return self._made[-1]

    def close(self) -> None:
        for latch in self._made:
            latch.do("close")


@pytest.fixture(params=["blocking", "asyncio"])
def made(request: pytest.FixtureRequest, loop_thread: LoopThread) -> Iterator[Maker]:
    maker = Maker(request.param, loop_thread.loop)
    yield maker
    maker.close()


def test_one_of_two_leads_and_the_other_follows_when_it_closes__I1(ways: Ways, made: Maker, name: str) -> None:
    stories = Story(), Story()
    one, other = made(ways.one, stories[0]), made(ways.other, stories[1])
    one.do("start", name)
    assert one.leads()
    other.do("start", name)
    eventually(lambda: ways.one.state(name, consistent=True).waiters == 1, what="the other stands in line")
    assert other.do("wait", 0) is False
    assert (one.latch.is_leader, other.latch.is_leader) == (True, False)
    # The callback ran under the latch's own lease.
    assert [lease.token for lease in stories[0].current] == [one.latch.lease.token]
    assert other.latch.lease is None
    one.do("close")
    assert (one.latch.is_leader, stories[0].told) == (False, ["elected", "lost"])
    assert other.leads()
    assert stories[1].leases[0].token > stories[0].leases[0].token
    assert one.do("wait", 0) is False


@pytest.mark.parametrize("ways", ["local", "client"], indirect=True)
def test_a_latch_holds_on_past_its_lease_time(ways: Ways, made: Maker, name: str) -> None:
    story = Story()
    latch = made(ways.one, story, lease_time=1)
    latch.do("start", name)
    assert latch.leads()
    # The name would be granted after 1 s if the latch did not renew it.
    assert ways.other.acquire(name, wait_time=1.2) is None
    assert latch.latch.is_leader
    assert story.told == ["elected"]


def test_nobody_else_leads_before_a_closing_latch_has_said_so__C9(ways: Ways, made: Maker, name: str) -> None:
    story = Story()
    latch = made(ways.one, story)
    latch.do("start", name)
    assert latch.leads()
    if made.form == "blocking":
        story.hold.clear()
        closing = threading.Thread(target=latch.do, args=("close",))
        closing.start()
        eventually(lambda: not latch.latch.is_leader, what="it leads no more")
        # Its callback has not returned: the name is not free.
        assert ways.other.acquire(name) is None
        story.hold.set()
        closing.join(PATIENCE_S)
    latch.do("close")
    assert story.told == ["elected", "lost"]
    lease = ways.other.acquire(name)
    assert lease is not None
    lease.release()


@pytest.mark.parametrize("ways", ["embedded", "client"], indirect=True)
def test_a_latch_that_lost_its_lease_says_so_and_stands_in_line_again__rule_7(
    ways: Ways, made: Maker, name: str
) -> None:
    story = Story()
    latch = made(ways.one, story)
    latch.do("start", name)
    assert latch.leads()
    successor = tenure.LeaderElector(ways.other, tenure.ElectionOptions(wait_time=20))
    with cluster.client.connect(ways.endpoints, role="admin") as operator:
        seen: list[list[str]] = []
        following = threading.Thread(target=lambda: successor.run_if_leader(name, lambda: seen.append([*story.told])))
        following.start()
        eventually(lambda: ways.one.state(name, consistent=True).waiters == 1, what="a successor stands in line")
        assert operator.revoke(name) == 1
        following.join(PATIENCE_S)
    # The successor led, and by then the latch had been told.
    assert seen == [["elected", "lost"]]
    assert latch.leads()
    assert story.told == ["elected", "lost", "elected"]
    assert story.leases[1].token > story.leases[0].token


def test_a_tenants_latch_leads_the_tenants_name__F6(ways: Ways, made: Maker, name: str) -> None:
    latch = made(ways.one, Story())
    latch.latch = latch.latch.for_tenant("acme")
    latch.do("start", name)
    assert latch.leads()
    assert latch.latch.lease.name == f"tenant:acme:{name}"
    state = latch.do("state", name)
    assert (state.name, state.full_name, state.leader.token) == (
        name,
        f"tenant:acme:{name}",
        latch.latch.lease.token,
    )
    with pytest.raises(UsageError, match="started"):
        latch.latch.for_tenant("other")


def test_a_latch_is_started_once_and_not_with_a_bad_name__B6(ways: Ways, made: Maker, name: str) -> None:
    latch = made(ways.one, Story())
    with pytest.raises(UsageError, match="not started"):
        latch.do("wait", 0)
    with pytest.raises(UsageError, match="name"):
        latch.do("start", "a b")
    latch.do("start", name)
    with pytest.raises(UsageError, match="started"):
        latch.do("start", name)
    with pytest.raises(UsageError, match="timeout"):
        latch.do("wait", -1)
    latch.do("close")
    latch.do("close")
    closed = made(ways.one, Story())
    closed.do("close")
    with pytest.raises(UsageError, match="closed"):
        closed.do("start", name)
