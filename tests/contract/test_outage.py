"""An outage is never contention (rule 6): without a majority every form says ``Unavailable`` or ``Indeterminate``.

Knows: how to freeze a majority of node processes. Must not know: how a client finds out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tenure
from tenure import Indeterminate, LeaseEvent, Unavailable
from tests.contract.conftest import FORMS, STRATEGIC_FORMS
from tests.contract.support_forms import Form, Work
from tests.support import eventually
from tests.support_cluster import NodeGroup, free_ports

every_form = pytest.mark.parametrize("form", [*FORMS, *STRATEGIC_FORMS], indirect=True)


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeGroup]:
    with NodeGroup(tmp_path_factory.mktemp("outage")) as group:
        yield group


def test_nobody_there_is_unavailable__rule_6() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}"):
        tenure.connect(f"127.0.0.1:{port}", timeout=0.5)


@every_form
def test_no_majority_is_unavailable_and_the_name_is_free_afterwards__rule_6(
    group: NodeGroup, form: Form, name: str
) -> None:
    group.start()
    work = Work()
    with tenure.connect(group.endpoints, timeout=1.0) as coordinator:
        assert form.is_free(coordinator, name)
        frozen = group.followers()
        for node in frozen:
            node.pause()
        try:
            # Side by side, since each finds out only when its time is over; each for a name of its own, so that none stands before another.
            asked = [(f"{name}/{each}/{wait_s}", each, wait_s) for each in (False, True) for wait_s in (0, 0.5)]
            calls = [form.start(coordinator, one, work, result=each, wait_time=wait_s) for one, each, wait_s in asked]
            for call in calls:
                with pytest.raises((Unavailable, Indeterminate)):
                    call.result()
        finally:
            for node in frozen:
                node.resume()
        group.wait_ready()
        # Attempts that were given up are abandoned in the background, and hold nothing.
        eventually(
            lambda: all(form.is_free(coordinator, each[0]) for each in asked), within_s=10, what="the names are free"
        )
    assert work.calls == 0


def test_who_cannot_ask_is_no_verified_leader__rule_6(group: NodeGroup, name: str) -> None:
    group.start()
    with tenure.connect(group.endpoints, timeout=0.5) as coordinator, tenure.LeaderElector(coordinator).leading(name):
        tenure.assert_leader(verify=True)
        frozen = group.followers()
        for node in frozen:
            node.pause()
        try:
            # By its own clock it leads; the raft group cannot be asked.
            tenure.assert_leader()
            with pytest.raises(Unavailable, match="verify"):
                tenure.assert_leader(verify=True)
            tenure.assert_leader()
        finally:
            for node in frozen:
                node.resume()
        group.wait_ready()


@every_form
def test_a_killed_raft_leader_costs_no_lease_and_no_answer__A4(group: NodeGroup, form: Form, name: str) -> None:
    group.start()
    work = Work()
    with tenure.connect(group.endpoints) as coordinator:
        call = form.start(coordinator, name, work, lease_time=8, auto_extend=True)
        work.wait_started()
        group.leader().kill()
        # Found out by asking: the name is held by the same run, through the election and after it.
        assert form.acquire(coordinator, name, wait_time=0) is None
        assert work.lease.confidence == "held"
        work.finish("value")
        assert call.result() == "value"
        successor = form.acquire(coordinator, name)
        assert successor.token > work.lease.token
        form.on(successor, "release")


def test_a_watch_goes_on_over_killed_raft_leaders_without_a_gap__D9(group: NodeGroup, name: str) -> None:
    group.start()
    with tenure.connect(group.endpoints) as coordinator, coordinator.watch(name) as watch:
        told, tokens = [], []
        for _ in range(3):
            for _ in range(2):
                lease = coordinator.acquire(name, wait_time=0)
                assert lease is not None
                tokens.append(lease.token)
                lease.release()
            told.append(watch.next(20))
            # What is asked for now, and was not told yet, comes from a node that has not told anything so far.
            group.leader().kill()
            group.start()
        told += [watch.next(20) for _ in range(9)]
    assert [(event.kind, event.token) for event in told if isinstance(event, LeaseEvent)] == [
        (kind, token) for token in tokens for kind in ("granted", "released")
    ]
