"""At which seed each mutant was first found, and which are found by something else.

Knows: what `python -m tests.sim.hunt` said. Must not know: anything of how.
"""

from __future__ import annotations

FOUND_AT: dict[str, int] = {
    "clock base taken early": 0,
    "clock base renewed at every batch": 0,
    "wall-clock expiry": 3,
    "deadline counted from the receipt": 0,
    "deadline counted from the last frame sent": 0,
    "no epoch check in the table": 5,
    "session joined without renewal": 0,
    "extension that shortens": 0,
    "expiry judged by the sweep": 3,
    "stale token accepted": 0,
    "tokens used again after a restart": 3,
    "requests of another epoch accepted": 1,
    "replaced connection heard": 0,
    "waiter proposed unheard": 7,
    "answers from memory without a fresh majority": 1,
    "serves before its epoch is applied": 1,
    "wiped node counted before it has caught up": 3,
    "wiped node votes at once": 3,
    "fsync skipped": 1,
    "fsync after the answer": 1,
    "term and vote not synced": 1,
    "apply twice": 0,
    "last command of the snapshot applied again": 2,
    "without snapcommit": 2,
    "without startup": 3,
}
