"""Which functions and electors go together, what is refused when, and what a function keeps when it is decorated (D7).

Knows: the public decorators, the fake coordinator. Must not know: how they are made.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import unittest.mock
from collections.abc import Callable
from typing import Any

import pytest

import tenure
from tenure import (
    AsyncLeaderElector,
    AsyncLeaderGroupElector,
    ElectionOptions,
    LeaderElector,
    LeaderGroupElector,
    UsageError,
    leader_group_only,
    leader_only,
)
from tests.tenure.fake import FakeCoordinator
from tests.tenure.support_decorated import OUTAGES, outage, seen

pytestmark = pytest.mark.fast


@pytest.fixture
def coordinator() -> Any:
    return FakeCoordinator()


class Service:
    elector = LeaderElector(FakeCoordinator())  # type: ignore[arg-type]

    @leader_only(elector, "run-{times}")
    def run(self, times: int) -> str | None:
        """What it does."""
        lease = tenure.current_lease()
        return lease.name if isinstance(self, Service) and lease is not None else None

    @staticmethod
    @leader_only(elector, "static")
    def static() -> int:
        return 5


def test_methods_keep_their_signature_and_their_words() -> None:
    assert Service().run(3) == "run-3"
    assert Service.static() == 5
    assert inspect.signature(Service.run) == inspect.signature(inspect.unwrap(Service.run))
    assert list(inspect.signature(Service.run).parameters) == ["self", "times"]
    assert (Service.run.__name__, Service.run.__doc__) == ("run", "What it does.")
    call: Callable[[int], str | None] = Service().run
    assert call(times=4) == "run-4"  # type: ignore[call-arg]


def _wrong(*each: Any) -> tuple[Any, ...]:
    return each


class Unsigned:
    __signature__ = "none"

    def __call__(self) -> None: ...


async def _coroutine() -> int:
    return 1


def _plain() -> int:
    return 1


def _steps() -> Any:
    yield 1


async def _async_steps() -> Any:
    yield 1


def test_a_function_of_the_wrong_kind_is_refused_when_decorated__D7(coordinator: Any) -> None:
    blocking: Any = leader_only(LeaderElector(coordinator), "job")
    tasks: Any = leader_only(AsyncLeaderElector(coordinator), "job")
    for wrong in _wrong(
        _coroutine, _async_steps, functools.partial(_coroutine), functools.partial(_async_steps), 7, type
    ):
        with pytest.raises(UsageError):
            blocking(wrong)
    for wrong in _wrong(_plain, _steps, functools.partial(_plain), functools.partial(_steps), 7, _coroutine(), type):
        with pytest.raises(UsageError):
            tasks(wrong)
    methods: list[Any] = [staticmethod, classmethod]
    for decorate, inner in ((blocking, _plain), (tasks, _coroutine)):
        for wrapped in (method(inner) for method in methods):
            with pytest.raises(UsageError, match="below @staticmethod"):
                decorate(wrapped)
    with pytest.raises(UsageError, match="which arguments"):
        blocking(Unsigned())
    for elector, generator in ((LeaderElector, _steps), (AsyncLeaderElector, _async_steps)):
        with pytest.raises(UsageError, match="no result"):
            leader_only(elector(coordinator), "job", result=True)(generator)


def test_work_that_has_not_run_yet_is_refused_when_called_with_a_lease_or_without__D7(coordinator: Any) -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    late: list[Callable[[], Any]] = [_coroutine, _steps, _async_steps, lambda: future]
    for mode in ("raise", "run_anyway"):
        if mode == "run_anyway":
            outage(coordinator, OUTAGES[0])
        for result in (False, True):
            for make in late:
                with pytest.raises(UsageError, match="returned"):
                    leader_only(LeaderElector(coordinator), "job", failure_mode=mode, result=result)(
                        lambda m=make: m()
                    )()
    assert future.cancelled()
    with pytest.raises(UsageError, match="nothing to await"):
        asyncio.run(leader_only(AsyncLeaderElector(coordinator), "job", failure_mode="run_anyway")(lambda: 5)())  # type: ignore[arg-type,return-value]
    assert seen() == (None, False)


def test_an_elector_that_does_not_fit_is_refused_at_once(coordinator: Any) -> None:
    groups: list[Any] = [LeaderGroupElector, AsyncLeaderGroupElector]
    singles: list[Any] = [LeaderElector, AsyncLeaderElector]
    for kind in groups:
        with pytest.raises(UsageError, match="leader_group_only"):
            leader_only(kind(coordinator), "job")
    for kind in singles:
        with pytest.raises(UsageError, match="leader_only"):
            leader_group_only(kind(coordinator), "job")
    other: list[Any] = [tenure.FutureLeaderElector(coordinator), coordinator, None, LeaderElector]
    for wrong in other:
        for decorate in (leader_only, leader_group_only):
            with pytest.raises(UsageError, match="the elector of a decorator is"):
                decorate(wrong, "job")
    unknown: list[Any] = ["RAISE", "", None, True, []]
    for mode in unknown:
        with pytest.raises(UsageError, match="failure_mode"):
            leader_only(LeaderElector(coordinator), "job", failure_mode=mode)
    with pytest.raises(UsageError, match="result"):
        leader_only(LeaderElector(coordinator), "job", result=1)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="lease_time"):
        LeaderElector(coordinator, ElectionOptions(lease_time=0))


def test_a_group_lets_as_many_in_as_it_has_slots__F1() -> None:
    with tenure.local() as coordinator:
        elector = LeaderGroupElector(coordinator, tenure.GroupElectionOptions(2, wait_time=0))

        @leader_group_only(elector, "resize")
        def slots(more: int) -> list[int]:
            lease = tenure.current_lease()
            assert lease is not None
            return [lease.slot, *((slots(more - 1) or [-1]) if more else [])]

        assert slots(2) == [0, 1, -1]

        @leader_group_only(AsyncLeaderGroupElector(coordinator), "resize")
        async def slot() -> int | None:
            lease = tenure.current_lease()
            return None if lease is None else lease.slot

        assert asyncio.run(slot()) == 0


def _with_db(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function("db", *args, **kwargs)

    return call


def test_a_function_whose_inner_decorator_adds_arguments_is_called_as_it_is_without_ours(coordinator: Any) -> None:
    elector = LeaderElector(coordinator)

    def name(day: str) -> str:
        return f"nightly-{day}"

    for naming, led in (("nightly", "nightly"), (name, "nightly-monday")):

        def work(db: str, day: str) -> Any:
            lease = tenure.current_lease()
            return db, day, lease and lease.name

        report: Any = leader_only(elector, naming)(_with_db(work))
        assert report("monday") == ("db", "monday", led)
        with pytest.raises(TypeError):
            report()

    patched: Any = leader_only(elector, "patched")(unittest.mock.patch("os.getcwd")(lambda getcwd: getcwd))
    assert isinstance(patched(), unittest.mock.Mock)

    # A field is looked for where the function shows it, and the argument that is its value must be given.
    named: Any = leader_only(elector, "nightly-{day}")(_with_db(lambda db, day: day))
    with pytest.raises(TypeError, match="day"):
        named("monday")


def test_wrong_arguments_are_refused_before_anybody_is_asked(coordinator: Any) -> None:
    plain: Any = leader_only(LeaderElector(coordinator), "job")(_plain)
    cached: Any = leader_only(LeaderElector(coordinator), "job")(functools.lru_cache(_plain))
    for function in (plain, cached):
        with pytest.raises(TypeError):
            function(5)
    assert coordinator.acquired == []
    assert (plain(), cached()) == (1, 1)
