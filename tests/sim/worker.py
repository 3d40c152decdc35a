"""Client processes of the simulation, whose calls and returns are written down; what they do is in ``rounds``.

Knows: the client's verbs, and what is written down of each. Must not know: faults, nodes, what is right.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cluster.client import Coordinator, TcpDoor
from cluster.client.attempt import CONFIRM_LEAST_S, AcquireCall
from cluster.client.call import Call
from cluster.client.errands import AbandonCall, ReleaseCall
from cluster.client.values import Extended, NotHeld, Unknown
from cluster.errors import CoordinationError, Indeterminate, LeaseLostError, Unavailable
from cluster.opcodes import Status
from cluster.secrets import Secrets
from tests.sim import records
from tests.sim.host import Host
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.electors import Sitting
    from tests.sim.world import World

TOLD_SLACK_S = 0.5 + CONFIRM_LEAST_S
"""Within its wait, its timeout and this, a caller whose process runs is told something: a late grant may be asked about so long."""
EXTENDED = {Extended: "ok", NotHeld: "no", Unknown: "unknown"}
_ENDED = (Status.OK, Status.NOT_HELD)


class Worker:
    """A client process with one coordinator."""

    def __init__(self, world: World, host: Host, endpoints: list[str]) -> None:
        self.world = world
        self.host = host
        self.name = host.name
        self.rng = random.Random(host.rng.random())
        self.coordinator = Coordinator(TcpDoor(endpoints, Secrets.of(None)), env=host.env(), node_id=host.name)
        self._engine: Any = self.coordinator._port.engine
        self._asked: dict[Call, float] = {}
        self._granted_until: dict[int, float] = {}
        self.sittings: list[Sitting] = []
        self.kept: dict[float, Any] = {}
        self._listen()

    def believes(self, lease: bytes) -> list[tuple[int, int, float]]:
        now = self.host.clock()
        return [
            (core.token, core.slot, core.deadline() - now)
            for core in self._engine.leases.values()
            if core.name == lease and not core.reason and not core.given_back and core.deadline() > now
        ]

    def acts(self, lease: bytes) -> list[tuple[int, int]]:
        if not self.host.runs:
            return []
        return [
            (each.lease.token, each.lease.slot)
            for each in self.sittings
            if each.runs and each.name == lease.decode() and not each.told
        ]

    @property
    def holds(self) -> bool:
        return any(not core.reason for core in self._engine.leases.values())

    def _listen(self) -> None:
        """Look on at what is sent and answered."""
        engine = self._engine
        replied, send, track, lose = engine.replied, engine._send, engine.track, engine.lose

        def sending(wire: Any, call: Call, now: float) -> None:
            send(wire, call, now)
            self._asked.setdefault(call, self.world.loop.time())

        def answered(wire: Any, call: Call, answer: list[Any], base: float) -> None:
            asked_at = self._asked.pop(call, 0.0)
            if isinstance(call, (ReleaseCall, AbandonCall)) and answer[0] in _ENDED:
                operation = call.operation(base)
                self.world.observer.closed.add((operation[1], operation[2]))
            elif isinstance(call, AcquireCall) and answer[0] == Status.HELD:
                self._refused(call, asked_at, answer)
            replied(wire, call, answer, base)
            self._count()

        def tracking(core: Any, session: Any) -> None:
            self._granted_until[core.token] = core.own_deadline
            track(core, session)

        def losing(core: Any, reason: str) -> None:
            self._taken(core, reason)
            lose(core, reason)

        engine.replied, engine._send, engine.track, engine.lose = answered, sending, tracking, losing

    def _count(self) -> None:
        """After an answer: how long each lease is counted on."""
        now = self.host.clock()
        try:
            for core in list(self._engine.leases.values()):
                if not core.reason and not core.given_back and core.deadline() > now:
                    self.world.observer.believed(self.name, core.token, core.deadline() - now)
        except Violation as violation:
            self.world.fail(violation)

    def _refused(self, call: AcquireCall, asked_at: float, answer: list[Any]) -> None:
        """It will not be asked again: no copy of it may be granted any more."""
        self.world.observer.closed.update((call._acq_id, name) for name in call.spec.names)
        try:
            self.world.observer.refused(asked_at, answer)
        except Violation as violation:
            self.world.fail(violation)

    def _taken(self, core: Any, reason: str) -> None:
        """The cluster says that a lease is over: not before its holder could know it. With the session goes what was extended beyond it."""
        if reason not in ("not_held", "session_ended") or core.reason:
            return
        if core.token <= self.world.observer.floor:
            return  # Of the group before a restore, which ends every lease; until its deadline nobody is granted anything.
        until = core.deadline() if reason == "not_held" else self._granted_until[core.token]
        if until > self.host.clock():
            what = f"{self.name} was told {reason} of token {core.token}"
            self.world.fail(Violation(f"{what}, {until - self.host.clock():.4f} s too early (I8)"))

    # What it does.

    async def work(self, until: float) -> None:
        loop = self.world.loop
        while loop.time() < until:
            await self.host.awake()
            try:
                await self._one_round()
            except LeaseLostError:
                self.world.counts["lost"] += 1
            except CoordinationError as error:
                self.world.counts[type(error).__name__] += 1
            await asyncio.sleep(self.rng.expovariate(1 / 0.05))

    async def _one_round(self) -> None:
        works = self.world.works
        kind = self.rng.choices(works, [work.share for work in works])[0]
        await kind.play(self)

    async def look_around(self, name: str) -> None:
        """Read, and try to get, without waiting; whatever comes of it is written down."""
        arguments: dict[str, Any] = {"lease_time": 0.3, "wait_time": 0.0, "timeout": 1.0}
        try:
            if self.world.works is records.WORK:
                await records.get(self, records.SHARED)
            await self.read(name)
            for lease in await self.acquire([name], arguments):
                await self.release(lease, arguments)
        except CoordinationError as error:
            self.world.counts[type(error).__name__] += 1

    async def burst(self, count: int) -> None:
        """Overload: many at once, none of which waits."""
        arguments: dict[str, Any] = {"lease_time": 0.3, "wait_time": 0.0, "timeout": 1.0}
        tries = [self.acquire([f"burst-{number % 7}"], arguments) for number in range(count)]
        for found in await asyncio.gather(*tries, return_exceptions=True):
            if isinstance(found, list):
                for lease in found:
                    with suppress(CoordinationError):
                        await self.release(lease, arguments)
            elif not isinstance(found, CoordinationError):
                raise found

    # The verbs, written down.

    async def acquire(self, names: list[str], arguments: dict[str, Any]) -> list[Any]:
        """The leases; none if it was refused."""
        history, counts = self.world.history, self.world.counts
        about = {
            "max_leaders": arguments.get("max_leaders", 1),
            "wait": arguments["wait_time"],
            "lease": arguments["lease_time"],
        }
        number = history.call(self.name, "acquire", names, **about)
        # Told in time is asked of a process that runs all the while; a call can begin while it stands still, since its code here does not.
        began, pauses = self.host.clock(), -1 if self.host.paused else self.host.pauses
        try:
            if len(names) == 1:
                one = await self.coordinator.aio.acquire(names[0], **arguments)
                leases: list[Any] = [] if one is None else [one]
            else:
                leases = list(await self.coordinator.aio.acquire_all(names, **arguments) or ())
        except CoordinationError as error:
            history.returned(number, _result(error))
            raise
        finally:
            took_s = self.host.clock() - began
            bound_s = arguments["wait_time"] + arguments["timeout"] + TOLD_SLACK_S
            if took_s > bound_s and pauses == self.host.pauses and sys.exc_info()[0] is not asyncio.CancelledError:
                self.world.fail(
                    Violation(f"{self.name} was told of {names} after {took_s:.2f} s, bound to {bound_s:.2f} s")
                )
        counts["granted" if leases else "refused"] += 1
        grants = [[lease.name, lease.slot, lease.token] for lease in leases]
        history.returned(number, "ok" if leases else "no", grants=grants)
        return leases

    async def read(self, name: str) -> None:
        history = self.world.history
        number = history.call(self.name, "read", [name])
        try:
            state = await self.coordinator.aio.group_state(name, consistent=True, timeout=2.0)
        except CoordinationError as error:
            history.returned(number, _result(error))
            raise
        history.returned(number, "ok", slots=[[leader.slot, leader.token] for leader in state.leaders])

    def look(self, lease: Any) -> bool:
        held: bool = lease.confidence != "lost"
        self.world.history.look(self.name, lease.token, held, lease.remaining())
        return held

    async def extend(self, lease: Any, lease_s: float | None) -> None:
        history = self.world.history
        number = history.call(self.name, "extend", [lease.name], token=lease.token)
        outcome = await lease.extend(lease_s)
        history.returned(number, EXTENDED[type(outcome)])

    async def release(self, lease: Any, arguments: dict[str, Any]) -> None:
        history = self.world.history
        number = history.call(
            self.name, "release", [lease.name], token=lease.token, min_lease="min_lease_time" in arguments
        )
        try:
            freed = await lease.release()
        except CoordinationError as error:
            history.returned(number, _result(error))
            raise
        history.returned(number, "ok" if freed else "no")


def _result(error: CoordinationError) -> str:
    return "unknown" if isinstance(error, Indeterminate) or not isinstance(error, Unavailable) else "fail"
