"""Strategic electors: when they stand, whom they let lead, how they end (F4, F5, F6).

Knows: the public electors, ``local``. Must not know: how candidacies are kept, how a claim is made. That rules 1 to 8 hold for them as
for every form is asked by ``tests/contract``.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tenure
from tenure import Elected, ElectionOptions, RankedStrategy, Skipped, UsageError
from tenure.history import History, MemorySink
from tests.support import eventually

pytestmark = pytest.mark.fast

FORMS = ["blocking", "asyncio"]


@pytest.fixture
def coordinator() -> Iterator[tenure.Coordinator]:
    with tenure.local() as coordinator:
        yield coordinator


class Form:
    """Both electors, as blocking calls."""

    def __init__(self, kind: str, coordinator: tenure.Coordinator) -> None:
        self._in_tasks = kind == "asyncio"
        self._coordinator = coordinator

    def elector(self, node_id: str | None = None, *, wait_time: float = 0.0, history: Any = None, **more: Any) -> Any:
        make = tenure.AsyncStrategicLeaderElector if self._in_tasks else tenure.StrategicLeaderElector
        options = ElectionOptions(wait_time=wait_time, node_id=node_id)
        return make(self._coordinator, options, history=history, **{"strategy": RankedStrategy(), **more})

    def call(self, verb: Callable[..., Any], *args: Any) -> Any:
        return asyncio.run(verb(*args)) if self._in_tasks else verb(*args)

    def run(self, elector: Any, name: str, work: Callable[[], Any] = lambda: "done") -> Any:
        async def task() -> Any:
            return work()

        return self.call(elector.run_if_leader_result, name, task if self._in_tasks else work)


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, coordinator: tenure.Coordinator) -> Form:
    return Form(request.param, coordinator)


def stands(coordinator: tenure.Coordinator, name: str) -> list[str]:
    return [info.node_id for info in coordinator.candidates(name)]


def test_it_stands_from_its_first_run_until_it_is_closed(form: Form, coordinator: tenure.Coordinator) -> None:
    elector = form.elector("a")
    assert stands(coordinator, "job") == []
    assert isinstance(form.run(elector, "job"), Elected)
    assert stands(coordinator, "job") == ["a"]
    form.call(elector.stand, "other")
    assert stands(coordinator, "other") == ["a"]
    elector.close()
    elector.close()
    eventually(lambda: not stands(coordinator, "job") and not stands(coordinator, "other"), what="unregistered")
    with pytest.raises(UsageError, match="closed"):
        form.run(elector, "job")


def test_it_says_of_itself_what_it_was_given(form: Form, coordinator: tenure.Coordinator) -> None:
    elector = form.elector(None, weight=2.5, rank=3, metadata={"zone": "eu"}, ttl=60)
    form.call(elector.stand, "job")
    (info,) = coordinator.candidates("job")
    assert (info.node_id, info.weight, info.rank, info.metadata) == (coordinator.node_id, 2.5, 3, {"zone": "eu"})
    elector.close()


def test_which_release_stands_is_said_with_it(coordinator: tenure.Coordinator) -> None:
    options = ElectionOptions(node_id="a", worker_version="1.4.2")
    with tenure.StrategicLeaderElector(coordinator, options, metadata={"zone": "eu"}) as elector:
        with elector.leading("job"):
            assert [lease.worker_version for lease in coordinator.leases()] == ["1.4.2"]
        (info,) = coordinator.candidates("job")
        assert (info.worker_version, info.metadata["zone"]) == ("1.4.2", "eu")


def test_one_that_is_forgotten_stands_no_more(form: Form, coordinator: tenure.Coordinator) -> None:
    elector = form.elector("a")
    form.run(elector, "job")
    del elector
    gc.collect()
    eventually(lambda: not stands(coordinator, "job"), what="unregistered")


def test_the_elected_leads_and_the_others_are_not_elected(form: Form, coordinator: tenure.Coordinator) -> None:
    first, second = form.elector("a", rank=1, claim_timeout=600), form.elector("b", rank=2, claim_timeout=600)
    form.call(first.stand, "job")
    assert form.run(second, "job") == Skipped("not_elected")
    assert form.run(first, "job").node_id == "a"
    assert form.call(second.elect, "job").scores == {"a": -1.0, "b": -2.0}
    with coordinator.acquire("job", node_id="outsider") or pytest.fail("the name is free"):
        assert form.run(first, "job") == Skipped("held", "outsider")
    first.close()
    eventually(lambda: stands(coordinator, "job") == ["b"], what="only one is left")
    assert form.run(second, "job").node_id == "b"
    second.close()


def test_who_comes_next_leads_when_the_winner_does_not_ask__F4(form: Form, coordinator: tenure.Coordinator) -> None:
    idle = form.elector("idle", rank=0)
    form.call(idle.stand, "job")
    elector = form.elector("next", rank=1, wait_time=20, claim_timeout=0.1)
    assert form.run(elector, "job").node_id == "next"
    for each in (idle, elector):
        each.close()


def test_what_its_runs_came_to_is_counted__F5(form: Form, coordinator: tenure.Coordinator) -> None:
    def broken() -> None:
        raise ValueError("the work's own")

    elector = form.elector("a")
    for work in (lambda: 1, broken, lambda: 2):
        form.run(elector, "job", work)
    (info,) = coordinator.candidates("job")
    assert (info.success_count, info.failure_count) == (2, 1)
    elector.close()


def test_runs_are_recorded_like_any_others(form: Form, coordinator: tenure.Coordinator) -> None:
    sink = MemorySink()
    with History(sink, skipped=True) as history:
        first, second = (
            form.elector("a", history=history),
            form.elector("b", rank=1, history=history, claim_timeout=600),
        )
        form.run(first, "job")
        form.run(second, "job")
        for each in (first, second):
            each.close()
    assert [(run.status, run.node_id) for run in sink.runs()] == [("completed", "a"), ("skipped", None)]


def test_a_tenants_candidates_are_its_own__F6(form: Form, coordinator: tenure.Coordinator) -> None:
    elector = form.elector("a")
    acme, zeta = elector.for_tenant("acme"), elector.for_tenant("zeta")
    form.run(acme, "job")
    assert (stands(coordinator, "tenant:acme:job"), stands(coordinator, "job")) == (["a"], [])
    form.call(zeta.stand, "job")
    assert form.call(zeta.elect, "job").winner == "a"
    elector.close()
    eventually(lambda: not stands(coordinator, "tenant:acme:job"), what="twins end with their elector")
    with pytest.raises(UsageError, match="closed"):
        form.run(zeta, "job")


def test_candidates_of_one_node_id_stand_until_the_last_of_them_is_closed(
    form: Form, coordinator: tenure.Coordinator
) -> None:
    one, two = form.elector("a"), form.elector("a")
    form.run(one, "job")
    form.run(two, "job")
    one.close()
    assert form.run(two, "job").node_id == "a"
    assert stands(coordinator, "job") == ["a"]
    two.close()


def test_decorators_take_them(coordinator: tenure.Coordinator) -> None:
    with tenure.StrategicLeaderElector(coordinator, ElectionOptions(wait_time=0), rank=1) as elector:

        @tenure.leader_only(elector, "report-{region}")
        def report(region: str) -> str:
            return region

        assert report("eu") == "eu"
        assert stands(coordinator, "report-eu") == [coordinator.node_id]


def test_leading_and_decorated_coroutines(coordinator: tenure.Coordinator) -> None:
    async def main() -> None:
        async with tenure.AsyncStrategicLeaderElector(coordinator, ElectionOptions(wait_time=0)) as elector:

            @tenure.leader_only(elector, "report")
            async def report() -> str:
                return "done"

            assert await report() == "done"
            async with elector.leading("body") as lease:
                assert lease.name == "body"

    asyncio.run(main())
    with tenure.StrategicLeaderElector(coordinator) as elector, elector.leading("body") as lease:
        assert lease.node_id == coordinator.node_id


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"strategy": "fifo"}, "strategy is str"),
        ({"strategy": RankedStrategy}, "strategy is the class RankedStrategy"),
        ({"weight": float("nan")}, "weight=nan"),
        ({"weight": 10**400}, "weight=1000"),
        ({"rank": 10**5000}, "rank=an int"),
        ({"rank": 1.0}, "rank=1.0"),
        ({"metadata": [1]}, "metadata must be a mapping"),
        ({"ttl": 0.05}, "ttl=0.05 s"),
        ({"claim_timeout": -1}, "claim_timeout=-1 s"),
        ({"claim_timeout": float("inf")}, "claim_timeout"),
    ],
)
def test_what_cannot_be_honoured_is_refused(form: Form, given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        form.elector("a", **given)


def test_a_node_id_that_is_computed_is_computed_once(coordinator: tenure.Coordinator) -> None:
    made = iter(["one", "two"])
    with tenure.StrategicLeaderElector(coordinator, ElectionOptions(node_id=lambda: next(made))) as elector:
        assert [elector.run_if_leader_result("job", int).node_id for _ in range(2)] == ["one", "one"]  # type: ignore[union-attr]


@pytest.mark.parametrize("place", [-1, 1, 10**6, 2**70, 0.0, True, "first"])
def test_a_strategy_that_says_an_impossible_place_is_refused_and_harms_nobody(form: Form, place: Any) -> None:
    class Strange:
        def elect(self, candidates: Any) -> Any:
            return self

        def place_of(self, node_id: str) -> Any:
            return place

    with pytest.raises(UsageError, match="Strange says place"):
        form.run(form.elector("a", strategy=Strange()), "job")
    assert isinstance(form.run(form.elector("b", rank=-1, claim_timeout=0), "job"), Elected)


def test_a_strategy_that_returns_no_result_is_refused(form: Form) -> None:
    class Forgetful:
        def elect(self, candidates: Any) -> Any:
            return None

    with pytest.raises(UsageError, match=r"Forgetful\.elect returned NoneType"):
        form.run(form.elector("a", strategy=Forgetful()), "job")
