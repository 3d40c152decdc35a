"""The verbs for tasks.

Knows: what awaiting and cancelling mean for each verb. Must not know: frames, connections, retries. Arguments, values and errors
are those of ``Coordinator``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from cluster.client import checks
from cluster.client.candidate_verbs import AsyncCandidateVerbs
from cluster.client.coordinator import CLOSE_LIMIT_S
from cluster.client.engine import refuse_closed
from cluster.client.errands import PlainCall
from cluster.client.handoff import LoopWaiter
from cluster.client.lease import AsyncLease
from cluster.client.lease_set import AsyncLeaseSet
from cluster.client.members import AsyncMembers
from cluster.client.port import Port
from cluster.client.records import AsyncRecords, RecordRequests
from cluster.client.requests import Pages, Requests
from cluster.client.values import ClusterStatus, LeaderGroupState, LeaderState, LeaseInfo
from cluster.client.watch import AsyncWatch


class AsyncCoordinator(AsyncCandidateVerbs):
    """``Coordinator``'s verbs as coroutines; got by its ``aio``. May be used from several event loops.

    A verb that is cancelled leaves nothing behind: what was or will be granted to it is abandoned at once.
    """

    def __init__(self, port: Port, requests: Requests) -> None:
        self._port = port
        self._requests = requests

    @property
    def records(self) -> AsyncRecords:
        """See ``Coordinator.records``."""
        return AsyncRecords(RecordRequests(self._port, self._requests), self._ask)

    async def acquire(
        self,
        name: str,
        *,
        lease_time: checks.Seconds = 60.0,
        wait_time: checks.Seconds = 0.0,
        max_leaders: int = 1,
        min_lease_time: checks.Seconds = 0.0,
        auto_extend: bool = False,
        metadata: Mapping[str, Any] | None = None,
        node_id: str | None = None,
        timeout: checks.Seconds | None = None,
    ) -> AsyncLease | None:
        """See ``Coordinator.acquire``."""
        spec = self._requests.spec(
            (checks.name(name),), lease_time, wait_time, max_leaders, min_lease_time, auto_extend, metadata, node_id
        )
        cores = await self._acquire(spec, timeout, many=False)
        return None if cores is None else AsyncLease(self._port, cores[0])

    async def acquire_all(
        self,
        names: Iterable[str],
        *,
        lease_time: checks.Seconds = 60.0,
        wait_time: checks.Seconds = 0.0,
        max_leaders: int = 1,
        min_lease_time: checks.Seconds = 0.0,
        auto_extend: bool = False,
        metadata: Mapping[str, Any] | None = None,
        node_id: str | None = None,
        timeout: checks.Seconds | None = None,
    ) -> AsyncLeaseSet | None:
        """See ``Coordinator.acquire_all``."""
        spec = self._requests.spec(
            checks.names(names), lease_time, wait_time, max_leaders, min_lease_time, auto_extend, metadata, node_id
        )
        cores = await self._acquire(spec, timeout, many=True)
        return None if cores is None else AsyncLeaseSet(AsyncLease(self._port, core) for core in cores)

    async def _acquire(self, spec: checks.AcquireSpec, timeout: checks.Seconds | None, *, many: bool) -> Any:
        waiter = LoopWaiter()
        call = self._requests.acquire(spec, timeout, waiter, many=many)
        self._requests.begin(call)
        try:
            return await waiter.future
        except BaseException:
            self._port.hand_over(call.give_up)
            raise

    async def state(self, name: str, *, consistent: bool = False, timeout: checks.Seconds | None = None) -> LeaderState:
        """See ``Coordinator.state``."""
        state: LeaderState = await self._ask(self._requests.state, name, consistent, timeout)
        return state

    async def group_state(
        self, name: str, *, consistent: bool = False, timeout: checks.Seconds | None = None
    ) -> LeaderGroupState:
        """See ``Coordinator.group_state``."""
        state: LeaderGroupState = await self._ask(self._requests.group_state, name, consistent, timeout)
        return state

    def leases(self, prefix: str = "", *, timeout: checks.Seconds | None = None) -> AsyncIterator[LeaseInfo]:
        """See ``Coordinator.leases``; for ``async for``."""
        return self._leases(self._requests.pages(prefix, timeout))

    async def _leases(self, pages: Pages) -> AsyncIterator[LeaseInfo]:
        while not pages.done:
            for info in pages.take(await self._ask(pages.next)):
                yield info

    async def status(self, *, timeout: checks.Seconds | None = None) -> ClusterStatus:
        """See ``Coordinator.status``."""
        status: ClusterStatus = await self._ask(self._requests.status, timeout)
        return status

    async def watch(
        self,
        prefix: str = "",
        *,
        after: int | None = None,
        extended: bool = False,
        timeout: checks.Seconds | None = None,
    ) -> AsyncWatch:
        """See ``Coordinator.watch``: ``async for event in await coordinator.aio.watch()``."""
        checked, start, wanted = self._requests.watched(prefix, after, extended)
        if start is None:
            start = await self._ask(self._requests.newest_event, timeout)
        return AsyncWatch(self._port, checked, start, wanted, self._requests.check)

    async def revoke(
        self, name: str, slot: int | None = None, *, force: bool = False, timeout: checks.Seconds | None = None
    ) -> int:
        """See ``Coordinator.revoke``."""
        count: int = await self._ask(self._requests.revoke, name, slot, force, timeout)
        return count

    @property
    def members(self) -> AsyncMembers:
        """See ``Coordinator.members``."""
        return AsyncMembers(self._ask, self._requests)

    async def transfer_leadership(self, to: str | None = None, *, timeout: checks.Seconds | None = None) -> None:
        """See ``Coordinator.transfer_leadership``."""
        await self._ask(self._requests.transfer, to, timeout)

    async def _ask(self, request: Callable[..., PlainCall], *args: Any) -> Any:
        waiter = LoopWaiter()
        call = request(waiter, *args)
        self._requests.begin(call)
        try:
            return await waiter.future
        except BaseException:
            self._port.hand_over(self._port.engine.withdraw, call)
            raise

    async def close(self, *, limit: checks.Seconds = CLOSE_LIMIT_S) -> None:
        """See ``Coordinator.close``."""
        limit_s = checks.limit_s(limit, "limit")
        self._port.engine.check_process()
        await self._port.close_async(limit_s)

    async def __aenter__(self) -> AsyncCoordinator:
        self._port.engine.check_process()
        refuse_closed(self._port.engine, "async with")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, GeneratorExit):
            # What is being closed must not await.
            self._port.engine.check_process()
            self._port.close_soon(CLOSE_LIMIT_S)
        else:
            await self.close()
