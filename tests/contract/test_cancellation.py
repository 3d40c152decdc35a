"""Runs that are given up, from outside and because their lease is lost: every form that can be, for every coordinator.

Knows: the contract. Must not know: how anything behind the public names works.
"""

from __future__ import annotations

import asyncio

import pytest

from tenure import LeaseLost, LeaseLostError
from tests.contract.conftest import Ways
from tests.contract.support_forms import Asyncio, Form, Work
from tests.support import eventually

# Whose action can be told to end, and whose can only be waited for. A blocking call cannot be given up from outside.
CANCELLABLE = ("asyncio", "future", "group-asyncio", "group-future", "strategic-asyncio")
UNSTOPPABLE = ("thread", "group-thread")
told_to_end = pytest.mark.parametrize("form", CANCELLABLE, indirect=True)
given_up = pytest.mark.parametrize("form", [*CANCELLABLE, *UNSTOPPABLE], indirect=True)


@given_up
def test_a_cancelled_wait_leaves_no_trace__rule_5__C4(ways: Ways, form: Form, name: str) -> None:
    holder = form.acquire(ways.one, name)
    work = Work()
    call = form.start(ways.other, name, work, wait_time=20)
    if form.queues:
        eventually(lambda: form.verb(ways.one, "state", name, consistent=True).waiters == 1, what="one waiter")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        call.result()
    eventually(lambda: form.verb(ways.one, "state", name, consistent=True).waiters == 0, what="no waiter")
    form.on(holder, "release")
    assert form.is_free(ways.one, name)
    assert work.calls == 0


@told_to_end
def test_a_cancelled_call_ends_its_action_first_and_then_releases__rule_5__C9(
    ways: Ways, form: Form, name: str
) -> None:
    work = Work()
    call = form.start(ways.one, name, work)
    work.wait_started()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        call.result()
    assert work.cancelled.is_set()
    assert work.ended.is_set()
    assert form.is_free(ways.other, name)


@given_up
@pytest.mark.parametrize("result", [False, True])
def test_an_action_that_swallows_the_callers_cancellation_does_not_swallow_it_for_the_caller__rule_5(
    ways: Ways, form: Form, name: str, result: bool
) -> None:
    work = Work(stubborn=True)
    call = form.start(ways.one, name, work, result=result)
    work.wait_started()
    call.cancel()
    assert "thread" in form.name or work.cancelled.wait(5)
    # The work has not ended: the name is still held.
    assert not form.is_free(ways.other, name)
    work.finish("a value that nobody gets")
    with pytest.raises(asyncio.CancelledError):
        call.result()
    assert form.is_free(ways.other, name)


@told_to_end
def test_a_lost_lease_cancels_the_action__rule_7(ways: Ways, form: Form, name: str) -> None:
    work = Work()
    call = form.start(ways.one, name, work, result=True, lease_time=0.4)
    assert call.result() == LeaseLost(None, None, work.lease.token)
    assert work.cancelled.is_set()
    with pytest.raises(LeaseLostError, match=name):
        form.run(ways.one, name, Work(), lease_time=0.4, wait_time=20)


@told_to_end
def test_an_action_that_swallows_our_cancellation_is_lost_all_the_same__rule_7__D4(
    ways: Ways, form: Form, name: str
) -> None:
    work = Work(stubborn=True)
    call = form.start(ways.one, name, work, result=True, lease_time=0.4)
    work.wait_started()
    assert work.cancelled.wait(5)
    work.finish("late")
    assert call.result() == LeaseLost("late", None, work.lease.token)


@told_to_end
def test_a_lost_lease_is_only_signalled_when_asked_so__rule_7(ways: Ways, form: Form, name: str) -> None:
    work = Work()
    call = form.start(ways.one, name, work, result=True, lease_time=0.4, on_lost="signal")
    work.wait_started()
    eventually(work.lease.lost.is_set, what="the lease is lost")
    work.finish("late")
    assert call.result() == LeaseLost("late", None, work.lease.token)
    assert not work.cancelled.is_set()


def test_a_lost_lease_cancels_the_body_of_leading__rule_7(ways: Ways, aio: Asyncio, name: str) -> None:
    work = Work()
    call = aio.start_leading(ways.one, name, work, lease_time=0.4)
    with pytest.raises(LeaseLostError, match=name):
        call.result()
    assert work.cancelled.is_set()


def test_a_cancelled_body_of_leading_releases__rule_5(ways: Ways, aio: Asyncio, name: str) -> None:
    work = Work()
    call = aio.start_leading(ways.one, name, work)
    work.wait_started()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        call.result()
    assert work.cancelled.is_set()
    assert aio.is_free(ways.other, name)
