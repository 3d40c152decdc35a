"""What is left of an acquisition that nobody wants any more, broken in the running code; see ``mutants``.

Knows: where it is given back. Must not know: how a mistake is found.
"""

from __future__ import annotations

from typing import Any

from cluster.client.attempt import AcquireCall, Phase
from tests.sim.mutants import Mutant, replaced


def _forgotten(stock: Any) -> Any:
    """Whoever gives up leaves what it may be granted to run out by itself."""

    def abandon(attempt: AcquireCall) -> None:
        attempt.phase = Phase.OVER

    return abandon


MUTANTS: dict[str, Mutant] = {
    "what was given up is not abandoned": replaced(AcquireCall, "_abandon", _forgotten),
}
