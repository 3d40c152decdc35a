"""Which callables an elector takes (D7)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock

import pytest

from cluster.errors import UsageError
from tenure._actions import called_off, check_async, check_sync, not_awaitable, refuse_late

pytestmark = pytest.mark.fast


def plain(value: int = 0) -> int:
    return value


async def coroutine(value: int = 0) -> int:
    return value


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@functools.wraps(coroutine)
def wrapper(*args: Any) -> Any:
    return coroutine(*args)


@functools.wraps(coroutine)
def runner(*args: Any) -> int:
    return asyncio.run(coroutine(*args))


@functools.wraps(plain)
async def adapter(*args: Any) -> int:
    return plain(*args)


class Object:
    def plain(self) -> int:
        return 0

    async def coroutine(self) -> int:
        return 0


class Plain:
    def __call__(self) -> int:
        return 0


class Coroutine:
    async def __call__(self) -> int:
        return 0


BOTH_REFUSE: list[Any] = [generator, async_generator, functools.partial(generator), None, "name", 7]
PLAIN: list[Callable[..., Any]] = [plain, functools.partial(plain, 1), Object().plain, Plain(), print, int, lambda: 1]
ASYNC: list[Callable[..., Any]] = [coroutine, functools.partial(coroutine, 1), Object().coroutine, Coroutine()]


@pytest.mark.parametrize("action", [*PLAIN, runner])
def test_a_sync_elector_takes_plain_callables__D7(action: Callable[..., Any]) -> None:
    check_sync(action)


@pytest.mark.parametrize("action", [*ASYNC, *BOTH_REFUSE])
def test_a_sync_elector_refuses_what_would_run_later__D7(action: Any) -> None:
    with pytest.raises(UsageError):
        check_sync(action)


@pytest.mark.parametrize("action", [*ASYNC, wrapper, adapter, lambda: coroutine(1), AsyncMock()])
def test_an_asyncio_elector_takes_what_gives_an_awaitable__D7(action: Callable[..., Any]) -> None:
    check_async(action)


@pytest.mark.parametrize("action", [plain, functools.partial(plain, 1), Object().plain, *BOTH_REFUSE])
def test_an_asyncio_elector_refuses_plain_functions__D7(action: Any) -> None:
    with pytest.raises(UsageError):
        check_async(action)


def test_a_coroutine_object_is_no_action__D7() -> None:
    for check in (check_sync, check_async):
        # The refused coroutine is closed: no warning that it was never awaited.
        with pytest.raises(UsageError, match="run_if_leader"):
            check(coroutine(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 0, [], "text", plain])
def test_a_value_is_a_value__D7(value: object) -> None:
    assert refuse_late(plain, value) is None


def test_work_that_has_not_run_is_refused_and_called_off__D7() -> None:
    made = coroutine(1)
    assert "AsyncLeaderElector" in str(refuse_late(plain, made))
    with pytest.raises(RuntimeError, match="cannot reuse already awaited"):
        made.send(None)
    lazy = generator()
    assert "generator" in str(refuse_late(plain, lazy))
    assert list(lazy) == []
    assert "async generator" in str(refuse_late(plain, async_generator()))
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    assert "future" in str(refuse_late(plain, future))
    assert future.cancelled()


@pytest.mark.parametrize("error", [called_off, not_awaitable])
def test_work_that_a_form_cannot_take_is_called_off__D7(error: Callable[..., UsageError]) -> None:
    lazy = generator()
    assert "generator" in str(error(plain, lazy))
    assert list(lazy) == []


def test_a_future_that_an_asyncio_elector_cannot_await_is_cancelled__D7() -> None:
    future: concurrent.futures.Future[int] = concurrent.futures.Future()
    assert "nothing to await" in str(not_awaitable(plain, future))
    assert future.cancelled()


def test_a_task_that_a_plain_function_left_behind_is_cancelled__D7() -> None:
    async def main() -> bool:
        task = asyncio.ensure_future(asyncio.Event().wait())
        assert "future" in str(refuse_late(plain, task))
        await asyncio.wait({task})
        return task.cancelled()

    assert asyncio.run(main())
