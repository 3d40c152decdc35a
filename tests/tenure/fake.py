"""A coordinator whose leases are granted, lost and released on command.

Knows: the verbs that electors call. Must not know: clocks, networks.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from cluster.errors import LeaseLostError
from cluster.opcodes import Outcome


class FakeLost:
    reason = "expired"

    def __init__(self) -> None:
        self._set = False
        self._callbacks: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        return self._set

    def on_set(self, callback: Callable[[], object]) -> Callable[[], None]:
        if self._set:
            callback()
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def set(self) -> None:
        self._set = True
        for callback in list(self._callbacks):
            callback()

    @property
    def watched(self) -> int:
        return len(self._callbacks)


class FakeLease:
    """Both a ``Lease`` and what the two forms have in common."""

    def __init__(self, owner: FakeCoordinator, name: str, token: int, node_id: str) -> None:
        self._owner = owner
        self.name = name
        self.token = token
        self.slot = 0
        self.node_id = node_id
        self.lost = FakeLost()
        self.warnings = 0

    def check(self) -> None:
        if self.lost.is_set():
            raise LeaseLostError(f"{self.name!r} is over")

    def release_soon(self, outcome: Outcome = Outcome.COMPLETED) -> None:
        self._owner.give_back(self, outcome)

    def release(self, outcome: Outcome = Outcome.COMPLETED) -> Any:
        self._owner.give_back(self, outcome)
        if self._owner.release_error is not None:
            raise self._owner.release_error
        return True


class FakeAsyncLease(FakeLease):
    def for_threads(self) -> FakeLease:
        return self

    def begin_release(self, outcome: Outcome = Outcome.COMPLETED) -> asyncio.Future[bool]:
        self._owner.give_back(self, outcome)
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._owner.release_error is not None:
            future.set_exception(self._owner.release_error)
        elif self._owner.hold_releases:
            self._owner.releasing.append(future)
        else:
            future.set_result(True)
        return future


class FakeAio:
    def __init__(self, owner: FakeCoordinator) -> None:
        self._owner = owner

    async def acquire(self, name: str, **options: Any) -> FakeAsyncLease | None:
        await asyncio.sleep(0)
        lease: FakeAsyncLease | None = self._owner.grant(FakeAsyncLease, name, options)
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            # As the real one: whoever gave up while the grant was on its way holds nothing.
            if lease is not None:
                self._owner.give_back(lease, Outcome.NOT_STARTED)
            raise
        return lease

    async def state(self, name: str, *, timeout: float = 5.0, consistent: bool = False) -> SimpleNamespace:
        await asyncio.sleep(0)
        return self._owner.state(name, timeout=timeout)


class FakeCoordinator:
    """Grants what nobody holds.

    Attributes:
        outcomes: how each lease was given back, by token.
        acquired: the options of every attempt.
        born_lost: grants are lost before anyone sees them.
        release_error: raised by every release, after it has been done.
        state_error: raised by every look at a state.
        hold_releases: asyncio releases wait until ``let_releases_go``.
    """

    def __init__(self) -> None:
        self._tokens = itertools.count(1)
        self.held: dict[str, FakeLease] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.acquired: list[dict[str, Any]] = []
        self.born_lost = False
        self.release_error: Exception | None = None
        self.state_error: Exception | None = None
        self.hold_releases = False
        self.releasing: list[asyncio.Future[bool]] = []

    @property
    def aio(self) -> Any:
        return FakeAio(self)

    def acquire(self, name: str, **options: Any) -> FakeLease | None:
        lease: FakeLease | None = self.grant(FakeLease, name, options)
        return lease

    def state(self, name: str, *, timeout: float = 5.0, consistent: bool = False) -> SimpleNamespace:
        if self.state_error is not None:
            raise self.state_error
        holder = self.held.get(name)
        return SimpleNamespace(leader=None if holder is None else SimpleNamespace(node_id=holder.node_id))

    def grant(self, kind: type[Any], name: str, options: dict[str, Any]) -> Any:
        self.acquired.append(options)
        if name in self.held:
            return None
        lease = kind(self, name, next(self._tokens), options["node_id"] or "fake")
        if self.born_lost:
            lease.lost.set()
        self.held[name] = lease
        return lease

    def give_back(self, lease: FakeLease, outcome: Outcome) -> None:
        if lease.token not in self.outcomes:
            self.outcomes[lease.token] = outcome
            if self.held.get(lease.name) is lease:
                del self.held[lease.name]

    def let_releases_go(self) -> None:
        for future in self.releasing:
            future.set_result(True)

    def lose(self, name: str) -> None:
        """The lease is over, and the next may be granted."""
        self.held.pop(name).lost.set()
