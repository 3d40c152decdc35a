"""Watching, for every coordinator: numbers that all agree on, nothing missed from the subscription on (D9).

Knows: the public contract of ``coordinator.watch``. Must not know: how events travel.
"""

from __future__ import annotations

from typing import Any

import pytest

import cluster.client
from tenure import LeaseEvent, WatchGap
from tests.contract.conftest import Ways
from tests.contract.support_forms import Form

STEP_S = 15.0


def told(form: Form, watch: Any, count: int) -> list[Any]:
    """The next events; the watch is closed then."""
    found = [form.on(watch, "next", STEP_S) for _ in range(count)]
    form.on(watch, "close")
    return found


def test_whoever_watches_is_told_of_everything_from_then_on__D9(ways: Ways, form: Form, name: str) -> None:
    watch = form.verb(ways.other, "watch", name)
    lease = form.acquire(ways.one, name, node_id="host-a:1")
    form.on(lease, "release")
    granted, released = told(form, watch, 2)
    who = (name, lease.slot, lease.token, "host-a:1")
    assert granted == LeaseEvent(granted.sequence, "granted", *who)
    assert released == LeaseEvent(released.sequence, "released", *who, "completed")
    assert released.sequence > granted.sequence


def test_all_give_an_event_the_same_number_and_any_resumes__D9(ways: Ways, form: Form, name: str) -> None:
    one, other = form.verb(ways.one, "watch", name), form.verb(ways.other, "watch", name)
    leases = [form.acquire(ways.one, f"{name}/{number}") for number in range(3)]
    for lease in leases:
        form.on(lease, "release")
    seen = told(form, one, 6)
    assert told(form, other, 6) == seen
    assert [event.kind for event in seen] == ["granted"] * 3 + ["released"] * 3
    again = form.verb(ways.other, "watch", name, after=seen[2].sequence)
    assert told(form, again, 3) == seen[3:]


@pytest.mark.parametrize("ways", ["local", "client"], indirect=True)
def test_the_end_of_a_lease_has_its_name__D9(ways: Ways, form: Form, name: str) -> None:
    watch = form.verb(ways.one, "watch", name, extended=True)
    form.acquire(ways.one, f"{name}/over", lease_time=0.2)
    kept = form.acquire(ways.one, f"{name}/kept", lease_time=20, min_lease_time=0.3)
    form.on(kept, "extend", 30)
    form.on(kept, "release")
    seen = told(form, watch, 6)
    # Expiries are told when they are swept, once a second where nothing else happens.
    assert sorted((event.name.rpartition("/")[2], event.kind) for event in seen) == [
        ("kept", "extended"),
        ("kept", "granted"),
        ("kept", "released"),
        ("kept", "vacated"),
        ("over", "expired"),
        ("over", "granted"),
    ]


@pytest.mark.parametrize("ways", ["embedded", "embedded-3", "client"], indirect=True)
def test_revocations_say_whether_by_force(ways: Ways, form: Form, name: str) -> None:
    watch = form.verb(ways.one, "watch", name)
    with cluster.client.connect(ways.endpoints, role="admin") as operator:
        form.acquire(ways.one, name)
        operator.revoke(name)
        operator.revoke(name, force=True)
    assert [(event.kind, event.reason) for event in told(form, watch, 3)] == [
        ("granted", ""),
        ("revoked", "marked"),
        ("revoked", "forced"),
    ]


def test_what_is_not_known_any_more_is_said__D9(ways: Ways, form: Form, name: str) -> None:
    lease = form.acquire(ways.one, name)
    watch = form.verb(ways.one, "watch", name, after=1)
    gap = form.on(watch, "next", STEP_S)
    form.on(watch, "close")
    form.on(lease, "release")
    assert isinstance(gap, WatchGap)
    assert (gap.after, gap.sequence > 1) == (1, True)
