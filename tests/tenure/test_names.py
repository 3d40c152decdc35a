"""Names, tenants, identities and kinds of options: the same in every form (F6, C7).

Knows: the public electors, the fake coordinator. Must not know: the engine.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from typing import Any

import pytest

import tenure
from tenure import (
    AsyncLeaderElector,
    AsyncLeaderGroupElector,
    Coordinator,
    ElectionOptions,
    GroupElectionOptions,
    LeaderElector,
    LeaderGroupElector,
    UsageError,
    identity,
)
from tests.tenure.fake import FakeCoordinator

pytestmark = pytest.mark.fast

SINGLE: list[Any] = [LeaderElector, AsyncLeaderElector]
GROUPS: list[Any] = [LeaderGroupElector, AsyncLeaderGroupElector]
EVERY = [*SINGLE, *GROUPS]
BLOCKING: list[Any] = [LeaderElector, LeaderGroupElector]


async def _waited(value: Any) -> Any:
    return await value


def led(elector: Any, name: Any) -> Any:
    """The lease under which an action of this elector runs."""

    async def work() -> Any:
        return tenure.current_lease()

    if isinstance(elector, (AsyncLeaderElector, AsyncLeaderGroupElector)):
        return asyncio.run(_waited(elector.run_if_leader(name, work)))
    return elector.run_if_leader(name, tenure.current_lease)


@pytest.mark.parametrize("kind", EVERY)
def test_a_tenants_name_is_stored_with_its_tenant_and_shared_with_no_other__F6(
    kind: Any, tenure_local: Coordinator
) -> None:
    elector = kind(tenure_local)
    acme = elector.for_tenant("acme")
    assert (elector.tenant, acme.tenant, acme.options) == (None, "acme", elector.options)
    assert type(acme) is kind
    assert led(acme, "job").name == "tenant:acme:job"
    assert led(elector, "job").name == "job"
    assert led(elector.for_tenant("acme/b"), "job").name != led(acme, "b/job").name


@pytest.mark.parametrize("kind", BLOCKING)
def test_tenants_do_not_contend_and_see_their_own_names_in_states__F6(kind: Any, tenure_local: Coordinator) -> None:
    elector = kind(tenure_local)
    acme, other = elector.for_tenant("acme"), elector.for_tenant("other")
    with acme.leading("job") as one, other.leading("job"), elector.leading("job"):
        shown = acme.state("job", consistent=True) if kind is LeaderElector else acme.group_state("job")
        assert (shown.name, shown.full_name) == ("job", "tenant:acme:job")
        leaders = (shown.leader,) if kind is LeaderElector else shown.leaders
        assert [leader.token for leader in leaders] == [one.token]


@pytest.mark.parametrize("kind", EVERY)
def test_no_tenant_reaches_the_names_of_another__F6(kind: Any) -> None:
    coordinator: Any = FakeCoordinator()
    elector = kind(coordinator)
    for bad in ("a:b", "", ":", "-a", "a b", None, 7, "x" * 256):
        with pytest.raises(UsageError, match="tenant_id"):
            elector.for_tenant(bad)
    acme = elector.for_tenant("acme")
    with pytest.raises(UsageError, match="tenant 'acme'"):
        acme.for_tenant("other")
    for bad in ("a:b", "", "-a", None):
        with pytest.raises(UsageError, match="name"):
            led(acme, bad)
        with pytest.raises(UsageError, match="name"):
            acme.leading(bad)
    # 255 characters with the tenant's own.
    longest = "x" * (255 - len("tenant:acme:"))
    assert led(acme, longest).name == f"tenant:acme:{longest}"
    with pytest.raises(UsageError, match="full name"):
        led(acme, longest + "x")
    assert len(coordinator.acquired) == 1


@pytest.mark.parametrize("kind", EVERY)
def test_a_bad_name_is_refused_before_anything_is_asked__B6(kind: Any) -> None:
    coordinator: Any = FakeCoordinator()
    for bad in ("", "a\n", "ä", "x" * 256, None):
        with pytest.raises(UsageError, match="name"):
            led(kind(coordinator), bad)
    assert not coordinator.acquired


def test_each_kind_of_elector_takes_its_own_options() -> None:
    coordinator: Any = FakeCoordinator()
    for kind in SINGLE:
        with pytest.raises(UsageError, match="ElectionOptions"):
            kind(coordinator, GroupElectionOptions())
    for kind in GROUPS:
        assert kind(coordinator).options.max_leaders == 2
        with pytest.raises(UsageError, match="GroupElectionOptions"):
            kind(coordinator, ElectionOptions())


def test_a_group_asks_for_as_many_leaders_as_it_may_have() -> None:
    for kind in GROUPS:
        coordinator: Any = FakeCoordinator()
        led(kind(coordinator, GroupElectionOptions(max_leaders=5)), "job")
        assert coordinator.acquired[0]["max_leaders"] == 5


@pytest.mark.parametrize("bad", [0, -1, 1025, True, 1.5, "2"])
def test_max_leaders_out_of_range_is_refused__B6(bad: Any) -> None:
    with pytest.raises(UsageError, match="max_leaders"):
        GroupElectionOptions(max_leaders=bad)


def test_both_ends_of_max_leaders_are_taken__B6() -> None:
    assert [GroupElectionOptions(limit).max_leaders for limit in (1, 1024)] == [1, 1024]


def test_a_group_that_nobody_leads_has_all_its_slots_free__F1(tenure_local: Coordinator) -> None:
    elector = LeaderGroupElector(tenure_local, GroupElectionOptions(3))
    state = elector.group_state("job")
    assert (state.max_leaders, state.active_count, state.available_slots) == (3, 0, 3)
    with elector.leading("job"):
        state = elector.group_state("job")
        assert (state.max_leaders, state.active_count, state.available_slots) == (3, 1, 2)


@pytest.mark.parametrize("kind", EVERY)
def test_the_node_id_is_hostname_and_pid_unless_said_otherwise__C7(kind: Any, tenure_local: Coordinator) -> None:
    options = GroupElectionOptions if kind in GROUPS else ElectionOptions
    said = iter(["first", "second"])
    assert led(kind(tenure_local), "job").node_id == identity.host_and_pid()
    assert led(kind(tenure_local, options(node_id="me")), "job").node_id == "me"
    elector = kind(tenure_local, options(node_id=lambda: next(said)))
    assert [led(elector, "job").node_id for _ in range(2)] == ["first", "second"]
    drawn = kind(tenure_local, options(node_id=identity.random()))
    assert led(drawn, "job").node_id == led(drawn, "job").node_id
    composed = identity.composed("eu", identity.host_and_pid)
    assert led(kind(tenure_local, options(node_id=composed)), "job").node_id == f"eu/{identity.host_and_pid()}"
    assert identity.host_and_pid().endswith(f":{os.getpid()}")


@pytest.mark.parametrize("kind", EVERY)
def test_a_node_id_that_cannot_be_shown_is_refused_and_holds_nothing(kind: Any, tenure_local: Coordinator) -> None:
    options = GroupElectionOptions if kind in GROUPS else ElectionOptions
    with pytest.raises(UsageError, match="node_id"):
        options(node_id="")

    def broken() -> str:
        raise LookupError("no identity")

    unshowable: list[Any] = ["", "x" * 256, "a\nb", 7]
    for wrong in unshowable:
        with pytest.raises(UsageError, match="node_id"):
            led(kind(tenure_local, options(node_id=itertools.repeat(wrong).__next__)), "job")
    with pytest.raises(LookupError, match="no identity"):
        led(kind(tenure_local, options(node_id=broken)), "job")
    assert not list(tenure_local.leases())


def test_a_composed_identity_needs_parts_that_can_be_said() -> None:
    wrong: list[Any] = [(), (7,), ("a", None)]
    for parts in wrong:
        with pytest.raises(UsageError, match="composed"):
            identity.composed(*parts)


@pytest.mark.parametrize("kind", EVERY)
def test_the_workers_version_is_kept_with_the_lease_and_shown(kind: Any, tenure_local: Coordinator) -> None:
    def shown() -> list[str | None]:
        return [lease.worker_version for lease in tenure_local.leases("job")]

    async def shown_async() -> list[str | None]:
        return shown()

    look = shown if kind in BLOCKING else shown_async
    options = GroupElectionOptions if kind in GROUPS else ElectionOptions
    outcomes = []
    for version in (None, "1.4.2"):
        outcome = kind(tenure_local, options(worker_version=version)).run_if_leader("job", look)
        outcomes.append(outcome if kind in BLOCKING else asyncio.run(_waited(outcome)))
    assert outcomes == [[None], ["1.4.2"]]


def test_a_version_that_is_no_text_is_not_shown(tenure_local: Coordinator) -> None:
    tenure_local.acquire("job", metadata={"worker_version": 7})
    assert [lease.worker_version for lease in tenure_local.leases()] == [None]


def test_two_electors_with_one_node_id_are_two_contenders__C7(tenure_local: Coordinator) -> None:
    one, other = (LeaderElector(tenure_local, ElectionOptions(node_id="me", wait_time=0)) for _ in range(2))
    with one.leading("job"):
        assert other.run_if_leader("job", lambda: True) is None
