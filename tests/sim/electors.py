"""Clients that run actions under an elector, sometimes given up by their caller.

Knows: the asyncio electors, and what is written down of each run. Must not know: faults, nodes, what a grant is.

Asked here of every run: the action runs once, if it is granted, and under the token that is told (rule 1); what it returns and raises
reaches the caller (rule 3); it has ended when the call ends (rules 4, 5); it is cancelled because of a loss or by its caller, and else not.
The observer asks at every grant whether it had been told (rule 7).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cluster.errors import CoordinationError, Indeterminate
from tenure import (
    ActionFailed,
    AsyncLeaderElector,
    AsyncLeaderGroupElector,
    Elected,
    ElectionOptions,
    GroupElectionOptions,
    LeaseLost,
    Skipped,
    current_lease,
)
from tests.sim.kinds import Work
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.worker import Worker

CHAIR = "chair"
BENCH = "bench"
SEATS = 2


class Failure(Exception):
    """An action's own."""


@dataclass
class Sitting:
    """One run of an elector, from its call to its end."""

    worker: Worker
    name: str
    cancels: bool
    lease_s: float
    wait_s: float
    number: int = 0
    begun: int = 0
    runs: bool = False
    given_up: bool = False
    lease: Any = None
    heard: bool = False

    @property
    def told(self) -> bool:
        """Whether its action knows that it is over."""
        return self.heard if self.cancels else self.lease.lost.is_set()

    def wrong(self, what: str) -> None:
        self.worker.world.fail(Violation(f"{self.worker.name}, an action for {self.name!r}: {what}"))

    async def action(self) -> int:
        history, rng = self.worker.world.history, self.worker.rng
        self.begun += 1
        lease = self.lease = current_lease(self.name)
        assert lease is not None
        history.returned(self.number, "ok", grants=[[lease.name, lease.slot, lease.token]])
        self.worker.world.observer.acknowledged(lease.name, lease.token)
        self.runs = True
        try:
            for _ in range(rng.randint(1, 5)):
                await asyncio.sleep(rng.expovariate(3 / self.lease_s))
                await self.worker.host.awake()
                self.worker.look(lease)
            if rng.random() < 0.1:
                raise Failure
        except asyncio.CancelledError:
            self.heard = True
            if not (lease.lost.is_set() and self.cancels) and not self.given_up:
                self.wrong("it was cancelled, and nothing was wrong")
            # It has something to clear away.
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(rng.choice([0.0, 0.05, 0.5]))
            raise
        finally:
            self.runs = False
        return int(lease.token)

    def judge(self, result: Any) -> None:
        """Of a call that returned."""
        history = self.worker.world.history
        self.worker.world.counts[type(result).__name__] += 1
        if self.runs:
            self.wrong(f"it runs on, and its call ended with {result}")
        if isinstance(result, Skipped):
            history.returned(self.number, "no" if result.reason == "held" else "fail", grants=[])
        if self.begun > 1 or (isinstance(result, Skipped) and self.begun):
            self.wrong(f"it ran {self.begun} times, and its call ended with {result}")
        if isinstance(result, ActionFailed | Elected | LeaseLost) and self.begun and result.token != self.lease.token:
            self.wrong(f"it ran under token {self.lease.token}, and its call ended with {result}")
        if isinstance(result, ActionFailed) and not isinstance(result.cause, Failure):
            self.wrong(f"what it raised is lost: {result}")
        if isinstance(result, Elected) and result.value != result.token:
            self.wrong(f"its value is lost: {result}")
        if not self.begun and not isinstance(result, Skipped):
            # Granted too late to begin.
            history.returned(self.number, "unknown")


def _sitting(worker: Worker) -> tuple[Sitting, Any]:
    rng = worker.rng
    name = CHAIR if rng.random() < 0.7 else BENCH
    sitting = Sitting(worker, name, rng.random() < 0.7, rng.choice([0.3, 0.8, 2.0]), rng.choice([0.0, 0.2, 3.0]))
    shared: dict[str, Any] = {
        "wait_time": sitting.wait_s,
        "lease_time": sitting.lease_s,
        "auto_extend": rng.random() < 0.4,
        "on_lost": "cancel" if sitting.cancels else "signal",
    }
    coordinator: Any = worker.coordinator
    if name == BENCH:
        return sitting, AsyncLeaderGroupElector(coordinator, GroupElectionOptions(max_leaders=SEATS, **shared))
    return sitting, AsyncLeaderElector(coordinator, ElectionOptions(**shared))


async def lead(worker: Worker) -> None:
    sitting, elector = _sitting(worker)
    seats = SEATS if sitting.name == BENCH else 1
    about = {"max_leaders": seats, "wait": sitting.wait_s, "lease": sitting.lease_s}
    sitting.number = worker.world.history.call(worker.name, "acquire", [sitting.name], **about)
    worker.sittings.append(sitting)
    run = asyncio.ensure_future(elector.run_if_leader_result(sitting.name, sitting.action))
    try:
        if worker.rng.random() < 0.2:
            await asyncio.wait({run}, timeout=worker.rng.expovariate(1 / sitting.lease_s))
            sitting.given_up = not run.done()
            run.cancel()
        sitting.judge(await run)
    except asyncio.CancelledError:
        if not sitting.given_up:
            raise
        worker.world.counts["given up"] += 1
        if sitting.runs:
            sitting.wrong("it runs on, and its caller was told that it is cancelled")
        if not sitting.begun:
            worker.world.history.returned(sitting.number, "unknown")
    except CoordinationError as error:
        if sitting.begun:
            sitting.wrong(f"it ran, and its call ended with {error!r}")
        else:
            worker.world.history.returned(sitting.number, "unknown" if isinstance(error, Indeterminate) else "fail")
        raise
    finally:
        worker.sittings.remove(sitting)


async def read(worker: Worker) -> None:
    await worker.read(worker.rng.choice((CHAIR, BENCH)))


WORK: tuple[Work, ...] = (Work("lead", 0.9, lead), Work("read", 0.1, read))
