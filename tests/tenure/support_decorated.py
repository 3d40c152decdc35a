"""Decorated functions and generators that say what they saw.

Knows: the public decorators, the fake coordinator. Must not know: what a test expects.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from typing import Any

import tenure
from cluster.errors import CoordinationError
from cluster.opcodes import Outcome
from tenure import AsyncLeaderElector, ElectionOptions, Indeterminate, LeaderElector, Unavailable, leader_only
from tests.tenure.fake import FakeCoordinator

OUTAGES: list[CoordinationError] = [Unavailable("no majority"), Indeterminate("no answer")]


class Form:
    """Decorates and calls one function, as it is or as a coroutine function."""

    def __init__(self, kind: str, coordinator: Any) -> None:
        self.in_tasks = kind == "asyncio"
        self.elector: Any = AsyncLeaderElector(coordinator) if self.in_tasks else LeaderElector(coordinator)

    def decorated(self, function: Callable[..., Any], name: Any = "job", **how: Any) -> Callable[..., Any]:
        if not self.in_tasks:
            plain: Callable[..., Any] = leader_only(self.elector, name, **how)(function)
            return plain

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return function(*args, **kwargs)

        call: Callable[..., Coroutine[Any, Any, Any]] = leader_only(self.elector, name, **how)(coroutine)
        assert inspect.iscoroutinefunction(call)
        return lambda *args, **kwargs: asyncio.run(call(*args, **kwargs))


def failing(error: Exception) -> Any:
    raise error


def outage(coordinator: Any, error: Exception) -> None:
    coordinator.grant = lambda *_: failing(error)


def seen() -> tuple[Any, bool]:
    return tenure.current_lease(), tenure.runs_unled()


class Iterated:
    """Three steps, as a generator and as an async generator, and what they saw."""

    def __init__(self, options: ElectionOptions | None = None, **how: Any) -> None:
        coordinator: Any = FakeCoordinator()
        self.coordinator = coordinator
        self.seen: list[Any] = []
        self.closed = False
        self.steps: Any = leader_only(LeaderElector(self.coordinator, options), "job-{first}", **how)(self._steps)
        elector = AsyncLeaderElector(self.coordinator, options)
        self.async_steps: Any = leader_only(elector, "job-{first}", **how)(self._async_steps)

    def _see(self) -> None:
        self.seen.append(tenure.current_lease() or tenure.runs_unled())

    def _steps(self, first: int = 0) -> Generator[int, str, str]:
        try:
            for number in range(3):
                self._see()
                try:
                    self.seen.append((yield first + number))
                except LookupError as error:
                    self.seen.append(error)
            return "value"
        finally:
            self._see()
            self.closed = True

    async def _async_steps(self, first: int = 0) -> AsyncGenerator[int, str]:
        try:
            for number in range(3):
                self._see()
                await asyncio.sleep(0)
                try:
                    self.seen.append((yield first + number))
                except LookupError as error:
                    self.seen.append(error)
        finally:
            await asyncio.sleep(0)
            self._see()
            self.closed = True

    def all_steps(self) -> list[int]:
        return list(self.steps())

    def all_async_steps(self) -> list[int]:
        return asyncio.run(collected(self.async_steps()))

    @property
    def outcomes(self) -> list[Outcome]:
        return list(self.coordinator.outcomes.values())


async def collected(walk: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in walk]
