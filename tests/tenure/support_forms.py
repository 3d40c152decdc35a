"""Every form of an elector as one call, for tests that ask the same of all of them.

Knows: the public electors and decorators. Must not know: what is asked.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

import tenure
from tenure import leader_only


def failing(error: BaseException) -> Any:
    raise error


async def awaited(value: Any) -> Any:
    return await value


def blocking(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    return tenure.LeaderElector(coordinator, **to).run_if_leader("job", action)


def in_body(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    with tenure.LeaderElector(coordinator, **to).leading("job", optional=True) as lease:
        return None if lease is None else action()


def in_group(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    return tenure.LeaderGroupElector(coordinator, **to).run_if_leader("job", action)


def in_tasks(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    async def work() -> Any:
        return action()

    return asyncio.run(awaited(tenure.AsyncLeaderElector(coordinator, **to).run_if_leader("job", work)))


def in_async_body(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    async def main() -> Any:
        async with tenure.AsyncLeaderElector(coordinator, **to).leading("job", optional=True) as lease:
            return None if lease is None else action()

    return asyncio.run(main())


def as_future(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    def begin() -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(action())
        except Exception as error:
            future.set_exception(error)
        return future

    return tenure.FutureLeaderElector(coordinator, **to).run_if_leader("job", begin).result(10)


def in_thread(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    with tenure.ThreadLeaderElector(coordinator, **to) as elector:
        return elector.run_if_leader("job", action).result(10)


def as_generator(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    @leader_only(tenure.LeaderElector(coordinator, **to), "job")
    def steps() -> Generator[Any, None, None]:
        yield action()

    return list(steps()) or None


def as_async_generator(coordinator: Any, to: dict[str, Any], action: Callable[[], Any]) -> Any:
    @leader_only(tenure.AsyncLeaderElector(coordinator, **to), "job")
    async def steps() -> AsyncIterator[Any]:
        yield action()

    async def main() -> Any:
        return [item async for item in steps()] or None

    return asyncio.run(main())


FORMS = [blocking, in_body, in_group, in_tasks, in_async_body, as_future, in_thread, as_generator, as_async_generator]
Form = Callable[[Any, dict[str, Any], Callable[[], Any]], Any]
