"""At which seed each mutant was first found, and which are found by something else.

Knows: what `python -m tests.sim.hunt` said. Must not know: anything of how.
"""

from __future__ import annotations

FOUND_AT: dict[str, int] = {}
ELSEWHERE: dict[str, str] = {}
