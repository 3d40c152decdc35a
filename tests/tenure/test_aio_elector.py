"""The asyncio elector against leases that are granted and lost on command: endings, losses, refusals.

Knows: the public elector, the fake coordinator. Must not know: the engine. Cancellation has a file of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from cluster.errors import CoordinationError, Indeterminate, LeaseLostError, NotLeaderError, Unavailable, UsageError
from cluster.opcodes import Outcome
from tenure import (
    ActionFailed,
    AsyncLeaderElector,
    Elected,
    ElectionOptions,
    LeaseLost,
    Skipped,
    current_lease,
)
from tests.tenure.fake import FakeAsyncLease, FakeCoordinator
from tests.tenure.support_tasks import raising, turns, waiting

pytestmark = pytest.mark.fast


def made(**options: Any) -> tuple[Any, AsyncLeaderElector]:
    coordinator: Any = FakeCoordinator()
    return coordinator, AsyncLeaderElector(coordinator, ElectionOptions(**options))


async def giving(value: object = None) -> object:
    await asyncio.sleep(0)
    return value


def test_arguments_go_to_the_action_and_options_to_the_acquisition() -> None:
    coordinator, elector = made(wait_time=1, lease_time=60, node_id="me", min_lease_time=2, auto_extend=True)

    async def action(*args: int, **kwargs: int) -> object:
        return args, kwargs

    assert asyncio.run(elector.run_if_leader("job", action, 1, name=2, action=3)) == ((1,), {"name": 2, "action": 3})
    expected = {"wait_time": 1.0, "lease_time": 60.0, "min_lease_time": 2.0, "auto_extend": True}
    assert coordinator.acquired == [{**expected, "node_id": "me", "max_leaders": 1, "metadata": None}]


def test_every_ending_is_told_and_released_by_its_name__rules_1_to_4() -> None:
    coordinator, elector = made()
    error = ValueError("mine")

    async def main() -> None:
        assert await elector.run_if_leader("job", giving, 5) == 5
        assert await elector.run_if_leader_result("job", giving) == Elected(None, "fake", 2)
        with pytest.raises(ValueError, match="mine") as caught:
            await elector.run_if_leader("job", raising, error)
        assert caught.value is error
        assert error.__context__ is None
        assert await elector.run_if_leader_result("job", raising, error) == ActionFailed(error, 4)
        async with elector.leading("job"):
            assert await elector.run_if_leader("job", giving) is None
            assert await elector.run_if_leader_result("job", giving) == Skipped("held", "fake")
            coordinator.state_error = Unavailable("no majority")
            assert await elector.run_if_leader_result("job", giving) == Skipped("held", None)
            with pytest.raises(NotLeaderError, match="'job'"):
                await elector.leading("job").__aenter__()
            async with elector.leading("job", optional=True) as lease:
                assert lease is None

    asyncio.run(main())
    done, failed = Outcome.COMPLETED, Outcome.FAILED
    assert list(coordinator.outcomes.values()) == [done, done, failed, failed, done]


def test_an_error_of_the_release_hides_nothing__D8(caplog: pytest.LogCaptureFixture) -> None:
    coordinator, elector = made()
    coordinator.release_error = Indeterminate("no answer")

    async def main() -> None:
        assert await elector.run_if_leader("job", giving, 1) == 1
        with pytest.raises(ValueError, match="mine"):
            await elector.run_if_leader("job", raising, ValueError("mine"))
        async with elector.leading("job"):
            pass

    asyncio.run(main())
    ours = [record for record in caplog.records if record.name.startswith("tenure")]
    assert [record.getMessage().split()[0] for record in ours] == ["release.unconfirmed"] * 3


@pytest.mark.parametrize("error", [Unavailable("no majority"), Indeterminate("no answer"), UsageError("bad name")])
def test_an_error_of_the_acquisition_is_no_contention__rule_6(error: CoordinationError) -> None:
    coordinator, elector = made()

    def refuse(*_: object) -> None:
        raise error

    coordinator.grant = refuse
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: elector.run_if_leader("job", giving),
        lambda: elector.run_if_leader_result("job", giving),
        lambda: elector.leading("job", optional=True).__aenter__(),
    ]
    for call in calls:
        with pytest.raises(type(error)) as caught:
            asyncio.run(_awaited(call))
        assert caught.value is error


async def _awaited(call: Callable[[], Awaitable[object]]) -> object:
    return await call()


def test_a_lease_that_is_lost_before_the_start_runs_nothing__rule_7() -> None:
    coordinator, elector = made()
    coordinator.born_lost = True

    async def never() -> None:
        raise AssertionError("it ran")

    async def main() -> None:
        assert await elector.run_if_leader_result("job", never) == LeaseLost(None, None, 1)
        with pytest.raises(LeaseLostError):
            await elector.run_if_leader("job2", never)
        with pytest.raises(LeaseLostError):
            await elector.leading("job3").__aenter__()

    asyncio.run(main())
    assert set(coordinator.outcomes.values()) == {Outcome.NOT_STARTED}


async def stubborn(value: object) -> object:
    """Swallows one cancellation."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return value


async def failing_when_cancelled(error: Exception) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise error from None


def test_a_lost_lease_cancels_the_action_and_decides_the_outcome__rule_7__D4() -> None:
    coordinator, elector = made()
    error = ValueError("late")

    async def ended(action: Callable[..., Coroutine[Any, Any, object]], *args: object) -> object:
        running = asyncio.ensure_future(elector.run_if_leader_result("job", action, *args))
        await turns(8)
        lease = coordinator.held["job"]
        coordinator.lose("job")
        result = await running
        assert lease.lost.watched == 0
        return result

    async def main() -> None:
        assert await ended(waiting) == LeaseLost(None, None, 1)
        assert await ended(stubborn, 5) == LeaseLost(5, None, 2)
        assert await ended(failing_when_cancelled, error) == LeaseLost(None, error, 3)
        with pytest.raises(LeaseLostError) as caught:
            await lost_in(elector.run_if_leader("job", failing_when_cancelled, error), coordinator)
        assert caught.value.__cause__ is error

    asyncio.run(main())
    assert set(coordinator.outcomes.values()) == {Outcome.LOST}


async def lost_in(run: Coroutine[Any, Any, Any], coordinator: Any) -> Any:
    """Await the run and lose its lease once its action waits."""
    running = asyncio.ensure_future(run)
    await turns(8)
    coordinator.lose("job")
    return await running


def test_a_lost_lease_is_only_signalled_when_asked_so__rule_7() -> None:
    coordinator, elector = made(on_lost="signal")

    async def action() -> str:
        await turns(20)
        lease = current_lease()
        assert lease is not None
        assert lease.lost.is_set()
        return "late"

    async def main() -> None:
        result = await lost_in(elector.run_if_leader_result("job", action), coordinator)
        assert result == LeaseLost("late", None, 1)

    asyncio.run(main())


def test_a_lost_lease_cancels_the_body_of_leading__rule_7() -> None:
    coordinator, elector = made()

    async def body(inside: Coroutine[Any, Any, object]) -> object:
        async with elector.leading("job"):
            return await inside

    async def main() -> None:
        with pytest.raises(LeaseLostError):
            await lost_in(body(waiting()), coordinator)
        # A body that swallows it, and one that makes another error of it.
        with pytest.raises(LeaseLostError):
            await lost_in(body(stubborn(5)), coordinator)
        with pytest.raises(ValueError, match="late"):
            await lost_in(body(failing_when_cancelled(ValueError("late"))), coordinator)
        # The task goes on as if it had never been cancelled.
        await asyncio.sleep(0)

    asyncio.run(main())
    assert set(coordinator.outcomes.values()) == {Outcome.LOST}


def test_a_body_of_leading_with_signal_runs_on__rule_7() -> None:
    coordinator, elector = made(on_lost="signal")

    async def body() -> None:
        async with elector.leading("job") as lease:
            await turns(20)
            assert lease.lost.is_set()

    async def main() -> None:
        with pytest.raises(LeaseLostError):
            await lost_in(body(), coordinator)

    asyncio.run(main())


def plain(value: int = 0) -> int:
    return value


def test_what_is_no_coroutine_is_refused__D7() -> None:
    coordinator, elector = made()

    async def main() -> None:
        for run in (elector.run_if_leader, elector.run_if_leader_result):
            with pytest.raises(UsageError, match="LeaderElector"):
                await run("job", plain)  # type: ignore[arg-type]
            assert coordinator.acquired == []
        for run in (elector.run_if_leader, elector.run_if_leader_result):
            # Only its call can show what a lambda returns.
            with pytest.raises(UsageError, match="nothing to await"):
                await run("job", lambda value: plain(value) + 1, 1)  # type: ignore[arg-type, return-value]

    asyncio.run(main())
    assert coordinator.outcomes == {1: Outcome.FAILED, 2: Outcome.FAILED}


def test_whatever_can_be_awaited_is_awaited__D7() -> None:
    coordinator, elector = made()

    async def main() -> None:
        assert await elector.run_if_leader("job", lambda: giving(1)) == 1
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 2)
        assert await elector.run_if_leader("job", lambda: future) == 2

    asyncio.run(main())
    assert coordinator.outcomes == {1: Outcome.COMPLETED, 2: Outcome.COMPLETED}


def test_what_an_action_raises_when_it_is_called_is_its_own__rule_3() -> None:
    _, elector = made()

    async def main() -> None:
        with pytest.raises(TypeError, match="unexpected"):
            await elector.run_if_leader("job", giving, unexpected=1)  # type: ignore[call-arg]

    asyncio.run(main())


def test_one_elector_serves_many_tasks_without_cross_talk__D5() -> None:
    coordinator, elector = made()

    async def action(name: str) -> bool:
        good = True
        for _ in range(5):
            await asyncio.sleep(0)
            lease = current_lease()
            good = good and isinstance(lease, FakeAsyncLease) and lease.name == name
            good = good and current_lease("no such name") is None
        return good

    async def main() -> None:
        names = [str(number) for number in range(100)]
        found = await asyncio.gather(*(elector.run_if_leader(name, action, name) for name in names))
        assert found == [True] * 100
        assert current_lease() is None

    asyncio.run(main())
    assert not coordinator.held


def test_one_leading_is_for_one_with() -> None:
    _, elector = made()

    async def main() -> None:
        leading = elector.leading("job")
        async with leading:
            with pytest.raises(UsageError, match="twice"):
                await leading.__aenter__()

    asyncio.run(main())
