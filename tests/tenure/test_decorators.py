"""Decorated functions and coroutine functions: names, what is refused when, what an outage means, what is marked.

Knows: the public decorators, the fake coordinator. Must not know: how they are made.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

import pytest

import tenure
from cluster.errors import CoordinationError
from cluster.opcodes import Outcome
from tenure import (
    ActionFailed,
    Elected,
    LeaderElector,
    LeaseLost,
    NotLeaderError,
    Skipped,
    Unavailable,
    Unled,
    UsageError,
    leader_only,
)
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_decorated import OUTAGES, Form, failing, outage, seen

pytestmark = pytest.mark.fast

FORMS = ["blocking", "asyncio"]


@pytest.fixture
def coordinator() -> Any:
    return FakeCoordinator()


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, coordinator: Any) -> Form:
    return Form(request.param, coordinator)


def test_a_call_runs_under_its_name_and_gives_it_back__rule_1(form: Form, coordinator: Any) -> None:
    def report(region: str, *, times: int = 1) -> Any:
        lease = tenure.current_lease()
        assert lease is not None
        assert not tenure.runs_unled()
        return lease.name, region * times

    call = form.decorated(report, "report-{region}-{times}")
    assert call("eu") == ("report-eu-1", "eu")
    assert call(region="us", times=2) == ("report-us-2", "usus")
    assert coordinator.outcomes == {1: Outcome.COMPLETED, 2: Outcome.COMPLETED}


def test_a_name_that_others_hold_is_a_skip_in_every_mode__rule_2(form: Form, coordinator: Any) -> None:
    coordinator.grant(_Lease, "job", {"node_id": "the-holder"})
    calls: list[int] = []
    for mode in ("raise", "skip", "run_anyway"):
        assert form.decorated(lambda: calls.append(1), failure_mode=mode)() is None
        skipped = form.decorated(lambda: calls.append(1), failure_mode=mode, result=True)()
        assert skipped == Skipped("held", "the-holder")
    assert calls == []


class _Lease:
    def __init__(self, owner: object, name: str, token: int, node_id: str) -> None:
        self.node_id = node_id


def test_endings_are_values_where_results_are_wanted__rule_3(form: Form, coordinator: Any) -> None:
    error = ValueError("mine")
    assert form.decorated(lambda: 5, result=True)() == Elected(5, "fake", 1)
    assert form.decorated(lambda: failing(error), result=True)() == ActionFailed(error, 2)
    coordinator.born_lost = True
    assert form.decorated(lambda: 5, result=True)() == LeaseLost(None, None, 3)
    coordinator.born_lost = False
    with pytest.raises(ValueError, match="mine") as caught:
        form.decorated(lambda: failing(error))()
    assert caught.value is error


@pytest.mark.parametrize("error", OUTAGES)
def test_an_outage_is_raised_unless_said_otherwise__rule_6(form: Form, coordinator: Any, error: Exception) -> None:
    outage(coordinator, error)
    calls: list[int] = []
    for result in (False, True):
        with pytest.raises(type(error)) as caught:
            form.decorated(lambda: calls.append(1), result=result)()
        assert caught.value is error
        skip = form.decorated(lambda: calls.append(1), failure_mode="skip", result=result)
        assert skip() == (Skipped("unavailable") if result else None)
    assert calls == []


@pytest.mark.parametrize("error", OUTAGES)
def test_a_run_without_a_lease_is_marked_and_not_taken_for_a_led_one(
    form: Form, coordinator: Any, error: CoordinationError, caplog: pytest.LogCaptureFixture
) -> None:
    outage(coordinator, error)

    def work(name: str) -> Any:
        assert seen() == (None, True)
        assert (tenure.current_lease(name), tenure.runs_unled(name), tenure.runs_unled("other")) == (None, True, False)
        for wanted in (None, name):
            with pytest.raises(NotLeaderError, match="without a lease on 'job'"):
                tenure.assert_leader(wanted)
        return "done"

    assert form.decorated(work, failure_mode="run_anyway")("job") == "done"
    result = form.decorated(work, failure_mode="run_anyway", result=True)("job")
    assert result == Unled("done", None, error)
    assert not isinstance(result, Elected)
    assert [record.getMessage().split()[0] for record in caplog.records if record.name.startswith("tenure")] == [
        "run.unled"
    ] * 2
    assert seen() == (None, False)


def test_an_unled_run_within_a_led_one_does_not_stand_under_its_lease(coordinator: Any) -> None:
    elector = LeaderElector(coordinator)
    inner = leader_only(elector, "inner", failure_mode="run_anyway")(seen)

    def outer() -> None:
        lease = tenure.current_lease()
        outage(coordinator, OUTAGES[0])
        assert inner() == (None, True)
        assert seen() == (lease, False)

    elector.run_if_leader("outer", outer)


def test_an_error_of_an_unled_run_is_its_own(form: Form, coordinator: Any) -> None:
    outage(coordinator, OUTAGES[0])
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        form.decorated(lambda: failing(error), failure_mode="run_anyway")()
    assert caught.value is error
    assert error.__context__ is None
    result = form.decorated(lambda: failing(error), failure_mode="run_anyway", result=True)()
    assert result == Unled(None, error, OUTAGES[0])
    assert seen() == (None, False)


@pytest.mark.parametrize("mode", ["skip", "run_anyway"])
def test_an_outage_that_the_function_met_is_its_own_error_and_it_runs_once(form: Form, mode: str) -> None:
    calls: list[int] = []

    def work() -> None:
        calls.append(1)
        raise OUTAGES[0]

    with pytest.raises(Unavailable):
        form.decorated(work, failure_mode=mode)()
    assert calls == [1]


@pytest.mark.parametrize("mode", ["raise", "skip", "run_anyway"])
def test_what_is_no_outage_is_raised_in_every_mode__rule_6(form: Form, coordinator: Any, mode: str) -> None:
    calls: list[int] = []
    for error in (tenure.AuthenticationError("no"), tenure.ProtocolError("no"), UsageError("no")):
        outage(coordinator, error)
        with pytest.raises(type(error)):
            form.decorated(lambda: calls.append(1), failure_mode=mode)()
    outage(coordinator, OUTAGES[0])
    bad_names: list[Any] = ["a b", "", "ä", None, 7]
    for bad in bad_names:
        with pytest.raises(UsageError, match="name"):
            form.decorated(lambda: calls.append(1), functools.partial(lambda bad: bad, bad), failure_mode=mode)()
    with pytest.raises(LookupError):
        form.decorated(lambda: calls.append(1), lambda: failing(LookupError()), failure_mode=mode)()
    assert calls == []


class Region(str, enum.Enum):
    EU = "eu"


class Level(enum.IntEnum):
    HIGH = 3


class Evil:
    secret = "leaked"

    def __format__(self, spec: str) -> str:
        raise AssertionError("evaluated")

    __str__ = __repr__ = lambda self: self.__format__("")


def test_a_field_is_an_argument_as_it_is(form: Form, coordinator: Any) -> None:
    def work(a: object, /, b: object = 2, *, c: object = "z") -> Any:
        lease = tenure.current_lease()
        return lease and lease.name

    call = form.decorated(work, "n-{a}/{c}:{b}")
    assert call("x") == "n-x/z:2"
    assert call(Region.EU, c=Level.HIGH, b=-1) == "n-eu/3:-1"
    wrong: list[Any] = [None, True, 1.5, b"x", ["x"], Evil()]
    for value in wrong:
        with pytest.raises(UsageError, match="the argument a is"):
            call(value)
    with pytest.raises(UsageError, match="not a valid name"):
        call("a b")
    for args in ((), ("x", 1, 2)):
        with pytest.raises(TypeError):
            call(*args)
    assert len(coordinator.acquired) == 2


@pytest.mark.parametrize(
    "name",
    ["", "a b", "-{a}", "{a.secret}", "{a[0]}", "{a!r}", "{a:>9}", "{0}", "{}", "{b}", "{args}", "{kwargs}", "{a", "a}",
     "x{{a}}", "x" * 256, None, 7],
)  # fmt: skip
def test_a_name_that_can_be_none_is_refused_when_decorated__B6(form: Form, name: Any) -> None:
    def work(a: object, *args: object, **kwargs: object) -> None: ...

    with pytest.raises(UsageError, match="name"):
        form.decorated(work, name)


def test_a_function_says_the_name_from_the_calls_own_arguments(form: Form) -> None:
    def work(day: object, **rest: object) -> Any:
        lease = tenure.current_lease()
        return lease and lease.name

    call = form.decorated(work, lambda day, **rest: f"day-{day['n']}-{rest['x']}")
    assert call({"n": 4}, x=5) == "day-4-5"

    async def naming() -> str:
        return "job"

    with pytest.raises(UsageError, match="coroutine function"):
        form.decorated(work, naming)


def same(n: object) -> object:
    return n


def test_a_tenants_elector_leads_its_own_names__F6(coordinator: Any) -> None:
    elector = LeaderElector(coordinator).for_tenant("acme")
    lease: Any = leader_only(elector, "job")(tenure.current_lease)()
    assert lease.name == "tenant:acme:job"
    with pytest.raises(UsageError, match="':'"):
        leader_only(elector, "a:b")(seen)
    with pytest.raises(UsageError, match="':'"):
        leader_only(elector, "job-{n}")(same)("a:b")
