"""Which callables an elector takes: a sync elector no coroutine, an asyncio elector nothing else.

Knows: how to tell the kinds of callables and what they return apart. Must not know: leases, electors.

A mistake here would run the work without its lease: a coroutine that a sync elector returned would run after the release, a plain
function would block the loop. So it is refused, before anything is acquired where the callable itself shows it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
from collections.abc import Callable
from typing import Any

from cluster.errors import UsageError

_LAZY = "the body of a generator runs while someone iterates over it, after the lease"


def check_sync(action: Callable[..., object]) -> None:
    """Refuse what cannot be a plain function's work.

    Raises:
        UsageError: not callable, a coroutine function, or a generator function. Nothing was acquired.
    """
    target = _innermost(action)
    if inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(_call_method(target)):
        raise UsageError(f"{_shown(action)} is a coroutine function", "use AsyncLeaderElector for it")
    _check_not_lazy(action, target)


def check_async(action: Callable[..., object]) -> None:
    """Refuse what cannot be a coroutine's work.

    A ``def`` could have been written ``async def`` and is refused; a lambda or another callable object is judged by what it returns.

    Raises:
        UsageError: not callable, a plain or a generator function. Nothing was acquired.
    """
    target = _innermost(action)
    _check_not_lazy(action, target)
    plain = inspect.isfunction(target) or inspect.ismethod(target)
    # A wrapper that names the coroutine function it wraps hands out that one's coroutines.
    named = any(map(inspect.iscoroutinefunction, (target, _innermost(inspect.unwrap(target)))))
    if plain and target.__name__ != "<lambda>" and not named:
        raise UsageError(
            f"{_shown(action)} is not a coroutine function",
            "write it as async def, or use LeaderElector for a plain function",
        )


def refuse_late(action: Callable[..., object], value: object) -> UsageError | None:
    """The error for a plain function that returned work that has not run yet, or None. That work is called off where it can be."""
    if inspect.iscoroutine(value):
        value.close()
        kind, hint = "a coroutine", "it was closed unrun; use AsyncLeaderElector for it"
    elif inspect.isgenerator(value):
        value.close()
        kind, hint = "a generator", f"it was closed unrun: {_LAZY}"
    elif inspect.isasyncgen(value):
        kind, hint = "an async generator", f"it was not run: {_LAZY}"
    elif isinstance(value, (concurrent.futures.Future, asyncio.Future)):
        _cancel(value)
        kind, hint = (
            "a future",
            "its work would go on without the lease, so it was cancelled; return when the work is done",
        )
    elif inspect.isawaitable(value):
        kind, hint = "an awaitable", "use AsyncLeaderElector for it"
    else:
        return None
    return UsageError(f"{_shown(action)} returned {kind} to a LeaderElector, and the lease was released", hint)


def called_off(action: Callable[..., object], value: object) -> UsageError:
    """The error for a function that a future elector called, and that returned no future. Work that has not run yet is called off."""
    _call_off(value)
    return UsageError(
        f"{_shown(action)} returned {type(value).__name__}, no concurrent.futures.Future, to a FutureLeaderElector; it ran once",
        "return the future of the work, or use ThreadLeaderElector for a function whose work is done when it returns",
    )


def not_awaitable(action: Callable[..., object], value: object) -> UsageError:
    """The error for a callable that an asyncio elector called, and that returned no awaitable. Work that has not run yet is called off."""
    _call_off(value)
    return UsageError(
        f"{_shown(action)} returned {type(value).__name__}, nothing to await, to an AsyncLeaderElector; it ran once",
        "write it as async def, or use LeaderElector for a plain function",
    )


def _innermost(action: Any) -> Any:
    while isinstance(action, (functools.partial, functools.partialmethod)):
        action = action.func
    return action


def _call_method(target: Any) -> Any:
    return (
        None
        if inspect.isroutine(target) or inspect.isclass(target)
        else inspect.getattr_static(type(target), "__call__", None)
    )


def _check_not_lazy(action: Any, target: Any) -> None:
    if not callable(target):
        hint = "pass the function itself and its arguments after it: run_if_leader(name, function, argument)"
        if inspect.iscoroutine(target):
            target.close()
        raise UsageError(f"the action is {type(target).__name__}, not a callable", hint)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise UsageError(f"{_shown(action)} is a generator function", f"{_LAZY}; iterate inside leading(name) instead")


def _call_off(value: object) -> None:
    if inspect.iscoroutine(value) or inspect.isgenerator(value):
        value.close()
    elif isinstance(value, (concurrent.futures.Future, asyncio.Future)):
        _cancel(value)


def _cancel(future: concurrent.futures.Future[Any] | asyncio.Future[Any]) -> None:
    if isinstance(future, concurrent.futures.Future):
        future.cancel()
    elif not (loop := future.get_loop()).is_closed():
        loop.call_soon_threadsafe(future.cancel)


def _shown(action: Any) -> str:
    target = _innermost(action)
    return f"action {getattr(target, '__qualname__', None) or type(target).__qualname__}"
