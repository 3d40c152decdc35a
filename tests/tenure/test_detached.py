"""The forms that do not block their caller: futures, threads, contexts, closing (rules 4, 5 and 7; D3, D5, D7).

Knows: the public electors, real leases. Must not know: the loop and the threads behind them, but for who takes
these away. What the forms share with the others is in
tests/contract.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

import tenure
from tenure import ElectionOptions, FutureLeaderElector, Lease, NotLeaderError, ThreadLeaderElector, UsageError
from tenure._background import background
from tenure._futures import RunFuture
from tenure.testing import FakeCoordinator
from tests.support import eventually

WITHIN_S = 10.0


@pytest.fixture
def coordinator(tenure_local: Any) -> Any:
    return tenure_local


@pytest.fixture
def threads(coordinator: Any) -> Iterator[Any]:
    with ThreadLeaderElector(coordinator, ElectionOptions(wait_time=20)) as elector:
        yield elector


@pytest.fixture
def futures(coordinator: Any) -> Any:
    return FutureLeaderElector(coordinator, ElectionOptions(wait_time=20))


def done(value: Any = None) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def raising(error: BaseException) -> Any:
    raise error


def is_free(coordinator: Any) -> bool:
    state = coordinator.state("job", consistent=True)
    return (state.leader, state.waiters) == (None, 0)


def test_a_cancelled_future_is_not_done_before_its_work__rule_5__C9(coordinator: Any, futures: Any) -> None:
    inner: Future[str] = Future()
    inner.set_running_or_notify_cancel()
    outer = futures.run_if_leader("job", lambda: inner)
    eventually(lambda: coordinator.state("job").leader, what="the lease is held")
    assert outer.cancel()
    assert outer.cancel()
    assert not concurrent.futures.wait([outer], 0.05).done
    assert (outer.done(), outer.cancelled(), is_free(coordinator)) == (False, False, False)
    inner.set_result("a value that nobody gets")
    assert concurrent.futures.wait([outer], WITHIN_S).done
    assert outer.cancelled()
    assert is_free(coordinator)
    with pytest.raises(CancelledError):
        outer.result()


@pytest.mark.parametrize("how", ["cancelled", "revoked"])
def test_work_is_not_released_under_where_no_thread_is_left_to_cancel_it__rule_4(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator: Any = FakeCoordinator(real_time=True)
    futures = FutureLeaderElector(coordinator)
    called_off = threading.Event()

    class Busy(Future[str]):
        def cancel(self) -> bool:
            called_off.set()
            # As from a callback of that future.
            raise SystemExit(3)

    def no_thread(job: object) -> None:
        raise RuntimeError("can't start new thread")

    inner = Busy()
    inner.set_running_or_notify_cancel()
    begun = threading.Event()

    def action() -> Busy:
        begun.set()
        return inner

    outer = futures.run_if_leader("job", action)
    assert begun.wait(WITHIN_S)
    monkeypatch.setattr(background().workers, "submit", no_thread)
    if how == "cancelled":
        outer.cancel()
    else:
        coordinator.revoke("job")
    assert called_off.wait(WITHIN_S)
    assert not concurrent.futures.wait([outer], 0.05).done
    assert not is_free(coordinator)
    inner.set_result("a value that nobody gets")
    assert concurrent.futures.wait([outer], WITHIN_S).done
    assert is_free(coordinator)
    coordinator.close(limit=0)


def test_a_future_that_is_done_cannot_be_cancelled(futures: Any) -> None:
    outer = futures.run_if_leader("job", done, "value")
    assert outer.result(WITHIN_S) == "value"
    assert not outer.cancel()
    assert outer.result() == "value"


def test_a_run_that_is_given_up_in_its_last_moment_ends_cancelled__rule_5() -> None:
    calls: list[str] = []
    late: RunFuture[str] = RunFuture(lambda: calls.append("called off"))
    # Its work has ended with a value; nobody has been told yet.
    assert late.cancel()
    late.settle(lambda: "value")
    assert (late.cancelled(), late.cancel(), calls) == (True, True, ["called off"])
    over: RunFuture[str] = RunFuture(lambda: calls.append("too late"))
    over.settle(lambda: "value")
    assert (over.cancel(), over.result(), calls) == (False, "value", ["called off"])


def test_an_inner_future_that_others_cancel_cancels_the_outer__rule_3(coordinator: Any, futures: Any) -> None:
    inner: Future[None] = Future()
    outers = [futures.run_if_leader("job", lambda: inner), futures.run_if_leader_result("job", lambda: inner)]
    eventually(lambda: coordinator.state("job").leader, what="the lease is held")
    inner.cancel()
    for outer in outers:
        with pytest.raises(CancelledError):
            outer.result(WITHIN_S)
        assert outer.cancelled()
    assert is_free(coordinator)


@pytest.mark.parametrize("result", [False, True])
def test_a_future_elector_refuses_what_is_no_future__D7(coordinator: Any, futures: Any, result: bool) -> None:
    async def coroutine() -> None: ...

    def generator() -> Iterator[int]:
        yield 1

    run = futures.run_if_leader_result if result else futures.run_if_leader
    for wrong in (coroutine, generator, 7):
        with pytest.raises(UsageError):
            run("job", wrong)
    makers: list[Callable[[], Any]] = [lambda: 7, lambda: None, coroutine, generator]
    for make in makers:
        with pytest.raises(UsageError, match=r"no concurrent\.futures\.Future"):
            run("job", lambda make=make: make()).result(WITHIN_S)
    assert is_free(coordinator)


def test_a_thread_elector_refuses_work_that_would_run_later__D7(coordinator: Any, threads: Any) -> None:
    with pytest.raises(UsageError, match="returned a future"):
        threads.run_if_leader("job", Future).result(WITHIN_S)
    assert is_free(coordinator)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), StopIteration(1)])
def test_whatever_an_action_raises_arrives_and_ends_no_thread_of_ours__rule_3(
    coordinator: Any, futures: Any, threads: Any, error: BaseException
) -> None:
    for elector in (futures, threads):
        for run in (elector.run_if_leader, elector.run_if_leader_result):
            future = run("job", raising, error)
            if run == elector.run_if_leader_result and isinstance(error, Exception):
                assert future.result(WITHIN_S).cause is error
                continue
            with pytest.raises(type(error)) as caught:
                future.result(WITHIN_S)
            assert caught.value is error
    assert futures.run_if_leader("job", done, 1).result(WITHIN_S) == 1
    assert threads.run_if_leader("job", lambda: 1).result(WITHIN_S) == 1
    assert is_free(coordinator)


def test_a_callback_that_blocks_holds_up_nobody_else(futures: Any, threads: Any) -> None:
    go_on = threading.Event()
    seen: list[Any] = []

    def nested(_: Any) -> None:
        seen.append(futures.run_if_leader("other", done, "nested").result(WITHIN_S))

    blocked = threads.run_if_leader("job", lambda: 1).to_future()
    blocked.add_done_callback(lambda _: go_on.wait(WITHIN_S))
    futures.run_if_leader("third", done).add_done_callback(nested)
    try:
        assert futures.run_if_leader("job", done, 2).result(WITHIN_S) == 2
        assert threads.run_if_leader("other", lambda: 3).result(WITHIN_S) == 3
        eventually(lambda: seen, WITHIN_S)
    finally:
        go_on.set()
    assert seen == ["nested"]


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")


def test_the_action_sees_its_callers_context_and_a_lease_that_can_be_waited_for__D5(
    coordinator: Any, futures: Any, threads: Any
) -> None:
    def action() -> Any:
        lease = tenure.current_lease()
        assert isinstance(lease, Lease)
        assert tenure.assert_leader("job", verify=True) is lease
        assert isinstance(tenure.extend_lease(90), tenure.Extended)
        outer = tenure.current_lease("outer")
        seen = variable.get()
        variable.set("changed by the action")
        return lease.token, seen, outer and outer.token

    variable.set("the caller's")
    with tenure.LeaderElector(coordinator).leading("outer") as outer:
        for future in (
            threads.run_if_leader("job", action),
            futures.run_if_leader("job", lambda: done(action())),
        ):
            token, *seen = future.result(WITHIN_S)
            assert token > outer.token
            assert seen == ["the caller's", outer.token]
    assert variable.get() == "the caller's"
    assert tenure.current_lease() is None
    with pytest.raises(NotLeaderError):
        tenure.assert_leader()


def test_waiting_for_a_name_takes_no_thread(coordinator: Any, threads: Any) -> None:
    with coordinator.acquire("job"):
        before = threading.active_count()
        waiting = [threads.run_if_leader("job", lambda: 1) for _ in range(100)]
        eventually(lambda: coordinator.state("job").waiters == 100, WITHIN_S)
        assert threading.active_count() <= before + 3
        for future in waiting:
            assert future.cancel()
        eventually(lambda: coordinator.state("job").waiters == 0, WITHIN_S)
    for future in waiting:
        with pytest.raises(CancelledError):
            future.result(WITHIN_S)


def test_a_task_awaits_a_thread_and_gives_it_up_when_it_is_cancelled__rule_5(coordinator: Any, threads: Any) -> None:
    async def main() -> None:
        assert await threads.run_if_leader("job", lambda: "value") == "value"
        assert (await threads.run_if_leader_result("job", lambda: None)).value is None
        with pytest.raises(LookupError):
            await threads.run_if_leader("job", raising, LookupError())
        lease = await coordinator.aio.acquire("job")
        waiting = threads.run_if_leader("job", lambda: "never")

        async def wait() -> None:
            await waiting

        task = asyncio.ensure_future(wait())
        await asyncio.to_thread(eventually, lambda: coordinator.state("job").waiters == 1, WITHIN_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await coordinator.aio.state("job", consistent=True)).waiters == 0
        await lease.release()

    asyncio.run(main())
    assert is_free(coordinator)


def test_a_loop_that_ends_before_its_run_harms_nobody__D3(
    coordinator: Any, threads: Any, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()

    async def begin() -> tuple[Any, Any]:
        future = threads.run_if_leader("job", go_on.wait, WITHIN_S)
        steps = future.__await__()
        # Driven by hand up to where it waits, as a task does it that never gets any further.
        next(steps)
        return future, steps

    future, steps = asyncio.run(begin())
    eventually(lambda: coordinator.state("job").leader, WITHIN_S, "the action runs")
    go_on.set()
    assert future.result(WITHIN_S) is True
    assert is_free(coordinator)
    assert not [record for record in caplog.records if record.exc_info]
    steps.close()


def test_a_closed_coordinator_ends_those_who_wait_and_tells_those_who_run(threads: Any, coordinator: Any) -> None:
    begun = threading.Event()

    def action() -> bool:
        begun.set()
        lease = tenure.current_lease()
        assert lease is not None
        return lease.lost.wait(WITHIN_S)

    running = threads.run_if_leader_result("job", action)
    waiting = threads.run_if_leader("job", lambda: "never")
    assert begun.wait(WITHIN_S)
    eventually(lambda: coordinator.state("job").waiters == 1, WITHIN_S)
    coordinator.close()
    with pytest.raises((tenure.Unavailable, tenure.Indeterminate), match="closed"):
        waiting.result(WITHIN_S)
    assert running.result(WITHIN_S).value is True
    with pytest.raises(UsageError, match="closed"):
        threads.run_if_leader("job", lambda: 1).result(WITHIN_S)


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("when", ["before it is begun", "once it is begun"])
def test_a_run_that_a_close_overtakes_is_given_up__rule_5(
    coordinator: Any, when: str, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    elector = ThreadLeaderElector(coordinator, ElectionOptions(wait_time=60))
    begin, ran = elector._begin, threading.Event()

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        # As another thread does it in this moment.
        if when == "before it is begun":
            elector.close()
        future = begin(*args, **kwargs)
        if when == "once it is begun":
            elector.close(limit=0)
        return future

    blocker = coordinator.acquire("job") if held else None
    monkeypatch.setattr(elector, "_begin", overtaken)
    run = elector.run_if_leader("job", ran.set)
    if held:
        with pytest.raises(CancelledError):
            run.result(WITHIN_S)
    elif when == "before it is begun":
        with pytest.raises(CancelledError):
            run.result(WITHIN_S)
        assert not ran.is_set()
    else:
        # It may have been first.
        assert not concurrent.futures.wait([run.to_future()], WITHIN_S).not_done
        assert run.to_future().cancelled() or ran.is_set()
    if blocker is not None:
        blocker.release()
    assert is_free(coordinator)


def test_closing_gives_up_who_waits_and_waits_for_who_runs__C4(coordinator: Any) -> None:
    elector = ThreadLeaderElector(coordinator, ElectionOptions(wait_time=20))
    begun, go_on = threading.Event(), threading.Event()

    def action() -> str:
        begun.set()
        go_on.wait(WITHIN_S)
        return "done"

    running = elector.run_if_leader("job", action)
    assert begun.wait(WITHIN_S)
    waiting = elector.for_tenant("acme").run_if_leader("job", lambda: 1)
    assert waiting.result(WITHIN_S) == 1
    waiting = elector.run_if_leader("job", lambda: 1)
    assert elector.close(limit=0) is False
    with pytest.raises(CancelledError):
        waiting.result(WITHIN_S)
    assert not running.done()
    assert coordinator.acquire("job") is None
    go_on.set()
    assert running.result(WITHIN_S) == "done"
    assert elector.close() is True
    assert is_free(coordinator)
    eventually(lambda: "tenure-elector" not in {thread.name for thread in threading.enumerate()}, WITHIN_S)
    for closed in (elector, elector.for_tenant("acme")):
        with pytest.raises(UsageError, match="closed"):
            closed.run_if_leader("job", lambda: 1)
    with pytest.raises(UsageError, match="limit"):
        elector.close(limit=-1)


def test_an_interrupt_while_waiting_for_the_future_leaves_the_run_alone__D1(threads: Any) -> None:
    go_on = threading.Event()
    future = threads.run_if_leader("job", go_on.wait, WITHIN_S)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.01)
    assert not future.done()
    go_on.set()
    assert future.result(WITHIN_S) is True
