"""Functions that run only where their name is granted: an elector, written above the function.

Knows: which elector takes which functions, and what their callers get, as types. Must not know: how a decorated call goes
(``_decorated``).

``failure_mode`` decides one thing only: what happens while the cluster is unavailable. A name that others hold is always a skip; a bad
name, a refused secret, an error of the function are raised as they are. What runs without a lease is marked: ``current_lease`` finds
none, ``assert_leader`` refuses, ``runs_unled`` is true, and its result is ``Unled``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload

from cluster.errors import UsageError
from tenure._call_names import Naming
from tenure._decorated import FailureMode, decorator
from tenure.aio_elector import AsyncLeaderElector, AsyncLeaderGroupElector
from tenure.elector import LeaderElector, LeaderGroupElector
from tenure.results import RunResult, Unled

P = ParamSpec("P")
T = TypeVar("T")
Y = TypeVar("Y")
S = TypeVar("S")
R = TypeVar("R")


class Decorator(Protocol):
    """For a plain function or a generator function."""

    @overload
    def __call__(self, function: Callable[P, Generator[Y, S, R]], /) -> Callable[P, Generator[Y, S, R | None]]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Callable[P, T | None]: ...


class ResultDecorator(Protocol):
    """For a plain function whose callers want the ending as a value."""

    def __call__(self, function: Callable[P, T], /) -> Callable[P, RunResult[T] | Unled[T]]: ...


class AsyncDecorator(Protocol):
    """For a coroutine function or an async generator function."""

    @overload
    def __call__(self, function: Callable[P, AsyncGenerator[Y, S]], /) -> Callable[P, AsyncGenerator[Y, S]]: ...
    @overload
    def __call__(self, function: Callable[P, AsyncIterator[Y]], /) -> Callable[P, AsyncIterator[Y]]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Callable[P, Coroutine[Any, Any, T | None]]: ...


class AsyncResultDecorator(Protocol):
    """For a coroutine function whose callers want the ending as a value."""

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Callable[P, Coroutine[Any, Any, RunResult[T] | Unled[T]]]: ...


@overload
def leader_only(
    elector: LeaderElector, name: Naming, *, failure_mode: FailureMode = "raise", result: Literal[False] = False
) -> Decorator: ...
@overload
def leader_only(
    elector: LeaderElector, name: Naming, *, failure_mode: FailureMode = "raise", result: Literal[True]
) -> ResultDecorator: ...
@overload
def leader_only(
    elector: AsyncLeaderElector, name: Naming, *, failure_mode: FailureMode = "raise", result: Literal[False] = False
) -> AsyncDecorator: ...
@overload
def leader_only(
    elector: AsyncLeaderElector, name: Naming, *, failure_mode: FailureMode = "raise", result: Literal[True]
) -> AsyncResultDecorator: ...
def leader_only(
    elector: LeaderElector | AsyncLeaderElector,
    name: Naming,
    *,
    failure_mode: FailureMode = "raise",
    result: bool = False,
) -> Any:
    """Run the decorated function only where this caller is granted ``name``; else a call returns None, and a generator yields nothing.

    The lease of a generator spans the iteration: it is acquired at the first step and given back when the generator ends or is closed.

    Args:
        elector: a ``LeaderElector`` for functions and generators, an ``AsyncLeaderElector`` for coroutine functions and async
            generators. Its options hold for every call.
        name: what to lead: a name; one with parameters of the function in braces, ``"report-{region}"``, whose arguments must be
            texts or integers; or a function that takes the call's arguments and returns the name.
        failure_mode: what a call does while the cluster is unavailable, and only then. ``"raise"``: raise ``Unavailable`` or
            ``Indeterminate``. ``"skip"``: as if the name was not granted. ``"run_anyway"``: run without a lease, on this process
            and perhaps on others at once; see ``runs_unled``.
        result: calls return ``Elected``, ``Skipped``, ``ActionFailed``, ``LeaseLost`` or ``Unled``. Not for generators.

    Raises:
        UsageError: when decorated: an elector that does not fit the function, a bad name, a bad ``failure_mode``. When called: a bad
            name, a function that returned work that has not run yet.

    >>> import tenure
    >>> with tenure.local() as coordinator:
    ...     @tenure.leader_only(tenure.LeaderElector(coordinator), "report-{region}")
    ...     def report(region: str) -> str:
    ...         return tenure.current_lease().name
    ...     report("eu")
    'report-eu'
    """
    _check_elector(
        elector, (LeaderElector, AsyncLeaderElector), (LeaderGroupElector, AsyncLeaderGroupElector), "leader_group_only"
    )
    return decorator(elector, name, failure_mode, result)


@overload
def leader_group_only(
    elector: LeaderGroupElector, name: Naming, *, failure_mode: FailureMode = "raise", result: Literal[False] = False
) -> Decorator: ...
@overload
def leader_group_only(
    elector: LeaderGroupElector, name: Naming, *, failure_mode: FailureMode = "raise", result: Literal[True]
) -> ResultDecorator: ...
@overload
def leader_group_only(
    elector: AsyncLeaderGroupElector,
    name: Naming,
    *,
    failure_mode: FailureMode = "raise",
    result: Literal[False] = False,
) -> AsyncDecorator: ...
@overload
def leader_group_only(
    elector: AsyncLeaderGroupElector, name: Naming, *, failure_mode: FailureMode = "raise", result: Literal[True]
) -> AsyncResultDecorator: ...
def leader_group_only(
    elector: LeaderGroupElector | AsyncLeaderGroupElector,
    name: Naming,
    *,
    failure_mode: FailureMode = "raise",
    result: bool = False,
) -> Any:
    """``leader_only`` for up to ``max_leaders`` calls at once: each leads a slot of its own, under a token of its own.

    >>> import tenure
    >>> with tenure.local() as coordinator:
    ...     @tenure.leader_group_only(tenure.LeaderGroupElector(coordinator), "resize")
    ...     def resize() -> int:
    ...         return tenure.current_lease().slot
    ...     resize()
    0
    """
    _check_elector(
        elector, (LeaderGroupElector, AsyncLeaderGroupElector), (LeaderElector, AsyncLeaderElector), "leader_only"
    )
    return decorator(elector, name, failure_mode, result)


def _check_elector(elector: object, wanted: tuple[type, ...], others: tuple[type, ...], instead: str) -> None:
    if not isinstance(elector, wanted):
        hint = (
            f"give one to {instead}"
            if isinstance(elector, others)
            else f"give a {wanted[0].__name__} or an {wanted[1].__name__}"
        )
        raise UsageError(f"the elector of a decorator is {type(elector).__name__}", hint)
