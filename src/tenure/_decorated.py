"""What stands around a decorated function, for each kind of function.

Knows: the kinds of functions, what an outage means to each. Must not know: how a run goes (the electors), how a name is made
(``_call_names``), the steps of generators (``_iteration``), types of callers (``decorators``).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any, Literal, get_args

from cluster.client import AsyncLease, Lease
from cluster.errors import CoordinationError, UsageError
from tenure import context
from tenure._actions import check_async, check_sync, not_awaitable, refuse_late
from tenure._call_names import CallName, Naming
from tenure._engine import OUTAGE, Watching
from tenure._iteration import AsyncSteps, drive
from tenure.aio_elector import AsyncLeaderElector, AsyncLeaderGroupElector
from tenure.context import NoLease
from tenure.options import AnyOptions
from tenure.results import Skipped, Unled

log = logging.getLogger(__name__)

Function = Callable[..., Any]
FailureMode = Literal["raise", "skip", "run_anyway"]


class _Guard:
    """What one decorated function asks for: its elector, the name of a call, and what an outage means."""

    def __init__(self, elector: Any, name: Naming, mode: FailureMode, result: bool, function: Function) -> None:
        self.elector = elector
        self.result = result
        # Says the name of a call. Whether it is one, the elector checks before it asks anybody, and so before an outage can be met.
        self.name = CallName(name, function, elector._stored)
        self._mode = mode

    @property
    def raises(self) -> bool:
        return self._mode == "raise"

    @property
    def stops(self) -> bool:
        """Whether an iteration ends at the next step once its lease is lost."""
        options: AnyOptions = self.elector.options
        return options.on_lost != "signal"

    def run(self) -> Function:
        run: Function = self.elector.run_if_leader_result if self.result else self.elector.run_if_leader
        return run

    def without(self, name: str, outage: CoordinationError) -> NoLease | None:
        """Nobody could be asked: what stands in the place of the lease, or None for a skip."""
        stored = self.elector._stored(name)
        if self._mode == "skip":
            for each in self.elector._watching():
                each.left_out(stored, outage)
            log.warning("run.skipped name=%s: the cluster is unavailable, and failure_mode is skip: %s", stored, outage)
            return None
        log.warning(
            "run.unled name=%s: the cluster is unavailable, and failure_mode lets it run without a lease: %s",
            stored,
            outage,
        )
        return NoLease(stored)

    @contextlib.contextmanager
    def unled(self, mark: NoLease) -> Iterator[None]:
        """Around a run without a lease: it is recorded as such, whatever comes of it."""
        watching: list[Watching] = self.elector._watching()
        for each in watching:
            each.unled(mark.name)
        error: BaseException | None = None
        try:
            yield
        except BaseException as caught:
            error = caught
            raise
        finally:
            for each in watching:
                each.unled_ended(error)

    def skipped(self) -> Any:
        return Skipped("unavailable") if self.result else None


def decorator(elector: Any, name: Naming, failure_mode: FailureMode, result: bool) -> Callable[[Function], Function]:
    """What decorates one function. See ``tenure.decorators.leader_only``."""
    if failure_mode not in get_args(FailureMode):
        raise UsageError(f"failure_mode={failure_mode!r} is not known", 'give "raise", "skip" or "run_anyway"')
    if not isinstance(result, bool):
        raise UsageError(f"result is {type(result).__name__}", "give True or False")
    in_tasks = isinstance(elector, (AsyncLeaderElector, AsyncLeaderGroupElector))

    def decorate(function: Function) -> Function:
        wrap = _wrapper_for(function, in_tasks)
        if result and wrap in (_generator, _async_generator):
            raise UsageError(
                f"{_shown(function)} is a generator function, which has no result to give", "leave result out"
            )
        return wrap(_Guard(elector, name, failure_mode, result, function), function)

    return decorate


def _wrapper_for(function: Function, in_tasks: bool) -> Callable[[_Guard, Function], Function]:
    if isinstance(function, (staticmethod, classmethod, type)):
        raise UsageError(
            f"a {type(function).__name__} is not decorated",
            "decorate the function itself, below @staticmethod or @classmethod",
        )
    if inspect.isasyncgenfunction(function):
        if in_tasks:
            return _async_generator
        raise UsageError(f"{_shown(function)} is an async generator function", "use AsyncLeaderElector for it")
    if inspect.isgeneratorfunction(function):
        if not in_tasks:
            return _generator
        raise UsageError(
            f"{_shown(function)} is a generator function", "use LeaderElector for it, or write it as async def"
        )
    if not in_tasks:
        check_sync(function)
        return _plain
    check_async(function)
    return _coroutine


def _shown(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _plain(guard: _Guard, function: Function) -> Function:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        name = guard.name(args, kwargs)
        begun: list[bool] = []

        @functools.wraps(function)
        def action() -> Any:
            begun.append(True)
            return function(*args, **kwargs)

        try:
            return guard.run()(name, action)
        except OUTAGE as error:
            # An outage that the function itself met is the function's own error.
            if begun or guard.raises:
                raise
            outage = error
        mark = guard.without(name, outage)
        if mark is None:
            return guard.skipped()
        return _unled(guard, mark, outage, functools.partial(function, *args, **kwargs))

    return call


def _unled(guard: _Guard, mark: NoLease, outage: CoordinationError, action: functools.partial[Any]) -> Any:
    context.push(mark)
    try:
        with guard.unled(mark):
            value = action()
    except Exception as error:
        if guard.result:
            return Unled(None, error, outage)
        raise
    finally:
        context.remove(mark)
    if (refused := refuse_late(action, value)) is not None:
        raise UsageError(
            f"{_shown(action.func)} returned work that has not run, in a run without a lease", refused.hint
        )
    return Unled(value, None, outage) if guard.result else value


def _coroutine(guard: _Guard, function: Function) -> Function:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        name = guard.name(args, kwargs)
        begun: list[bool] = []

        @functools.wraps(function)
        async def action() -> Any:
            begun.append(True)
            return await _awaited(function, args, kwargs)

        try:
            return await guard.run()(name, action)
        except OUTAGE as error:
            if begun or guard.raises:
                raise
            outage = error
        mark = guard.without(name, outage)
        if mark is None:
            return guard.skipped()
        context.push(mark)
        try:
            with guard.unled(mark):
                value = await _awaited(function, args, kwargs)
        except Exception as error:
            if guard.result:
                return Unled(None, error, outage)
            raise
        finally:
            context.remove(mark)
        return Unled(value, None, outage) if guard.result else value

    return call


async def _awaited(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    work = function(*args, **kwargs)
    if not inspect.isawaitable(work):
        raise not_awaitable(function, work)
    return await work


def _generator(guard: _Guard, function: Function) -> Function:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        name = guard.name(args, kwargs)
        lease: Lease | None = None
        mark: NoLease | None = None
        with contextlib.ExitStack() as stack:
            try:
                lease = stack.enter_context(guard.elector.leading(name, optional=True))
            except OUTAGE as error:
                if guard.raises:
                    raise
                mark = guard.without(name, error)
                if mark is not None:
                    stack.enter_context(guard.unled(mark))
            under = mark if lease is None else lease
            if under is not None:
                return (yield from drive(function(*args, **kwargs), under, stops=guard.stops))
        return None

    return call


def _async_generator(guard: _Guard, function: Function) -> Function:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        name = guard.name(args, kwargs)
        # Before anything is acquired: a call that does not fit raises here, and holds nothing.
        inner = function(*args, **kwargs)
        run = guard.elector._new_run(name)
        lease: AsyncLease | None = None
        mark: NoLease | None = None
        try:
            lease = await guard.elector._acquire(run.name)
        except BaseException as error:
            run.unanswered(error)
            if guard.raises or not isinstance(error, OUTAGE):
                raise
            mark = guard.without(name, error)
        else:
            if lease is None:
                run.passed_over()
        under = mark if lease is None else lease
        if under is None:
            return
        # Nothing is awaited between the grant and this block, so no cancellation comes between them.
        unled = contextlib.nullcontext() if mark is None else guard.unled(mark)
        steps = AsyncSteps(run, under, inner, cancels=guard.stops)
        with unled:
            async with steps:
                while await steps.more():
                    try:
                        sent = yield steps.item
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        steps.throw(error)
                    else:
                        steps.send(sent)

    return call
