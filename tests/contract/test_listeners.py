"""What listeners are told of a run, in every form and for every coordinator.

Knows: the public contract of ``ElectionListener``. Must not know: on which thread it is called.
"""

from __future__ import annotations

import pytest

import cluster.client
import tenure
from tenure import ElectionEvent, ElectionListener
from tenure.listeners import flush
from tests.contract.conftest import FORMS, GROUP_FORMS, STRATEGIC_FORMS, Ways
from tests.contract.support_forms import Form, Work
from tests.support import eventually

every_form = pytest.mark.parametrize("form", FORMS + STRATEGIC_FORMS + GROUP_FORMS, indirect=True)

Told = tuple[str, ElectionEvent]


class Notes(ElectionListener):
    def __init__(self) -> None:
        self.told: list[Told] = []

    def on_elected(self, event: ElectionEvent) -> None:
        self.told.append(("elected", event))

    def on_lost(self, event: ElectionEvent) -> None:
        self.told.append(("lost", event))

    def on_released(self, event: ElectionEvent) -> None:
        self.told.append(("released", event))

    def on_skipped(self, event: ElectionEvent) -> None:
        self.told.append(("skipped", event))

    def on_action_failed(self, event: ElectionEvent) -> None:
        self.told.append(("failed", event))

    def all(self) -> list[Told]:
        assert flush(20)
        return self.told


def events(name: str, lease: tenure.Lease, *told: tuple[str, str, BaseException | None]) -> list[Told]:
    return [
        (what, ElectionEvent(name, reason, lease.node_id, lease.slot, lease.token, error))
        for what, reason, error in told
    ]


@every_form
def test_a_run_is_told_from_its_grant_to_its_end(ways: Ways, form: Form, name: str) -> None:
    notes, work = Notes(), Work()
    call = form.start(ways.one, name, work, listeners=[notes])
    work.wait_started()
    elected = events(name, work.lease, ("elected", "", None))
    eventually(lambda: notes.told == elected, what="told while the work runs")
    work.finish("value")
    assert call.result() == "value"
    assert notes.all() == events(name, work.lease, ("elected", "", None), ("released", "completed", None))


@every_form
def test_a_failed_action_is_told_with_its_error(ways: Ways, form: Form, name: str) -> None:
    notes, work, error = Notes(), Work(), ValueError("mine")
    call = form.start(ways.one, name, work, listeners=[notes])
    work.fail(error)
    with pytest.raises(ValueError, match="mine"):
        call.result()
    assert notes.all() == events(
        name, work.lease, ("elected", "", None), ("failed", "ValueError", error), ("released", "failed", None)
    )


@every_form
def test_contention_is_told_as_a_skip(ways: Ways, form: Form, name: str) -> None:
    notes = Notes()
    holder = form.acquire(ways.other, name)
    assert form.run(ways.one, name, Work(), listeners=[notes], wait_time=0) is None
    form.on(holder, "release")
    assert notes.all() == [("skipped", ElectionEvent(name, "held" if form.queues else "not_elected"))]


@every_form
def test_a_lost_lease_is_told_before_its_work_has_ended__rule_7(ways: Ways, form: Form, name: str) -> None:
    notes, work = Notes(), Work(stubborn=True)
    call = form.start(ways.one, name, work, result=True, listeners=[notes], lease_time=0.3)
    work.wait_started()
    lost = events(name, work.lease, ("elected", "", None), ("lost", "expired", None))
    eventually(lambda: notes.told == lost, within_s=20, what="told while the work runs")
    assert not call.done
    work.finish("late")
    assert isinstance(call.result(), tenure.LeaseLost)
    assert notes.all() == lost


@pytest.mark.parametrize("ways", ["embedded", "embedded-3", "client"], indirect=True)
@pytest.mark.parametrize("form", FORMS, indirect=True)
def test_a_revocation_is_told_as_the_reason_of_the_loss(ways: Ways, form: Form, name: str) -> None:
    notes, work = Notes(), Work(stubborn=True)
    call = form.start(ways.one, name, work, result=True, listeners=[notes])
    work.wait_started()
    with cluster.client.connect(ways.endpoints, role="admin") as operator:
        assert operator.revoke(name) == 1
    lost = events(name, work.lease, ("elected", "", None), ("lost", "revoked", None))
    eventually(lambda: notes.told == lost, within_s=20, what="told while the work runs")
    work.finish("late")
    assert isinstance(call.result(), tenure.LeaseLost)
    assert notes.all() == lost
