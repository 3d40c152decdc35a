"""Power cuts of all nodes at once, under load: what `durability` promises, and what it does not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

import pytest

from cluster.storage import Durability, StorageDamaged
from tests.sim.power import PowerCuts
from tests.sim.run import Verdict, run
from tests.sim.violation import Violation

SECONDS = 12.0
SEEDS = 8
CAMPAIGN_SEEDS = 300


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def cuts(seed: int, durability: Durability) -> Verdict:
    """In process mode with what the kernel gives anybody; with fsync without even that."""
    weather = partial(PowerCuts, written_back=durability == "process")
    return run(seed, SECONDS, durability=durability, weather=weather)


def in_fsync_mode(seeds: range) -> tuple[int, int]:
    """How often the power was cut, and how many grants clients were told of: none of them lost, no token given twice, or it raises."""
    cut = granted = 0
    for seed in seeds:
        counts = cuts(seed, "fsync").counts
        cut += sum(number for what, number in counts.items() if what.startswith("fault power cut everywhere"))
        granted += counts["granted"]
    return cut, granted


@pytest.mark.timeout(300)
def test_no_acknowledged_grant_is_lost_to_power_cuts_of_all_nodes__I9_I2() -> None:
    cut, granted = in_fsync_mode(range(SEEDS))
    assert cut > SEEDS * 3
    assert granted > SEEDS * 20


@pytest.mark.timeout(300)
def test_in_process_mode_power_cuts_can_lose_what_was_acknowledged() -> None:
    """The same runs: so the one above would have noticed."""
    lost = []
    for seed in range(SEEDS):
        try:
            cuts(seed, "process")
        except (Violation, StorageDamaged) as what:
            lost.append(str(what))
    assert any("applies another command at index" in what or "which nobody had applied" in what for what in lost), lost


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_power_cuts_of_all_nodes__I9_I2() -> None:
    cut, granted = in_fsync_mode(range(SEEDS, CAMPAIGN_SEEDS))
    assert cut > CAMPAIGN_SEEDS * 3
    assert granted > CAMPAIGN_SEEDS * 20
