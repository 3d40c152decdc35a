"""History: one record per run, where they are kept, and what can be read from them.

Knows: what records say about each other. Must not know: how they are made (``_history``) and kept (``_history_sinks``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tenure._history import History, HistorySink, RunRecord
from tenure._history_sinks import LoggingSink, MemorySink, SQLiteSink

__all__ = [
    "History",
    "HistorySink",
    "LoggingSink",
    "MemorySink",
    "Overlap",
    "RunRecord",
    "SQLiteSink",
    "Takeover",
    "overlaps",
    "takeovers",
]


@dataclass(frozen=True, slots=True)
class Takeover:
    """One node's run of a name and slot, and the next one, by another node."""

    before: RunRecord
    after: RunRecord


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two runs of one name and slot of which the second began before the first had ended, by the clocks of their processes."""

    first: RunRecord
    second: RunRecord


def takeovers(runs: Iterable[RunRecord]) -> list[Takeover]:
    """Where a name and slot went from one node to another, in the order of names, slots and tokens. No clock is asked."""
    led = sorted((run for run in runs if run.token is not None), key=_by_token)
    return [
        Takeover(before, after)
        for before, after in itertools.pairwise(led)
        if (before.name, before.slot) == (after.name, after.slot) and before.node_id != after.node_id
    ]


def overlaps(runs: Iterable[RunRecord]) -> list[Overlap]:
    """Pairs of runs of one name and slot, led or unled, that went on at the same time: after a loss, in an outage, or by clocks that
    differ.

    A run whose end is not known overlaps with none that began after it.
    """
    return list(_overlapping(sorted(runs, key=lambda run: (run.name, run.began_at, run.run_id))))


def _overlapping(runs: list[RunRecord]) -> Iterator[Overlap]:
    for _, group in itertools.groupby((run for run in runs if run.status != "skipped"), key=lambda run: run.name):
        open_: list[RunRecord] = []
        for run in group:
            open_ = [other for other in open_ if other.ended_at is not None and other.ended_at > run.began_at]
            for other in open_:
                # A run without a lease has no slot: it is beside whoever leads one.
                if other.slot is None or run.slot is None or other.slot == run.slot:
                    yield Overlap(other, run)
            open_.append(run)


def _by_token(run: RunRecord) -> tuple[str, int, int]:
    return run.name, run.slot or 0, run.token or 0
