"""One way for a test to drive both forms, blocking and asyncio: the test itself is plain blocking code.

Knows: threads, one background event loop, the public names of tenure. Must not know: which coordinator it drives.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import tenure
from cluster.env import new_loop
from tenure import ElectionOptions, GroupElectionOptions

PATIENCE_S = 20.0


class Work:
    """An action that the test steers: it says when it runs, and ends when it is told how.

    Args:
        stubborn: swallow a cancellation of the asyncio form and go on until told.
    """

    def __init__(self, *, stubborn: bool = False) -> None:
        self.started = threading.Event()
        self.ended = threading.Event()
        self.cancelled = threading.Event()
        self.calls = 0
        self.lease: Any = None
        self._stubborn = stubborn
        self._told: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def finish(self, value: Any = None) -> None:
        self._told.set_result(value)

    def fail(self, error: BaseException) -> None:
        self._told.set_exception(error)

    def wait_started(self) -> None:
        assert self.started.wait(PATIENCE_S), "the action did not start"

    def wait_ended(self) -> None:
        assert self.ended.wait(PATIENCE_S), "the action did not end"

    def _begin(self) -> None:
        self.calls += 1
        self.lease = tenure.current_lease()
        self.started.set()

    def run(self) -> Any:
        self._begin()
        try:
            return self._told.result(PATIENCE_S)
        finally:
            self.ended.set()

    def run_future(self) -> concurrent.futures.Future[Any]:
        """The future form's action: it begins the work and returns its future."""
        self._begin()
        inner = _Inner(self.cancelled)
        if self._stubborn:
            inner.set_running_or_notify_cancel()
        inner.add_done_callback(lambda _: self.ended.set())
        self._told.add_done_callback(inner.take)
        return inner

    async def arun(self) -> Any:
        self._begin()
        told = asyncio.wrap_future(self._told)
        # Cancelled, the action may not look at it any more; nobody shall complain of that.
        told.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            while True:
                try:
                    return await asyncio.shield(told)
                except asyncio.CancelledError:
                    self.cancelled.set()
                    if not self._stubborn:
                        raise
        finally:
            self.ended.set()


class _Inner(concurrent.futures.Future[Any]):
    """The future of work that goes on elsewhere: says that it was told to end; ends then, unless it is running."""

    def __init__(self, cancelled: threading.Event) -> None:
        super().__init__()
        self._told_to_end = cancelled

    def cancel(self) -> bool:
        ended = super().cancel()
        self._told_to_end.set()
        return ended

    def take(self, told: concurrent.futures.Future[Any]) -> None:
        if self.done():
            return
        if (error := told.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(told.result())


class Call(ABC):
    """A call under way: ``result`` waits for its end."""

    @abstractmethod
    def result(self, within_s: float = PATIENCE_S) -> Any: ...
    @property
    @abstractmethod
    def done(self) -> bool: ...

    def cancel(self) -> None:
        raise AssertionError("this form cannot be cancelled from outside")


class ThreadCall(Call):
    def __init__(self, function: Callable[[], Any]) -> None:
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self._future.set_result(function())
        except BaseException as error:
            self._future.set_exception(error)

    def result(self, within_s: float = PATIENCE_S) -> Any:
        return self._future.result(within_s)

    @property
    def done(self) -> bool:
        return self._future.done()


class TaskCall(Call):
    """A task on the loop of another thread. Its cancellation comes back as ``asyncio.CancelledError``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self._outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._task: asyncio.Task[Any] | None = None
        begun = threading.Event()

        def begin() -> None:
            self._task = loop.create_task(work)
            self._task.add_done_callback(self._ended)
            begun.set()

        loop.call_soon_threadsafe(begin)
        assert begun.wait(PATIENCE_S)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        try:
            self._outcome.set_result(task.result())
        except BaseException as error:
            self._outcome.set_exception(error)

    def cancel(self) -> None:
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)

    def result(self, within_s: float = PATIENCE_S) -> Any:
        return self._outcome.result(within_s)

    @property
    def done(self) -> bool:
        return self._outcome.done()


class FutureCall(Call):
    """A future form's call: its cancellation comes back as ``asyncio.CancelledError``, as a task's does."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def cancel(self) -> None:
        assert self._future.cancel()

    def result(self, within_s: float = PATIENCE_S) -> Any:
        try:
            return self._future.result(within_s)
        except concurrent.futures.CancelledError:
            assert self._future.cancelled()
            raise asyncio.CancelledError from None

    @property
    def done(self) -> bool:
        done: bool = self._future.done()
        return done


class Form(ABC):
    """The verbs of a coordinator and the electors of one form, as blocking calls.

    Args:
        group: use group electors, of one leader unless said otherwise: then every rule of a single one holds for them too.

    Attributes:
        queues: whether who waits stands in the raft leader's queue.
    """

    name: str
    queues = True
    single: Any
    many: Any

    def __init__(self, *, group: bool = False) -> None:
        self.group = group

    def elector(self, coordinator: Any, *, listeners: Iterable[Any] = (), **options: Any) -> Any:
        if self.group:
            made = GroupElectionOptions(**{"max_leaders": 1, **options})
            return self.many(coordinator, made, listeners=listeners)
        return self.single(coordinator, ElectionOptions(**options), listeners=listeners)

    def method(self, coordinator: Any, result: bool, **options: Any) -> Any:
        elector = self.elector(coordinator, **options)
        return elector.run_if_leader_result if result else elector.run_if_leader

    @abstractmethod
    def verb(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Call ``coordinator.<verb>(…)`` (or its twin under ``aio``) and wait for it."""

    @abstractmethod
    def start_verb(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Call:
        """The same, without waiting."""

    @abstractmethod
    def record(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Call ``coordinator.records.<verb>(…)`` (or its twin under ``aio``) and wait for it."""

    @abstractmethod
    def on(self, lease: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Call a verb of a lease and wait for it."""

    @abstractmethod
    def leases(self, coordinator: Any, prefix: str = "") -> list[Any]: ...

    @abstractmethod
    def start(self, coordinator: Any, name: str, work: Work, *, result: bool = False, **options: Any) -> Call:
        """Start ``run_if_leader`` (or ``run_if_leader_result``) of a new elector with these options."""

    @abstractmethod
    def start_leading(self, coordinator: Any, name: str, work: Work, *, optional: bool = False, **options: Any) -> Call:
        """Start ``with elector.leading(name)`` with ``work`` as its body."""

    def acquire(self, coordinator: Any, name: str, **options: Any) -> Any:
        return self.verb(coordinator, "acquire", name, **options)

    def run(self, coordinator: Any, name: str, work: Work, **options: Any) -> Any:
        return self.start(coordinator, name, work, **options).result()

    def is_free(self, coordinator: Any, name: str) -> bool:
        """Whether the name is granted at once; if so it is given back as if nothing had run."""
        lease = self.acquire(coordinator, name, wait_time=0.0)
        if lease is None:
            return False
        self.on(lease, "release")
        return True


class Blocking(Form):
    name = "blocking"
    single: Any = tenure.LeaderElector
    many: Any = tenure.LeaderGroupElector

    def verb(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(coordinator, verb)(*args, **kwargs)

    def start_verb(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Call:
        return ThreadCall(lambda: getattr(coordinator, verb)(*args, **kwargs))

    def record(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(coordinator.records, verb)(*args, **kwargs)

    def on(self, lease: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(lease, verb)(*args, **kwargs)

    def leases(self, coordinator: Any, prefix: str = "") -> list[Any]:
        found: Iterable[Any] = coordinator.leases(prefix)
        return list(found)

    def start(self, coordinator: Any, name: str, work: Work, *, result: bool = False, **options: Any) -> Call:
        method = self.method(coordinator, result, **options)
        return ThreadCall(lambda: method(name, work.run))

    def start_leading(self, coordinator: Any, name: str, work: Work, *, optional: bool = False, **options: Any) -> Call:
        elector = self.elector(coordinator, **options)

        def body() -> Any:
            with elector.leading(name, optional=optional) as lease:
                return lease if lease is None else work.run()

        return ThreadCall(body)


class Futures(Blocking):
    name = "future"
    single = tenure.FutureLeaderElector
    many = tenure.FutureLeaderGroupElector

    def start(self, coordinator: Any, name: str, work: Work, *, result: bool = False, **options: Any) -> Call:
        return FutureCall(self.method(coordinator, result, **options)(name, work.run_future))


class Threads(Blocking):
    name = "thread"
    single = tenure.ThreadLeaderElector
    many = tenure.ThreadLeaderGroupElector

    def start(self, coordinator: Any, name: str, work: Work, *, result: bool = False, **options: Any) -> Call:
        elector = self.elector(coordinator, **options)
        run = elector.run_if_leader_result if result else elector.run_if_leader
        future = run(name, work.run)
        # Its thread ends with it.
        future.to_future().add_done_callback(lambda _: elector.close(limit=0))
        return FutureCall(future)


class LoopThread:
    """The loop of the node and the client, uvloop where it is installed; the other tests run on that of asyncio."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="contract-loop", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()


class Asyncio(Form):
    name = "asyncio"
    single = tenure.AsyncLeaderElector
    many = tenure.AsyncLeaderGroupElector

    def __init__(self, loop: asyncio.AbstractEventLoop, *, group: bool = False) -> None:
        super().__init__(group=group)
        self.loop = loop

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_S)

    def verb(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        return self._wait(getattr(coordinator.aio, verb)(*args, **kwargs))

    def start_verb(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Call:
        return TaskCall(self.loop, getattr(coordinator.aio, verb)(*args, **kwargs))

    def record(self, coordinator: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        return self._wait(getattr(coordinator.aio.records, verb)(*args, **kwargs))

    def on(self, lease: Any, verb: str, *args: Any, **kwargs: Any) -> Any:
        return self._wait(getattr(lease, verb)(*args, **kwargs))

    def leases(self, coordinator: Any, prefix: str = "") -> list[Any]:
        async def collect() -> list[Any]:
            return [info async for info in coordinator.aio.leases(prefix)]

        found: list[Any] = self._wait(collect())
        return found

    def start(self, coordinator: Any, name: str, work: Work, *, result: bool = False, **options: Any) -> TaskCall:
        return TaskCall(self.loop, self.method(coordinator, result, **options)(name, work.arun))

    def start_leading(
        self, coordinator: Any, name: str, work: Work, *, optional: bool = False, **options: Any
    ) -> TaskCall:
        elector = self.elector(coordinator, **options)

        async def body() -> Any:
            async with elector.leading(name, optional=optional) as lease:
                return lease if lease is None else await work.arun()

        return TaskCall(self.loop, body())
