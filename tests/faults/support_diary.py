"""What a process did and saw, as events of ``tests.history`` in a file of its own; and those of several processes as one history.

Knows: the form of a history, files, the clock that all processes of one machine share. Must not know: what is right.

A process may be stopped between any two instructions. So a call is written down before it is made, its return afterwards, and a look only
where the clock says that nothing came in between: what a history says of a moment was so at that moment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import tenure
from cluster.env import boot_clock
from tests.history.record import Record, Recorder, load

LOOK_TAKES_S = 0.005
"""Less than the checker's slack: what a holder counts is compared across its looks."""

_NUMBERS_MAX = 1_000


class _Lines(list[Record]):
    """Events, each written out in one piece: a kill leaves whole lines."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def append(self, event: Record) -> None:
        super().append(event)
        os.write(self._descriptor, json.dumps(event).encode() + b"\n")

    def close(self) -> None:
        os.close(self._descriptor)


class Diary(Recorder):
    """The events of one process, in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(boot_clock)
        self._lines = _Lines(path)
        self.events = self._lines

    def look_at(self, process: str, lease: tenure.Lease) -> bool:
        """Whether the lease is held, as its holder sees it."""
        at = boot_clock()
        held = lease.confidence != "lost"
        left = lease.remaining()
        if boot_clock() - at <= LOOK_TAKES_S:
            self.events.append(
                {"at": at, "kind": "look", "process": process, "token": lease.token, "held": held, "left": left}
            )
        return held

    def close(self) -> None:
        self._lines.close()


def merged(paths: Sequence[Path], *more: Sequence[Record]) -> list[Record]:
    """The diaries of several processes (and lives of processes) as one history, in the order of time, calls numbered anew."""
    assert len(paths) < _NUMBERS_MAX
    events: list[Record] = [event for each in more for event in each]
    for number, path in enumerate(paths):
        for event in load(path):
            if "id" in event:
                event["id"] = event["id"] * _NUMBERS_MAX + number
            events.append(event)
    return sorted(events, key=lambda event: float(event["at"]))
