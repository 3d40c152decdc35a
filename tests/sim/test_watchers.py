"""Watching, in simulated weather: seeds with watchers. A run that fails is repeated by ``replay`` with its seed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from cluster.server import events
from tests.sim.run import run
from tests.sim.violation import Violation
from tests.sim.watchers import Watched

SECONDS = 8.0
SMALL_BYTES = 4_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def replay(seed: int) -> Counter[str]:
    try:
        return run(seed, SECONDS, weather=Watched).counts
    except Violation as violation:
        raise AssertionError(
            f"{violation}\nagain: python -c 'from tests.sim.test_watchers import *; replay({seed})'"
        ) from violation


def play(seeds: range, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Every other seed with nodes that keep little, so that watchers fall behind."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        with monkeypatch.context() as patched:
            if seed % 2:
                patched.setattr(events, "EVENTS_KEPT_MAX_BYTES", SMALL_BYTES)
            counts += replay(seed)
    return counts


@pytest.mark.timeout(300)
def test_watchers_are_told_what_happened_and_what_is_missing__D9(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = play(range(900_000, 900_012), monkeypatch)
    assert counts["events told"] > 1_000
    assert counts["gaps told"] > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_watchers__D9(monkeypatch: pytest.MonkeyPatch) -> None:
    assert play(range(910_000, 910_300), monkeypatch)["gaps told"] > 0


@pytest.mark.timeout(300)
def test_a_node_that_hides_a_gap_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    page = events.Events.page

    def hiding(kept: events.Events, after: int, prefix: bytes, *, extended: bool) -> events.Page:
        return page(kept, after, prefix, extended=extended)._replace(first=after + 1)

    monkeypatch.setattr(events.Events, "page", hiding)
    with pytest.raises(AssertionError, match="without a gap"):
        play(range(900_001, 900_013, 2), monkeypatch)
