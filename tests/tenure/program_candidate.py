"""A program under test: a candidate of its own process.

Usage: ``program_candidate ADDRESS NAME NODE_ID RANK WHAT FILE``. ``WHAT`` is ``stand`` (says ``standing`` and never asks for the name),
``lead`` (says ``waiting``, asks for it, says ``leading`` and leads) or ``rounds`` (leads as often as it can until it is ended, taking
itself for the winner whatever it sees, and writes ``begin TOKEN`` and ``end TOKEN`` to the file).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import tenure

CLAIM_TIMEOUT_S = 1.0


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


class Me:
    """A strategy that has a view of its own."""

    def __init__(self, node_id: str) -> None:
        self._node_id = node_id

    def elect(self, candidates: tenure.Candidates, /) -> tenure.ElectionResult:
        return tenure.ElectionResult(self._node_id, {self._node_id: 1.0})


def work_in_turns(path: Path) -> None:
    lease = tenure.current_lease()
    assert lease is not None
    # One write each, at the end of the file: the order of the lines is the order of what happened.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"begin {lease.token}\n".encode())
    time.sleep(0.002)
    os.write(file, f"end {lease.token}\n".encode())
    os.close(file)


def hold_on() -> None:
    say("leading")
    time.sleep(60)


def main(address: str, name: str, node_id: str, rank: str, what: str, path: str) -> None:
    options = tenure.ElectionOptions(wait_time=60, lease_time=30, node_id=node_id)
    strategy: tenure.Strategy = Me(node_id) if what == "rounds" else tenure.RankedStrategy()
    with (
        tenure.connect(address) as coordinator,
        tenure.StrategicLeaderElector(
            coordinator, options, strategy=strategy, rank=int(rank), ttl=600, claim_timeout=CLAIM_TIMEOUT_S
        ) as elector,
    ):
        elector.stand(name)
        say("standing")
        if what == "stand":
            time.sleep(60)
        elif what == "lead":
            say("waiting")
            elector.run_if_leader(name, hold_on)
        while what == "rounds":
            elector.run_if_leader(name, work_in_turns, Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
