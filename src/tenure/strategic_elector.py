"""Strategic electors: of all who stand for a name, the one that a strategy elects leads.

Knows: when an elector begins to stand, blocking and asyncio. Must not know: what an ending means (``_engine``), how candidacies are kept
(``_standing``), how a claim is made (the coordinator).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from cluster.client import AsyncLease, Lease
from tenure._standing import Standing
from tenure.aio_elector import AsyncLeaderElector
from tenure.elector import LeaderElector
from tenure.strategies import ElectionResult


class StrategicLeaderElector(Standing, LeaderElector):
    """``LeaderElector`` for the candidate that a strategy elects.

    It stands for a name from its first run for that name on (or from ``stand``), in the background too, until it is closed or
    forgotten; a run is granted the name if the strategy elects this candidate, and who comes next if the winner does not claim.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect`` or ``tenure.local``.
        options: see ``ElectionOptions``. ``node_id`` is as whom it stands (a function is called once, here): give each of several
            candidates in one process its own. ``wait_time`` is also how long to wait for one's turn.
        strategy: who is to lead; None: ``FifoStrategy()``. Give all candidates of a name the same one.
        weight, rank, metadata: what this candidate says of itself: a finite weight of 0 or more, an int, a mapping that JSON can say.
        ttl: seconds, 0.1 to 7 days: how long it stands after its process died. Renewed each third of it.
        claim_timeout: seconds, 0 to 7 days: who is in the k-th place behind the winner may claim the name k times this long after the
            first candidate asked for the free name.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.

    Raises:
        UsageError: what cannot be honoured.

    >>> import tenure
    >>> with tenure.local() as coordinator:
    ...     with tenure.StrategicLeaderElector(coordinator, strategy=tenure.RankedStrategy(), rank=1) as elector:
    ...         elector.run_if_leader("nightly-report", lambda: "done")
    'done'
    """

    def stand(self, name: str) -> None:
        """Stand for ``name`` from now on, without asking for it. Raises UsageError, Unavailable, Indeterminate."""
        self._stand(self._stored(name))

    def elect(self, name: str) -> ElectionResult:
        """Whom the strategy elects for ``name`` now, and why: to look at, not to act on. Raises UsageError, Unavailable."""
        return self._coordinator.elect(self._stored(name), self._strategy)

    def _stand(self, stored: str) -> None:
        if not self._kept.has(stored):
            self._kept.add(stored, self._coordinator.keep_candidate(stored, self._candidate, self._ttl))

    def _attempt(self, stored: str) -> Callable[[str], Lease | None]:
        self._stand(stored)
        return functools.partial(self._coordinator.acquire_elected, **self._request())

    def __enter__(self) -> StrategicLeaderElector:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


class AsyncStrategicLeaderElector(Standing, AsyncLeaderElector):
    """``AsyncLeaderElector`` for the candidate that a strategy elects: see ``StrategicLeaderElector``, whose arguments it takes.

    >>> import asyncio, tenure
    >>> async def report() -> str:
    ...     return "done"
    >>> async def main() -> str | None:
    ...     with tenure.local() as coordinator:
    ...         async with tenure.AsyncStrategicLeaderElector(coordinator, weight=2.0) as elector:
    ...             return await elector.run_if_leader("nightly-report", report)
    >>> asyncio.run(main())
    'done'
    """

    async def stand(self, name: str) -> None:
        """See ``StrategicLeaderElector.stand``."""
        await self._stand(self._stored(name))

    async def elect(self, name: str) -> ElectionResult:
        """See ``StrategicLeaderElector.elect``."""
        return await self._coordinator.aio.elect(self._stored(name), self._strategy)

    async def _stand(self, stored: str) -> None:
        if not self._kept.has(stored):
            self._kept.add(stored, await self._coordinator.aio.keep_candidate(stored, self._candidate, self._ttl))

    async def _acquire(self, stored: str) -> AsyncLease | None:
        await self._stand(stored)
        return await self._coordinator.aio.acquire_elected(stored, **self._request())

    async def __aenter__(self) -> AsyncStrategicLeaderElector:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self.close()
