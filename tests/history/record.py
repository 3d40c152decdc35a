"""What clients did and saw, as a list of events in real time.

Knows: the events and their form as JSON lines. Must not know: who the clients are, what is right.

One clock must serve all clients of a history (that of the simulation, or of one machine). Events, each with ``at`` in seconds:

- ``call``: ``id``, ``process``, ``op`` (acquire, extend, release, read), ``names``, and what was asked for.
- ``return``: ``id``, ``result``: ``ok``; ``no`` (refused: held, or others wait); ``fail`` (it certainly did not happen); ``unknown``.
  An acquire that is ok has ``grants``, ``[[name, slot, token], …]``; a read that is ok has ``slots``, ``[[slot, token], …]``. A call
  without a return is unknown. For the calls ``put`` and ``get`` see ``records``.
- ``look``: ``process``, ``token``, ``held``: whether its holder could act on it at this moment; ``left``: for how long, as it counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Recorder:
    """Collects events. Calls come from one thread, or under the callers' own lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.events: list[Record] = []

    def call(self, process: str, op: str, names: Sequence[str], **about: Any) -> int:
        """A call begins; the number that its return names."""
        number = len(self.events)
        self.events.append(
            {
                "at": self._clock(),
                "kind": "call",
                "id": number,
                "process": process,
                "op": op,
                "names": list(names),
                **about,
            }
        )
        return number

    def returned(self, number: int, result: str, **about: Any) -> None:
        self.events.append({"at": self._clock(), "kind": "return", "id": number, "result": result, **about})

    def restored(self) -> None:
        """All data is lost, and the group begins anew with a backup."""
        self.events.append({"at": self._clock(), "kind": "restored"})

    def look(self, process: str, token: int, held: bool, left: float) -> None:
        self.events.append(
            {"at": self._clock(), "kind": "look", "process": process, "token": token, "held": held, "left": left}
        )


def save(events: Iterable[Record], path: Path) -> None:
    path.write_text("".join(json.dumps(event) + "\n" for event in events))


def load(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]
