"""An operator ends a lease: its holder is told and the name is free when it confirms (rule 7), for every raft group.

Knows: ``revoke`` of a coordinator with the admin role. Must not know: how the holder hears of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import cluster.client
import tenure
from tenure import LeaseLost, NotHeld, NotLeaderError, UsageError
from tests.contract.conftest import FORMS, Ways
from tests.contract.support_forms import Form, Work
from tests.support import eventually

pytestmark = pytest.mark.parametrize("ways", ["embedded", "embedded-3", "client"], indirect=True)


@pytest.fixture
def operator(ways: Ways) -> Iterator[Any]:
    with cluster.client.connect(ways.endpoints, role="admin") as coordinator:
        yield coordinator


@pytest.mark.parametrize("form", FORMS, indirect=True)
def test_a_revoked_lease_is_lost_and_frees_the_name_when_its_holder_confirms__rule_7(
    ways: Ways, form: Form, name: str, operator: Any
) -> None:
    work = Work(stubborn=True)
    call = form.start(ways.one, name, work, result=True, auto_extend=True)
    work.wait_started()
    assert form.verb(operator, "revoke", name) == 1
    eventually(work.lease.lost.is_set, what="the holder is told")
    assert work.lease.confidence == "lost"
    # Not before the work under it has ended.
    assert not form.is_free(ways.other, name)
    work.finish("late")
    assert call.result() == LeaseLost("late", None, work.lease.token)
    assert form.is_free(ways.other, name)


@pytest.mark.parametrize("form", ["asyncio", "future"], indirect=True)
def test_a_revoked_lease_cancels_its_action__rule_7(ways: Ways, form: Form, name: str, operator: Any) -> None:
    work = Work()
    call = form.start(ways.one, name, work, result=True)
    work.wait_started()
    assert operator.revoke(name) == 1
    assert call.result() == LeaseLost(None, None, work.lease.token)
    assert work.cancelled.is_set()
    assert form.is_free(ways.other, name)


def test_a_revoked_lease_cannot_be_extended__I4(ways: Ways, form: Form, name: str, operator: Any) -> None:
    lease = form.acquire(ways.one, name)
    assert operator.revoke(name) == 1
    assert operator.revoke(name) == 0
    assert form.on(lease, "extend", 90) == NotHeld()
    assert form.on(lease, "release") is False
    assert form.is_free(ways.other, name)


def test_a_slot_is_revoked_alone__F2(ways: Ways, form: Form, name: str, operator: Any) -> None:
    leases = [form.acquire(ways.one, name, max_leaders=2) for _ in range(2)]
    assert operator.revoke(name, leases[1].slot) == 1
    eventually(leases[1].lost.is_set, what="its holder is told")
    leases[0].check()
    assert not leases[0].lost.is_set()
    for lease in leases:
        form.on(lease, "release")


def test_force_frees_at_once(ways: Ways, form: Form, name: str, operator: Any) -> None:
    lease = form.acquire(ways.one, name)
    assert form.verb(operator, "revoke", name, force=True) == 1
    successor = form.acquire(ways.other, name)
    assert successor.token > lease.token
    eventually(lease.lost.is_set, what="the former holder is told")
    form.on(lease, "release")
    successor.check()
    form.on(successor, "release")


def test_revoking_needs_the_admin_role(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name)
    with pytest.raises(UsageError, match="admin"):
        form.verb(ways.other, "revoke", name)
    lease.check()
    form.on(lease, "release")


def test_a_verified_leader_is_what_the_raft_group_says__rule_7(ways: Ways, name: str, operator: Any) -> None:
    async def in_a_task() -> None:
        async with tenure.AsyncLeaderElector(ways.one, tenure.ElectionOptions(on_lost="signal")).leading(name) as lease:
            assert await tenure.aio.assert_leader(verify=True) is lease
            with pytest.raises(UsageError, match=r"tenure\.aio\.assert_leader"):
                tenure.assert_leader(verify=True)
            assert operator.revoke(name, force=True) == 1
            with pytest.raises(NotLeaderError, match=name):
                await tenure.aio.assert_leader(verify=True)

    def in_a_thread() -> None:
        with tenure.LeaderElector(ways.one).leading(name) as lease:
            assert tenure.assert_leader(name, verify=True) is lease
            assert operator.revoke(name, force=True) == 1
            with pytest.raises(NotLeaderError, match=name):
                tenure.assert_leader(verify=True)

    with pytest.raises(tenure.LeaseLostError):
        in_a_thread()
    with pytest.raises(tenure.LeaseLostError):
        asyncio.run(in_a_task())
