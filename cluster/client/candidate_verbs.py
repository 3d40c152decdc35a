"""The verbs about candidates: who stands for a name, who is to lead it, and leading it if elected.

Knows: arguments, defaults, what each verb returns and raises, for threads and for tasks. Must not know: frames, connections, when to
claim (``electing``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from cluster.client import checks
from cluster.client.attempt import AcquireCall
from cluster.client.candidacy import Candidacy, KeepCall
from cluster.client.candidates import CandidateInfo, Candidates, Choosing, Placing, Placing_co, checked, read_look
from cluster.client.electing import Candidature, Rest
from cluster.client.errands import PlainCall, ReadCall
from cluster.client.handoff import LoopWaiter, ThreadWaiter, Waiter
from cluster.client.lease import AsyncLease, Lease
from cluster.client.port import Port
from cluster.client.requests import Requests
from cluster.opcodes import Op

TTL_S: Final = 30.0
CLAIM_TIMEOUT_S: Final = 1.0


class _Asked:
    """From checked arguments to calls, for both forms."""

    _port: Port
    _requests: Requests

    def _register(self, waiter: Waiter, name: object, info: object, ttl: object, timeout: object) -> PlainCall:
        words = checked(info)
        op = (int(Op.CANDIDATE_REGISTER), checks.name(name), words.node_id, checks.lease_ms(ttl, "ttl"), words.info)
        return self._plain(waiter, f"register a candidate for {name!r}", op, timeout)

    def _unregister(self, waiter: Waiter, name: object, node_id: object, timeout: object) -> PlainCall:
        who = self._port.engine.node_id if node_id is None else checks.node_id(node_id)
        return self._plain(
            waiter,
            f"unregister a candidate for {name!r}",
            (int(Op.CANDIDATE_UNREGISTER), checks.name(name), who),
            timeout,
        )

    def _plain(self, waiter: Waiter, about: str, op: tuple[object, ...], timeout: object) -> PlainCall:
        timeout_s = self._requests.timeout_s(timeout)
        self._requests.check(about)
        return PlainCall(self._port.engine, about, op, lambda answer: None, timeout_s, waiter)

    def _candidates(self, waiter: Waiter, name: object, timeout: object) -> PlainCall:
        op = (int(Op.CANDIDATES), checks.name(name))
        timeout_s = self._requests.timeout_s(timeout)
        self._requests.check("candidates")
        about = f"candidates for {name!r}"
        return ReadCall(
            self._port.engine, about, op, lambda answer: read_look(str(name), answer).view, timeout_s, waiter
        )

    def _keep(self, waiter: Waiter, name: object, info: object, ttl: object, timeout: object) -> PlainCall:
        timeout_s = self._requests.timeout_s(timeout)
        self._requests.check("keep_candidate")
        return KeepCall(self._port, checks.name(name), checked(info), checks.lease_ms(ttl, "ttl"), timeout_s, waiter)

    def _candidature(
        self, name: str, strategy: Choosing[Placing], claim_timeout: object, timeout: object, **terms: Any
    ) -> Candidature:
        spec = self._requests.spec((checks.name(name),), max_leaders=1, **terms)
        return Candidature(self._requests, self._port, name, strategy, claim_timeout, spec, timeout)


class CandidateVerbs(_Asked, ABC):
    """For threads: a part of ``Coordinator``."""

    @property
    def node_id(self) -> str:
        """As whom leases and candidates of this coordinator are shown, where a verb is not told otherwise."""
        return self._port.engine.node_id.decode("utf-8", "replace")

    @abstractmethod
    def _ask(self, request: Callable[..., PlainCall], *args: Any) -> Any: ...

    def register_candidate(
        self, name: str, info: CandidateInfo, ttl: checks.Seconds = TTL_S, *, timeout: checks.Seconds | None = None
    ) -> None:
        """Stand for ``name`` for ``ttl`` seconds. Called again in time, it goes on: what was counted and the place in line stay.

        Args:
            name: as in ``acquire``.
            info: who stands, with weight (0 or more), rank and metadata; what the cluster counts itself is ignored.
            ttl: seconds of cluster time, 0.1 to 7 days. Never shortens what was asked for before.
            timeout: seconds; None: the coordinator's.

        Raises:
            UsageError: a bad argument. Unavailable: it did not happen, or a limit is reached. Indeterminate: it may have.
        """
        self._ask(self._register, name, info, ttl, timeout)

    def unregister_candidate(
        self, name: str, node_id: str | None = None, *, timeout: checks.Seconds | None = None
    ) -> None:
        """Stand no more. ``node_id`` None: the coordinator's. Who does not stand is no error. Raises as ``register_candidate``."""
        self._ask(self._unregister, name, node_id, timeout)

    def keep_candidate(
        self, name: str, info: CandidateInfo, ttl: checks.Seconds = TTL_S, *, timeout: checks.Seconds | None = None
    ) -> Candidacy:
        """Stand for ``name`` until the returned candidacy is closed or this process ends: renewed each third of ``ttl`` in the background.

        Candidacies of one coordinator with the same name and node id share one registration, which ends with the last of them.
        Arguments and errors as ``register_candidate``.
        """
        candidacy: Candidacy = self._ask(self._keep, name, info, ttl, timeout)
        return candidacy

    def candidates(self, name: str, *, timeout: checks.Seconds | None = None) -> Candidates:
        """Who stands for ``name``, as all see it that was acknowledged before. Raises UsageError, Unavailable."""
        view: Candidates = self._ask(self._candidates, name, timeout)
        return view

    def elect(self, name: str, strategy: Choosing[Placing_co], *, timeout: checks.Seconds | None = None) -> Placing_co:
        """Who is to lead ``name`` by this strategy, and why. Changes nothing, grants nothing. Raises as ``candidates``."""
        return strategy.elect(self.candidates(name, timeout=timeout))

    def acquire_elected(
        self,
        name: str,
        strategy: Choosing[Placing],
        *,
        claim_timeout: checks.Seconds = CLAIM_TIMEOUT_S,
        lease_time: checks.Seconds = 60.0,
        wait_time: checks.Seconds = 0.0,
        min_lease_time: checks.Seconds = 0.0,
        auto_extend: bool = False,
        metadata: Mapping[str, Any] | None = None,
        node_id: str | None = None,
        timeout: checks.Seconds | None = None,
    ) -> Lease | None:
        """Get a lease on ``name`` as the candidate that the strategy elects, or None if that is not this one within ``wait_time``.

        The lease is granted only against the view that the strategy saw; one that was overtaken is looked at anew. Who is in the k-th place
        behind the winner may claim k times ``claim_timeout`` after the first candidate's claim on the free name, by cluster time: so a
        winner that is dead, or does not ask, delays the others and never blocks them.

        Args:
            strategy: a strategy; the same for all candidates of a name, or who is elected is a matter of luck (but never two at once).
                It runs in the calling thread, and what it raises is raised.
            claim_timeout: seconds, 0 to 7 days.
            node_id: as which candidate; it must be registered. None: the coordinator's.

        The rest as ``acquire``, errors too. It is told when a holder ends, and looks again each
        tenth of a second while the name is free and others come before it.
        """
        self._port.engine.check_blocking()
        way = self._candidature(
            name, strategy, claim_timeout, timeout, lease_time=lease_time, wait_time=wait_time, min_lease_time=min_lease_time,
            auto_extend=auto_extend, metadata=metadata, node_id=node_id,
        )  # fmt: skip
        port, call = self._port, None
        started: AcquireCall | Rest | None = None
        try:
            while True:
                look = self._ask(way.look)
                waiter = ThreadWaiter()
                started = call = way.choose(look, waiter)
                if call is not None:
                    self._requests.begin(call)
                    cores = port.wait(waiter)
                    if cores is not None:
                        # Made inside the ``try``: Ctrl-C may come until the very return.
                        return Lease(port, cores[0])
                    way.refused(call.refused)
                pause_s = way.pause_s()
                if pause_s is None:
                    return None
                waiter = ThreadWaiter()
                started = rest = way.rest(waiter, pause_s)
                self._requests.begin(rest)
                port.wait(waiter)
        except BaseException:
            if started is not None:
                port.hand_over(started.give_up)
            raise


class AsyncCandidateVerbs(_Asked, ABC):
    """For tasks: a part of ``AsyncCoordinator``. Arguments, values and errors are those of ``CandidateVerbs``."""

    @abstractmethod
    async def _ask(self, request: Callable[..., PlainCall], *args: Any) -> Any: ...

    async def register_candidate(
        self, name: str, info: CandidateInfo, ttl: checks.Seconds = TTL_S, *, timeout: checks.Seconds | None = None
    ) -> None:
        """See ``Coordinator.register_candidate``."""
        await self._ask(self._register, name, info, ttl, timeout)

    async def unregister_candidate(
        self, name: str, node_id: str | None = None, *, timeout: checks.Seconds | None = None
    ) -> None:
        """See ``Coordinator.unregister_candidate``."""
        await self._ask(self._unregister, name, node_id, timeout)

    async def keep_candidate(
        self, name: str, info: CandidateInfo, ttl: checks.Seconds = TTL_S, *, timeout: checks.Seconds | None = None
    ) -> Candidacy:
        """See ``Coordinator.keep_candidate``."""
        candidacy: Candidacy = await self._ask(self._keep, name, info, ttl, timeout)
        return candidacy

    async def candidates(self, name: str, *, timeout: checks.Seconds | None = None) -> Candidates:
        """See ``Coordinator.candidates``."""
        view: Candidates = await self._ask(self._candidates, name, timeout)
        return view

    async def elect(
        self, name: str, strategy: Choosing[Placing_co], *, timeout: checks.Seconds | None = None
    ) -> Placing_co:
        """See ``Coordinator.elect``."""
        return strategy.elect(await self.candidates(name, timeout=timeout))

    async def acquire_elected(
        self,
        name: str,
        strategy: Choosing[Placing],
        *,
        claim_timeout: checks.Seconds = CLAIM_TIMEOUT_S,
        lease_time: checks.Seconds = 60.0,
        wait_time: checks.Seconds = 0.0,
        min_lease_time: checks.Seconds = 0.0,
        auto_extend: bool = False,
        metadata: Mapping[str, Any] | None = None,
        node_id: str | None = None,
        timeout: checks.Seconds | None = None,
    ) -> AsyncLease | None:
        """See ``Coordinator.acquire_elected``. The strategy runs in the calling task."""
        way = self._candidature(
            name, strategy, claim_timeout, timeout, lease_time=lease_time, wait_time=wait_time, min_lease_time=min_lease_time,
            auto_extend=auto_extend, metadata=metadata, node_id=node_id,
        )  # fmt: skip
        while True:
            look = await self._ask(way.look)
            waiter = LoopWaiter()
            call = way.choose(look, waiter)
            if call is not None:
                cores = await self._await(call, waiter)
                if cores is not None:
                    return AsyncLease(self._port, cores[0])
                way.refused(call.refused)
            pause_s = way.pause_s()
            if pause_s is None:
                return None
            waiter = LoopWaiter()
            await self._await(way.rest(waiter, pause_s), waiter)

    async def _await(self, started: AcquireCall | Rest, waiter: LoopWaiter) -> Any:
        self._requests.begin(started)
        try:
            return await waiter.future
        except BaseException:
            self._port.hand_over(started.give_up)
            raise
