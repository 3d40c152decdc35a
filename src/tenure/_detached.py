"""What the forms have in common whose runs do not block their caller: how a run is begun, and how its ending comes back.

Knows: the order in which a run leaves its caller and returns as a future. Must not know: what an action is (the forms), cancellations
(``_aio``), what an ending means (``_engine``).
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from cluster.client import AsyncLease
from tenure import context
from tenure._aio import find_holder, lead
from tenure._asking import Opt
from tenure._background import background
from tenure._engine import Run
from tenure._futures import RunFuture
from tenure.elector import Body

T = TypeVar("T")
R = TypeVar("R")


class Call:
    """An action with its arguments, and the context that it runs in."""

    def __init__(self, action: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self.action = action
        self._args = args
        self._kwargs = kwargs

    def __call__(self, within: contextvars.Context) -> Any:
        return within.run(self.action, *self._args, **self._kwargs)


class Detached(Body[Opt]):
    """The part of a form that hands out futures."""

    async def _work(self, run: Run[Any], lease: AsyncLease, call: Call) -> None:
        """Begin if the run may, wait for the end of the work whatever happens, and write it down. As a child task under the lease."""
        raise AssertionError("a form without work")

    def _begin(self, name: str, call: Call, ending: Callable[[Run[T]], R], *, holder: bool = False) -> RunFuture[R]:
        """Start a run, in a copy of the caller's context.

        Args:
            name: as the caller said it.
            ending: which form of the ending is asked for.
            holder: find out who holds a name that was not granted.
        """
        run: Run[T] = self._new_run(name)
        aio = self._coordinator.aio
        acquire = functools.partial(aio.acquire, **self._request())
        refusal: list[BaseException] = []

        async def drive() -> None:
            try:
                await lead(run, acquire, lambda run, lease: self._work(run, lease, call), cancels=self._cancels)
                if holder and run.lease is None:
                    await find_holder(run, aio)
            except (Exception, asyncio.CancelledError) as error:
                refusal.append(error)

        def end() -> R:
            if refusal:
                raise refusal[0]
            return ending(run)

        return background().begin(drive, end, lambda: run.lease is None)


def under_lease(lease: AsyncLease) -> contextvars.Context:
    """The context of code that runs in a thread: the lease is there as one that can be waited for. For the child task to call."""
    context.remove(lease)
    context.push(lease.for_threads())
    return contextvars.copy_context()
