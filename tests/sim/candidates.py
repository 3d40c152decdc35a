"""Clients that stand for a name and lead it when they are elected.

Knows: the verbs about candidates, and what is written down of each. Must not know: faults, nodes, what is right: that is judged by the
witness of the log (F4, F5) and, as for every other lease, by the checks of holders and histories.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from cluster.client import CandidateInfo
from cluster.errors import CoordinationError, Indeterminate
from cluster.opcodes import Outcome
from tenure.strategies import FifoStrategy, RandomStrategy, RankedStrategy, Strategy
from tests.sim.kinds import Work

if TYPE_CHECKING:
    from tests.sim.worker import Worker

OFFICE = "office"
TIMEOUT_S = 2.0
STRATEGIES: tuple[Strategy, ...] = (FifoStrategy(), RankedStrategy(), RandomStrategy())


async def elected(worker: Worker, arguments: dict[str, Any]) -> Any:
    """The lease, or None: whoever is not elected was not refused because of a holder."""
    history = worker.world.history
    about = {"max_leaders": 1, "wait": arguments["wait_time"], "lease": arguments["lease_time"]}
    number = history.call(worker.name, "acquire", [OFFICE], **about)
    strategy = worker.rng.choice(STRATEGIES)
    try:
        lease = await worker.coordinator.aio.acquire_elected(OFFICE, strategy, **arguments)
    except CoordinationError as error:
        history.returned(number, "unknown" if isinstance(error, Indeterminate) else "fail")
        raise
    worker.world.counts["not elected" if lease is None else "elected"] += 1
    if lease is None:
        history.returned(number, "fail")
    else:
        history.returned(number, "ok", grants=[[lease.name, lease.slot, lease.token]])
    return lease


async def stand(worker: Worker) -> None:
    """Register, for long or for a moment, and try to lead; say how it ended, also when it may be too late."""
    rng = worker.rng
    info = CandidateInfo(worker.name, rank=rng.randrange(3))
    await worker.coordinator.aio.register_candidate(OFFICE, info, rng.choice([0.3, 2.0, 20.0]), timeout=TIMEOUT_S)
    lease_s = rng.choice([0.3, 0.8, 2.0])
    arguments: dict[str, Any] = {
        "lease_time": lease_s,
        "wait_time": rng.choice([0.0, 0.5, 2.0]),
        "claim_timeout": rng.choice([0.0, 0.2, 0.5]),
        "timeout": TIMEOUT_S,
    }
    lease = await elected(worker, arguments)
    if lease is None:
        return
    worker.world.observer.acknowledged(lease.name, lease.token)
    await asyncio.sleep(rng.expovariate(2 / lease_s))
    await worker.host.awake()
    worker.look(lease)
    history = worker.world.history
    number = history.call(worker.name, "release", [OFFICE], token=lease.token, min_lease=False)
    try:
        freed = await lease.release(rng.choice(list(Outcome)))
    except CoordinationError as error:
        history.returned(number, "unknown" if isinstance(error, Indeterminate) else "fail")
        raise
    history.returned(number, "ok" if freed else "no")


async def look(worker: Worker) -> None:
    await worker.coordinator.aio.candidates(OFFICE, timeout=TIMEOUT_S)


WORK: tuple[Work, ...] = (Work("stand for a name", 0.05, stand), Work("look at candidates", 0.01, look))
