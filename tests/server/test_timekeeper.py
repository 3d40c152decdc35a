"""Cluster time never runs faster than real time, over random schedules of leaders that come, go and lag.

The schedule is a log of epoch entries, accepted batches and refused ones; nodes apply it late, each by its own clock. For batches p
before q the rule promises T_q - T_p <= r(q) - r(p), with r the real time of stamping. Two tempting variants are shown to break it
or to lose time. That the server applies its log in this way, epoch entries and late batches being no bases, is shown in ``test_epochs``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from cluster.server.timekeeper import TimeKeeper

pytestmark = pytest.mark.fast


class EarlyKeeper(TimeKeeper):
    """Wrong: takes its base when elected, before it has applied what precedes its epoch entry."""

    def elected(self) -> None:
        self._early = (self._last_ms, self._last_at)

    def begin(self) -> None:
        super().begin()
        self._base_ms, self._base_at = self._early


class RebasingKeeper(TimeKeeper):
    """Safe but slow: takes a new base at every applied batch, and loses the commit delay each time."""

    def applied(self, time_ms: int) -> None:
        super().applied(time_ms)
        self._base_ms, self._base_at = self._last_ms, self._last_at


@dataclass
class World:
    """A log, the nodes that apply it, and real time in seconds."""

    keeper_type: type[TimeKeeper]
    rng: random.Random
    now: float = 100.0
    time_ms: int = 0
    log: list[tuple[str, int]] = field(default_factory=list)
    stamped: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keepers = [self.keeper_type(lambda: self.now) for _ in range(3)]
        self.done = [0, 0, 0]

    def catch_up(self, node: int, upto: int) -> None:
        while self.done[node] < upto:
            kind, time_ms = self.log[self.done[node]]
            if kind == "batch":
                self.keepers[node].applied(time_ms)
            self.done[node] += 1

    def step_time(self) -> None:
        self.now += self.rng.expovariate(1 / self.rng.choice([0.0005, 0.01, 0.3, 2.0]))
        for node in range(3):
            if self.rng.random() < 0.5:
                self.catch_up(node, self.rng.randint(self.done[node], len(self.log)))

    def elect(self, node: int) -> None:
        keeper = self.keepers[node]
        if isinstance(keeper, EarlyKeeper):
            keeper.elected()
        self.log.append(("epoch", self.time_ms))
        self.now += self.rng.expovariate(1 / 0.05)
        self.catch_up(node, len(self.log))
        keeper.begin()

    def batch(self, leader: int) -> None:
        stamp = self.keepers[leader].stamp()
        self.time_ms = max(self.time_ms, stamp)
        self.stamped.append((self.now, self.time_ms))
        self.log.append(("batch", self.time_ms))
        self.now += self.rng.expovariate(1 / 0.002)
        self.catch_up(leader, len(self.log))


def play(seed: int, keeper_type: type[TimeKeeper]) -> World:
    world = World(keeper_type, random.Random(seed))
    leader: int | None = None
    for _ in range(300):
        world.step_time()
        if leader is None or world.rng.random() < 0.05:
            if leader is not None:
                world.keepers[leader].end()
            leader = world.rng.randrange(3)
            world.elect(leader)
        else:
            world.batch(leader)
    return world


def worst_gain_ms(world: World) -> float:
    """By how much cluster time outran real time between any two batches, at most (rounding down to a millisecond allowed for)."""
    worst, lowest = 0.0, None
    for real_s, time_ms in world.stamped:
        ahead = time_ms - real_s * 1000
        if lowest is not None:
            worst = max(worst, ahead - lowest)
        lowest = ahead if lowest is None else min(lowest, ahead)
    return worst


@pytest.mark.parametrize("seed", range(150))
def test_cluster_time_never_outruns_real_time__I3_I8(seed: int) -> None:
    world = play(seed, TimeKeeper)
    assert worst_gain_ms(world) <= 1.0
    times = [time_ms for _, time_ms in world.stamped]
    assert times == sorted(times)


def test_a_base_taken_too_early_is_caught() -> None:
    assert any(worst_gain_ms(play(seed, EarlyKeeper)) > 1.0 for seed in range(150))


def test_a_base_renewed_at_every_batch_loses_time() -> None:
    def pace(keeper_type: type[TimeKeeper], seed: int) -> float:
        stamped = play(seed, keeper_type).stamped
        return (stamped[-1][1] - stamped[0][1]) / ((stamped[-1][0] - stamped[0][0]) * 1000)

    assert sum(pace(TimeKeeper, seed) for seed in range(20)) > sum(pace(RebasingKeeper, seed) for seed in range(20))


def test_elections_in_a_row_do_not_stop_time__B4() -> None:
    world = World(TimeKeeper, random.Random(1))
    world.elect(0)
    world.batch(0)
    before = world.time_ms
    for node in (1, 2, 0, 1):
        world.catch_up(node, len(world.log))
        started = world.now
        world.elect(node)
        world.now += 1.0
        assert started < world.now
    world.batch(1)
    assert world.time_ms - before >= 4000
