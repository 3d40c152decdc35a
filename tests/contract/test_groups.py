"""Leader groups: slots, tokens, limits that differ, fair hand-over, auto-extension; for every coordinator, blocking and asyncio.

Knows: the contract of group electors. Must not know: how a slot is chosen.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import tenure
from tenure import Elected, GroupElectionOptions, Skipped
from tests.contract.conftest import Ways
from tests.contract.support_forms import Call, Form, Work
from tests.support import eventually

pytestmark = pytest.mark.parametrize("form", ["group-blocking", "group-asyncio"], indirect=True)


def started(form: Form, way: Any, name: str, **options: Any) -> tuple[Call, Work]:
    work = Work()
    call = form.start(way, name, work, result=True, **options)
    work.wait_started()
    return call, work


def ended(*runs: tuple[Call, Work]) -> list[Any]:
    for _, work in runs:
        work.finish(work.lease.slot)
    return [call.result() for call, _ in runs]


def waiters(way: Any, name: str) -> int:
    state: tenure.LeaderGroupState = way.group_state(name, consistent=True)
    return state.waiters


def until_waiters(way: Any, name: str, count: int) -> None:
    eventually(lambda: waiters(way, name) == count, what=f"{count} wait")


def test_as_many_lead_as_there_are_slots_each_under_its_own_token__I1__F2(ways: Ways, form: Form, name: str) -> None:
    runs = [started(form, way, name, max_leaders=3) for way in (ways.one, ways.other, ways.one)]
    assert sorted(work.lease.slot for _, work in runs) == [0, 1, 2]
    tokens = [work.lease.token for _, work in runs]
    assert tokens == sorted(set(tokens))
    assert isinstance(form.run(ways.other, name, Work(), result=True, max_leaders=3, wait_time=0), Skipped)
    state = ways.other.group_state(name, consistent=True)
    assert (state.max_leaders, state.active_count, state.available_slots) == (3, 3, 0)
    assert {leader.slot: leader.token for leader in state.leaders} == {w.lease.slot: w.lease.token for _, w in runs}
    results = ended(*runs)
    assert all(isinstance(result, Elected) for result in results)
    assert [result.token for result in results] == tokens


def test_a_freed_slot_serves_who_waited_longest_and_nobody_else__F3(ways: Ways, form: Form, name: str) -> None:
    holders = [started(form, ways.one, name, max_leaders=2) for _ in range(2)]
    works = [Work() for _ in range(3)]
    calls = []
    for count, (way, work) in enumerate(zip((ways.other, ways.one, ways.other), works, strict=True), 1):
        calls.append(form.start(way, name, work, result=True, max_leaders=2, wait_time=20))
        until_waiters(ways.one, name, count)
    freed = holders[1][1].lease.slot
    ended(holders[1])
    works[0].wait_started()
    assert works[0].lease.slot == freed
    assert (works[1].calls, works[2].calls, waiters(ways.one, name)) == (0, 0, 2)
    ended(holders[0])
    works[1].wait_started()
    assert works[2].calls == 0
    ended((calls[0], works[0]))
    works[2].wait_started()
    ended((calls[1], works[1]), (calls[2], works[2]))
    tokens = [work.lease.token for work in works]
    assert tokens == sorted(tokens)


def test_the_smallest_limit_counts_where_callers_differ__F1__I1(ways: Ways, form: Form, name: str) -> None:
    first = started(form, ways.one, name, max_leaders=3)
    second = started(form, ways.other, name, max_leaders=3)
    # Who allows two sees two.
    assert isinstance(form.run(ways.one, name, Work(), result=True, max_leaders=2, wait_time=0), Skipped)
    third = started(form, ways.one, name, max_leaders=3)
    ended(first, third)
    # A leader that allows one only is alone from then on, whatever the others allow.
    ended(second)
    alone = started(form, ways.other, name, max_leaders=1)
    assert isinstance(form.run(ways.one, name, Work(), result=True, max_leaders=9, wait_time=0), Skipped)
    state = ways.one.group_state(name, consistent=True)
    assert (state.max_leaders, state.active_count, state.available_slots) == (1, 1, 0)
    ended(alone)


def test_a_limit_that_shrinks_while_more_lead_admits_nobody_new__F1(ways: Ways, form: Form, name: str) -> None:
    runs = [started(form, ways.one, name, max_leaders=3) for _ in range(3)]
    assert isinstance(form.run(ways.other, name, Work(), result=True, max_leaders=1, wait_time=0), Skipped)
    state = ways.other.group_state(name, consistent=True)
    assert (state.active_count, state.available_slots) == (3, 0)
    ended(*runs[:2])
    assert isinstance(form.run(ways.other, name, Work(), result=True, max_leaders=1, wait_time=0), Skipped)
    ended(runs[2])
    assert isinstance(ended(started(form, ways.other, name, max_leaders=1))[0], Elected)


@pytest.mark.parametrize("ways", ["local", "client"], indirect=True)
def test_auto_extend_holds_every_slot_past_its_lease_time(ways: Ways, form: Form, name: str) -> None:
    runs = [started(form, ways.one, name, max_leaders=2, lease_time=0.8, auto_extend=True) for _ in range(2)]
    # A slot would be granted after 0.8 s if its holder did not renew it.
    assert isinstance(form.run(ways.other, name, Work(), result=True, max_leaders=2, wait_time=1.1), Skipped)
    assert {work.lease.confidence for _, work in runs} == {"held"}
    assert all(isinstance(result, Elected) for result in ended(*runs))


def test_the_loss_of_one_slot_is_told_to_its_holder_alone__F2__rule_7(ways: Ways, form: Form, name: str) -> None:
    kept = started(form, ways.one, name, max_leaders=2)
    work = Work(stubborn=True)
    call = form.start(ways.one, name, work, result=True, max_leaders=2, lease_time=0.6)
    work.wait_started()
    eventually(work.lease.lost.is_set, what="the lease is lost")
    assert not kept[1].lease.lost.is_set()
    work.finish("late")
    lost = call.result()
    assert isinstance(lost, tenure.LeaseLost)
    assert lost.token == work.lease.token
    assert isinstance(ended(kept)[0], Elected)


def test_the_state_of_a_group_is_the_electors_own_view(ways: Ways, form: Form, name: str) -> None:
    options = GroupElectionOptions(4)

    def seen() -> Any:
        if form.name == "blocking":
            return tenure.LeaderGroupElector(ways.other, options).for_tenant("acme").group_state(name, consistent=True)
        elector = tenure.AsyncLeaderGroupElector(ways.other, options).for_tenant("acme")
        return asyncio.run(elector.group_state(name, consistent=True))

    free = seen()
    assert (free.name, free.full_name) == (name, f"tenant:acme:{name}")
    assert (free.max_leaders, free.available_slots, free.leaders) == (4, 4, ())
    run = started(form, ways.one, f"tenant:acme:{name}", max_leaders=3)
    assert (seen().max_leaders, seen().available_slots, seen().active_count) == (3, 2, 1)
    ended(run)
