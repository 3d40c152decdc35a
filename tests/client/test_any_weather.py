"""Many clients, clocks that differ, and faults drawn from a seed: at no moment do two believe that they hold one name (I8, I2).

Knows: what must hold in any weather. Must not know: how. A failing seed is repeated with ``pytest -k 'weather and [SEED]'``.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from cluster.client import AsyncLease, Coordinator
from cluster.errors import CoordinationError, Indeterminate, Unavailable
from cluster.limits import CLOCK_DRIFT
from cluster.opcodes import Op, Outcome
from tests.client.fakeserver import Fate, Request
from tests.client.support import VirtualEnv, World, counts, story

NAMES = ("a", "b")
CLIENTS = 6
STORM_S = 30.0


@dataclass
class Ledger:
    """Who believes what, and what was seen."""

    held: dict[str, list[AsyncLease]] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)
    grants: int = 0
    losses: int = 0
    errors: int = 0

    def granted(self, lease: AsyncLease) -> None:
        others = [other for other in self.held.get(lease.name, ()) if other.confidence != "lost"]
        assert lease.confidence == "lost" or not others, f"{others} still believes when {lease} is granted"
        self.held.setdefault(lease.name, []).append(lease)
        self.tokens.setdefault(lease.name, []).append(lease.token)
        self.grants += 1

    def ended(self, lease: AsyncLease) -> None:
        self.held[lease.name].remove(lease)


async def contend(world: World, client: Coordinator, rng: random.Random, ledger: Ledger, until: float) -> None:
    """One worker: wait, hold for a while, give back; sometimes impatient."""
    while world.now < until:
        name = rng.choice(NAMES)
        try:
            lease = await asyncio.wait_for(
                client.aio.acquire(
                    name,
                    lease_time=rng.choice([0.5, 1.0, 3.0]),
                    wait_time=rng.choice([0.0, 0.5, 4.0]),
                    auto_extend=rng.random() < 0.5,
                    timeout=2.0,
                ),
                rng.choice([0.05, 1.0, 10.0]),
            )
        except (asyncio.TimeoutError, Unavailable, Indeterminate):
            ledger.errors += 1
            continue
        if lease is None:
            await world.advance(rng.uniform(0, 0.1))
            continue
        ledger.granted(lease)
        work_ends = world.now + rng.choice([0.0, 0.3, 2.0])
        while world.now < work_ends and lease.confidence != "lost":
            if rng.random() < 0.05:
                await lease.extend(rng.choice([0.5, 2.0]))
            await world.advance(0.02)
        ledger.losses += lease.lost.is_set()
        ledger.ended(lease)
        try:
            await lease.release(Outcome.COMPLETED)
        except CoordinationError:
            ledger.errors += 1


async def storm(world: World, envs: list[VirtualEnv], rng: random.Random, until: float) -> None:
    """Faults, one after the other; fair weather at the end."""
    cluster = world.cluster

    def weather(request: Request) -> Fate | None:
        dice = rng.random()
        if request.code == Op.WAIT:
            return Fate(late_s=rng.expovariate(1 / 0.3)) if dice < 0.4 else None
        if dice > 0.12:
            return None
        if dice < 0.02:
            return Fate(replied=False, severed=True)
        if dice < 0.04:
            return Fate(applied=False, replied=False, severed=True)
        return Fate(late_s=rng.expovariate(1 / 0.3))

    cluster.rules.append(weather)
    while world.now < until:
        await world.advance(rng.uniform(0.1, 1.5))
        fault = rng.randrange(7)
        if fault == 0 and cluster.conns:
            rng.choice(cluster.conns).sever()
        elif fault == 1:
            cluster.up.update(cluster.addresses)
            cluster.kill(rng.choice(cluster.addresses))
        elif fault == 2:
            cluster.silent = {rng.choice(cluster.addresses)} if rng.random() < 0.5 else set()
        elif fault == 3:
            rng.choice(envs).jump(rng.uniform(0, 2))
        elif fault == 5:
            # No push tells its holder.
            cluster.apply([int(Op.REVOKE), rng.choice(NAMES).encode(), None, False])
        if fault == 4 or not cluster.leader:
            await world.advance(rng.uniform(0, 1.0))
            cluster.lead(rng.choice(sorted(cluster.up)), push=rng.random() < 0.8)
    cluster.rules.remove(weather)
    cluster.silent = set()
    cluster.up.update(cluster.addresses)
    cluster.lead(cluster.addresses[0])


async def weather_report(world: World, seed: int) -> Ledger:
    rng = random.Random(seed)
    ledger = Ledger()
    envs = [VirtualEnv(world.loop, seed * 100 + n, 1 + rng.uniform(-0.4, 0.4) * CLOCK_DRIFT) for n in range(CLIENTS)]
    clients = [Coordinator(world.cluster.door(), env=env, node_id=f"c{n}") for n, env in enumerate(envs)]
    until = world.now + STORM_S
    workers = [contend(world, client, rng, ledger, until) for client in clients for _ in range(2)]
    await asyncio.gather(storm(world, envs, rng, until), *workers)
    for tokens in ledger.tokens.values():
        assert tokens == sorted(set(tokens)), "tokens that were seen one after the other must rise"
    # After the storm nothing is left, in the clients or in the cluster.
    await world.until(lambda: not any(counts(client) for client in clients), within_s=30)
    for client in clients:
        await client.aio.close(limit=0)
    await world.until(lambda: not any(world.cluster.table.rows(name.encode(), world.cluster.stamp()) for name in NAMES))
    return ledger


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(3))
def test_two_never_believe_in_any_weather__I8(seed: int) -> None:
    ledger = story(lambda world: weather_report(world, seed), seed=seed)
    assert ledger.grants > 15


@pytest.mark.parametrize("seed", range(3, 27))
def test_two_never_believe_in_more_weather__I8(seed: int) -> None:
    story(lambda world: weather_report(world, seed), seed=seed)
