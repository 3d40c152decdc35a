"""The verbs: what an application asks of the cluster, for threads.

Knows: arguments, defaults, what each verb returns and raises. Must not know: frames, connections, retries. ``aio.py`` has the same
for tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from cluster.client import checks, requests
from cluster.client.attempt import AcquireCall
from cluster.client.candidate_verbs import CandidateVerbs
from cluster.client.door import Door
from cluster.client.engine import Engine, refuse_closed
from cluster.client.errands import PlainCall
from cluster.client.handoff import ThreadWaiter
from cluster.client.host import IoThread, on_io_thread
from cluster.client.lease import Lease
from cluster.client.lease_set import LeaseSet
from cluster.client.port import Port
from cluster.client.records import RecordRequests, Records
from cluster.client.values import ClusterStatus, LeaderGroupState, LeaderState, LeaseInfo
from cluster.client.watch import Watch
from cluster.ports import Env

if TYPE_CHECKING:
    from cluster.client.aio import AsyncCoordinator
    from cluster.client.members import Members

TIMEOUT_S: Final = 5.0
CLOSE_LIMIT_S: Final = 5.0

Self = TypeVar("Self", bound="Coordinator")


class Coordinator(CandidateVerbs):
    """Leases and what can be known of them. Share one per process: it is safe between threads, event loops and tasks.

    Made by ``connect`` (and by what wraps it), used as a context manager, or closed by ``close``. A child process must open its own.

    Args:
        door: the way to the nodes.
        timeout: seconds, 0.001 to 1 day: how long finding out what happened may take, where a verb is not told otherwise.
        node_id: what people see as the holder; None: ``hostname:pid``.
        io: a thread that this coordinator shall run on, and end with itself; None: one of its own.
        env: instead of ``io``: the env of a loop that runs elsewhere and goes on when this coordinator is closed.
        at_close: called on the loop when nothing is sent any more.
        role: ``"client"``, or ``"admin"`` where operators' verbs are needed.

    Raises:
        UsageError: a bad ``timeout`` or ``node_id``.
    """

    _port_type: ClassVar[type[Port]] = Port

    def __init__(
        self,
        door: Door,
        *,
        timeout: checks.Seconds = TIMEOUT_S,
        node_id: str | None = None,
        io: IoThread | None = None,
        env: Env | None = None,
        at_close: Callable[[], object] | None = None,
        role: str = "client",
    ) -> None:
        timeout_s = checks.timeout_s(timeout)
        if node_id is not None:
            checks.node_id(node_id)
        if env is None:
            io = io if io is not None else IoThread()
            env = io.env
        self._port = self._port_type(Engine(env, door, node_id, role), timeout_s, io, at_close)
        self._requests = requests.Requests(self._port)

    @property
    def aio(self) -> AsyncCoordinator:
        """The same verbs as coroutines, for any event loop."""
        from cluster.client.aio import AsyncCoordinator

        return AsyncCoordinator(self._port, self._requests)

    @property
    def records(self) -> Records:
        """Small replicated values that check the token of who writes them."""
        return Records(RecordRequests(self._port, self._requests), self._ask)

    def acquire(
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
    ) -> Lease | None:
        """Get a lease on ``name``, or None if it is not granted within ``wait_time``.

        First come, first served, without polling. Every call is a contender of its own, also within one process.

        Args:
            name: 1 to 255 characters of ``A-Z a-z 0-9 _ - : . /``, beginning with a letter or digit.
            lease_time: seconds, 0.1 to 7 days, counted from the grant.
            wait_time: seconds, 0 to 30 days; 0 is exactly one attempt.
            max_leaders: 1 to 1024 holders at once, one per slot; where callers differ the smallest counts.
            min_lease_time: seconds, 0 to ``lease_time``: the name stays occupied until grant + min after an early end.
            auto_extend: renew it in the background until it is released or lost.
            metadata: a mapping that JSON can say, at most 4096 bytes as compact JSON, shown by ``leases``.
            node_id: what people see as the holder; None: the coordinator's.
            timeout: seconds for finding out what happened, beyond ``wait_time``; None: the coordinator's.

        Raises:
            UsageError: a bad argument, a closed coordinator, a forked child. Nothing was sent.
            Unavailable: no answer in time, and it certainly was not granted.
            Indeterminate: no answer in time, and it may have been granted: it is being undone in the background.
            ProtocolError: the node speaks something else.
        """
        spec = self._requests.spec(
            (checks.name(name),), lease_time, wait_time, max_leaders, min_lease_time, auto_extend, metadata, node_id
        )
        call, waiter = self._attempt(spec, timeout, many=False)
        try:
            cores = self._grant(call, waiter)
            # Made inside the ``try``: Ctrl-C may come until the very return.
            return None if cores is None else Lease(self._port, cores[0])
        except BaseException:
            self._give_up(call)
            raise

    def acquire_all(
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
    ) -> LeaseSet | None:
        """Get leases on all of ``names`` in one step, or on none. 1 to 64 different names; the rest as ``acquire``.

        It stands in every name's queue at once, so that there is no order to get wrong and no deadlock.
        """
        spec = self._requests.spec(
            checks.names(names), lease_time, wait_time, max_leaders, min_lease_time, auto_extend, metadata, node_id
        )
        call, waiter = self._attempt(spec, timeout, many=True)
        try:
            cores = self._grant(call, waiter)
            return None if cores is None else LeaseSet(Lease(self._port, core) for core in cores)
        except BaseException:
            self._give_up(call)
            raise

    def _attempt(
        self, spec: checks.AcquireSpec, timeout: checks.Seconds | None, *, many: bool
    ) -> tuple[AcquireCall, ThreadWaiter]:
        self._port.engine.check_blocking()
        waiter = ThreadWaiter()
        return self._requests.acquire(spec, timeout, waiter, many=many), waiter

    def _grant(self, call: AcquireCall, waiter: ThreadWaiter) -> Any:
        self._requests.begin(call)
        return self._port.wait(waiter)

    def _give_up(self, call: AcquireCall) -> None:
        """KeyboardInterrupt and the like: whatever was or will be granted is undone in the background.

        After an error that came as the answer this does nothing.
        """
        self._port.hand_over(call.give_up)

    def state(self, name: str, *, consistent: bool = False, timeout: checks.Seconds | None = None) -> LeaderState:
        """Who leads ``name``: a snapshot for people, never for deciding to run.

        Args:
            name: as in ``acquire``.
            consistent: see everything that was acknowledged before this call, at the price of a round through the log.
            timeout: seconds; None: the coordinator's.

        Raises:
            UsageError, Unavailable, ProtocolError. Nothing was changed.
        """
        state: LeaderState = self._ask(self._requests.state, name, consistent, timeout)
        return state

    def group_state(self, name: str, *, consistent: bool = False, timeout: checks.Seconds | None = None) -> LeaderGroupState:
        """All who lead ``name``, by slot. As ``state``."""
        state: LeaderGroupState = self._ask(self._requests.group_state, name, consistent, timeout)
        return state

    def leases(self, prefix: str = "", *, timeout: checks.Seconds | None = None) -> Iterator[LeaseInfo]:
        """Every live lease whose name begins with ``prefix``, by name and slot, fetched page by page.

        Each page is a moment of its own: what changes meanwhile may be seen or not. ``timeout`` is for each page. Raises as ``state``;
        a bad argument is refused at once, not at the first step.
        """
        pages = self._requests.pages(prefix, timeout)
        return self._leases(pages)

    def _leases(self, pages: requests.Pages) -> Iterator[LeaseInfo]:
        while not pages.done:
            yield from pages.take(self._ask(pages.next))

    def status(self, *, timeout: checks.Seconds | None = None) -> ClusterStatus:
        """The raft group as the nearest node sees it; answered without a raft leader too. Raises as ``state``."""
        status: ClusterStatus = self._ask(self._requests.status, timeout)
        return status

    def watch(
        self,
        prefix: str = "",
        *,
        after: int | None = None,
        extended: bool = False,
        timeout: checks.Seconds | None = None,
    ) -> Watch:
        """Watch what happens to leases whose names begin with ``prefix``: iterate over what is returned, and close it.

        Nothing is missed between the return of this and the first step, or between two steps. Of what a slow watcher, or one that comes
        back late, cannot be told any more, it is told that it is missing: with a ``WatchGap``.

        Args:
            prefix: an empty one means every name.
            after: the number of the last event that was seen, by this process or another; None: what happens from now on.
            extended: tell of extensions by hand, too. Renewals by ``auto_extend`` are no events.
            timeout: seconds until it is known where the watch begins; None: the coordinator's. Steps have none.

        Raises:
            UsageError, Unavailable, ProtocolError. Nothing was changed.
        """
        checked, start, wanted = self._requests.watched(prefix, after, extended)
        if start is None:
            start = self._ask(self._requests.newest_event, timeout)
        return Watch(self._port, checked, start, wanted, self._requests.check)

    def revoke(self, name: str, slot: int | None = None, *, force: bool = False, timeout: checks.Seconds | None = None) -> int:
        """End a lease as an operator. Needs the admin role.

        Its holder is told, it cannot be extended any more, and the name is free when the holder releases it or its deadline passes.

        Args:
            name: as in ``acquire``.
            slot: which one; None: all of the name's.
            force: free it at once. The holder may still be running: exclusion is off.
            timeout: seconds; None: the coordinator's.

        Returns:
            How many leases were ended by this call.

        Raises:
            UsageError: a bad argument, or not the admin role. Unavailable: it did not happen. Indeterminate: it may have.
        """
        count: int = self._ask(self._requests.revoke, name, slot, force, timeout)
        return count

    @property
    def members(self) -> Members:
        """The raft group's members: ``list``, ``add``, ``remove``."""
        from cluster.client.members import Members

        return Members(self._ask, self._requests)

    def transfer_leadership(self, to: str | None = None, *, timeout: checks.Seconds | None = None) -> None:
        """Let another member lead the raft group. Needs the admin role. Leases are not touched.

        Args:
            to: its node id; None: the member whose log is furthest.
            timeout: seconds; None: the coordinator's.

        Raises:
            UsageError: not a member, or not the admin role. Unavailable: it did not take over. Indeterminate: it may have.
        """
        self._ask(self._requests.transfer, to, timeout)

    def _ask(self, request: Callable[..., PlainCall], *args: Any) -> Any:
        port = self._port
        port.engine.check_blocking()
        waiter = ThreadWaiter()
        call = request(waiter, *args)
        self._requests.begin(call)
        try:
            return port.wait(waiter)
        except BaseException:
            port.hand_over(port.engine.withdraw, call)
            raise

    def close(self, *, limit: checks.Seconds = CLOSE_LIMIT_S) -> None:
        """Close: idempotent, and never a release under running work.

        What still holds a lease is told that it ends (``lost`` is set), and stays protected while its holder ends and releases, for at most
        ``limit`` seconds (0 to 1 day). Leases that are still held then run out by themselves. What waits for a grant gets ``Unavailable``.
        Who is interrupted or cancelled here waits no longer; the coordinator is closed all the same.

        Raises:
            UsageError: a bad ``limit``, or called on the coordinator's I/O thread or in a forked child.
        """
        limit_s = checks.limit_s(limit, "limit")
        self._port.engine.check_process()
        self._port.engine.check_blocking()
        self._port.close(limit_s)

    def __enter__(self: Self) -> Self:
        self._port.engine.check_process()
        refuse_closed(self._port.engine, "with")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._port.engine.blocks_itself():
            # A generator may be collected, and its ``with`` left, anywhere.
            self._port.close_soon(CLOSE_LIMIT_S)
        else:
            self.close()

    async def __aenter__(self: Self) -> Self:
        await self.aio.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aio.__aexit__(kind, error, trace)

    def __repr__(self) -> str:
        state = "closed" if self._port.engine.closing else "open"
        return f"<Coordinator {self._port.engine.node_id.decode('utf-8', 'replace')} {state}>"


def must_not_wait(coordinator: Coordinator) -> bool:
    """Whether what is waited for here, and needs this coordinator, may wait for this thread: one that I/O runs on, or that a collector or a
    signal handler has stopped in a step that its I/O thread needs."""
    return on_io_thread() or coordinator._port.engine.blocks_itself()


def clock_of(coordinator: Coordinator) -> Callable[[], float]:
    """What its leases are counted by: seconds, from any thread, also after its end."""
    return coordinator._port.engine.clock
