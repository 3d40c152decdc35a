"""What a lease and a coordinator promise, for every coordinator and form.

Knows: the public contract of ``Coordinator`` and ``Lease``. Must not know: how anything behind the public names works.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from tenure import Extended, LeaseLostError, NotHeld, UsageError
from tests.contract.conftest import Ways
from tests.contract.support_forms import Form
from tests.support import eventually


def test_a_free_name_is_granted_at_the_first_attempt__B6(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name, wait_time=0, lease_time=30, node_id="me")
    assert (lease.name, lease.slot, lease.node_id, lease.lease_time) == (name, 0, "me", 30.0)
    assert lease.confidence == "held"
    assert 20 < lease.remaining() <= 30
    lease.check()
    assert not lease.lost.is_set()
    assert form.on(lease, "release") is True


def test_a_held_name_is_not_granted__I1(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name)
    assert form.acquire(ways.one, name) is None
    assert form.acquire(ways.other, name, wait_time=0.05) is None
    form.on(lease, "release")


def test_as_many_slots_as_leaders_are_granted__I1(ways: Ways, form: Form, name: str) -> None:
    leases = [form.acquire(way, name, max_leaders=3) for way in (ways.one, ways.other, ways.one)]
    assert sorted(lease.slot for lease in leases) == [0, 1, 2]
    assert form.acquire(ways.other, name, max_leaders=3) is None
    assert form.acquire(ways.other, name, max_leaders=5) is None
    form.on(leases[1], "release")
    again = form.acquire(ways.other, name, max_leaders=3)
    assert again.slot == leases[1].slot
    for lease in (leases[0], leases[2], again):
        form.on(lease, "release")


def test_tokens_only_rise__I2(ways: Ways, form: Form, name: str) -> None:
    tokens = []
    for way in (ways.one, ways.other) * 4:
        lease = form.acquire(way, name)
        tokens.append(lease.token)
        form.on(lease, "release")
    assert tokens == sorted(set(tokens))
    assert tokens[-1] < 2**53


def test_release_is_idempotent_and_ends_the_handle__I5(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name)
    assert form.on(lease, "release") is True
    form.on(lease, "release")
    successor = form.acquire(ways.other, name)
    assert form.on(lease, "extend") == NotHeld()
    form.on(lease, "release")
    with pytest.raises(LeaseLostError):
        lease.check()
    assert not form.is_free(ways.one, name)
    successor.check()
    form.on(successor, "release")


def test_extend_keeps_the_token_and_never_shortens__I4(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name, lease_time=30)
    token = lease.token
    assert isinstance(form.on(lease, "extend", 1), Extended)
    assert lease.remaining() > 20
    outcome = form.on(lease, "extend", timedelta(minutes=2))
    assert isinstance(outcome, Extended)
    assert 100 < outcome.remaining <= 120
    assert 100 < lease.remaining() <= 120
    assert lease.token == token
    form.on(lease, "release")


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, 10**9, "5", True])
def test_extend_refuses_what_is_no_lease_time__B6(ways: Ways, form: Form, name: str, bad: Any) -> None:
    lease = form.acquire(ways.one, name)
    with pytest.raises(UsageError, match="lease_time"):
        form.on(lease, "extend", bad)
    lease.check()
    form.on(lease, "release")


def test_an_expired_lease_is_lost_and_never_revived__I4(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name, lease_time=0.3)
    eventually(lease.lost.is_set, what="the lease is lost")
    assert lease.confidence == "lost"
    assert lease.remaining() <= 0
    with pytest.raises(LeaseLostError, match=name):
        lease.check()
    assert form.on(lease, "extend", 30) == NotHeld()
    eventually(lambda: form.is_free(ways.other, name), what="the name is free")


def test_a_late_release_changes_nothing_for_the_successor__C1(ways: Ways, form: Form, name: str) -> None:
    late = form.acquire(ways.one, name, lease_time=0.3)
    successor = form.acquire(ways.other, name, wait_time=20)
    assert successor.token > late.token
    form.on(late, "release")
    assert not form.is_free(ways.one, name)
    successor.check()
    form.on(successor, "release")


def test_auto_extend_holds_past_the_lease_time__C1(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name, lease_time=0.6, auto_extend=True)
    # The waiter would be granted the name after 0.6 s if the holder did not renew it.
    assert form.acquire(ways.other, name, wait_time=1.0) is None
    assert lease.confidence == "held"
    lease.check()
    assert form.on(lease, "release") is True
    assert form.is_free(ways.other, name)


def test_a_name_stays_occupied_for_its_minimum_lease(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name, lease_time=30, min_lease_time=0.8)
    assert form.on(lease, "release") is True
    assert form.acquire(ways.other, name) is None
    successor = form.acquire(ways.other, name, wait_time=20)
    assert successor.token > lease.token
    form.on(successor, "release")


def test_waiters_are_served_in_the_order_they_came(ways: Ways, form: Form, name: str) -> None:
    holder = form.acquire(ways.one, name)
    waiting = []
    for way in (ways.other, ways.one, ways.other, ways.one):
        waiting.append(form.start_verb(way, "acquire", name, wait_time=20))
        eventually(
            lambda: form.verb(ways.one, "state", name, consistent=True).waiters == len(waiting), what="one more waits"
        )
    # A newcomer that does not wait does not overtake who does.
    form.on(holder, "release")
    tokens = []
    for call in waiting:
        lease = call.result()
        tokens.append(lease.token)
        form.on(lease, "release")
    assert tokens == sorted(tokens)


def test_a_lease_that_was_waited_for_longer_than_it_lasts_can_be_used__A11(ways: Ways, form: Form, name: str) -> None:
    holder = form.acquire(ways.one, name, lease_time=0.9)
    lease = form.acquire(ways.other, name, wait_time=20, lease_time=0.5)
    assert lease.confidence == "held"
    assert 0.1 < lease.remaining() <= 0.5
    assert lease.token > holder.token
    form.on(lease, "release")


def test_a_wait_that_is_over_leaves_no_trace__C4(ways: Ways, form: Form, name: str) -> None:
    holder = form.acquire(ways.one, name)
    assert form.acquire(ways.other, name, wait_time=0.1) is None
    state = form.verb(ways.one, "state", name, consistent=True)
    assert (state.leader.token, state.waiters) == (holder.token, 0)
    form.on(holder, "release")
    state = form.verb(ways.one, "state", name, consistent=True)
    assert (state.leader, state.waiters) == (None, 0)
    assert form.leases(ways.one, name) == []


def test_state_shows_the_leader(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name, lease_time=30, node_id="me")
    for way in (ways.one, ways.other):
        state = form.verb(way, "state", name, consistent=True)
        assert (state.name, state.full_name) == (name, name)
        assert (state.leader.node_id, state.leader.token, state.leader.slot) == ("me", lease.token, 0)
        assert 20 < state.leader.expires_in <= 30
    form.on(lease, "release")


def test_group_state_counts_the_slots(ways: Ways, form: Form, name: str) -> None:
    leases = [form.acquire(ways.one, name, max_leaders=3) for _ in range(2)]
    state = form.verb(ways.other, "group_state", name, consistent=True)
    assert (state.max_leaders, state.active_count, state.available_slots) == (3, 2, 1)
    assert [leader.token for leader in state.leaders] == [lease.token for lease in leases]
    for lease in leases:
        form.on(lease, "release")


def test_leases_lists_what_is_live_under_a_prefix(ways: Ways, form: Form, name: str) -> None:
    names = [f"{name}/a", f"{name}/b", f"{name}0"]
    leases = [form.acquire(ways.one, each) for each in names]
    assert [info.name for info in form.leases(ways.other, f"{name}/")] == names[:2]
    assert [info.token for info in form.leases(ways.other, f"{name}/")] == [lease.token for lease in leases[:2]]
    for lease in leases:
        form.on(lease, "release")
    assert form.leases(ways.other, name) == []


def test_acquire_all_grants_all_or_none(ways: Ways, form: Form, name: str) -> None:
    names = [f"{name}/{each}" for each in "cab"]
    blocker = form.acquire(ways.other, names[1])
    assert form.verb(ways.one, "acquire_all", names) is None
    assert form.is_free(ways.one, names[0])
    waiting = form.start_verb(ways.one, "acquire_all", names, wait_time=20)
    form.on(blocker, "release")
    leases = waiting.result()
    assert [lease.name for lease in leases] == names
    assert len({lease.token for lease in leases}) == 3
    assert not any(form.is_free(ways.other, each) for each in names)
    leases.check()
    form.on(leases, "extend", 90)
    assert all(80 < lease.remaining() <= 90 for lease in leases)
    form.on(leases, "release")
    assert all(form.is_free(ways.other, each) for each in names)


@pytest.mark.parametrize("bad", ["", "-x", ".x", "a b", "a\n", "ä", "x" * 256, None, 7])
def test_a_bad_name_is_refused__B6(ways: Ways, form: Form, bad: Any) -> None:
    with pytest.raises(UsageError, match="name"):
        form.acquire(ways.one, bad)


@pytest.mark.parametrize("field", ["lease_time", "wait_time", "min_lease_time"])
@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, -math.inf, 10**12, "5", None, True])
def test_a_bad_duration_is_refused__B6(ways: Ways, form: Form, name: str, field: str, bad: Any) -> None:
    with pytest.raises(UsageError, match=field):
        form.acquire(ways.one, name, **{field: bad})


def test_one_coordinator_serves_many_callers_without_a_mix_up__D5(ways: Ways, form: Form, name: str) -> None:
    names = [f"{name}/{index}" for index in range(60)]
    calls = [form.start_verb(ways.one, "acquire", each, node_id=each[-40:]) for each in names]
    leases = [call.result() for call in calls]
    assert [lease.name for lease in leases] == names
    assert [lease.node_id for lease in leases] == [each[-40:] for each in names]
    assert len({lease.token for lease in leases}) == len(names)
    for lease in leases:
        form.on(lease, "release")
