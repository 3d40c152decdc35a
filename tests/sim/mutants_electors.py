"""Rules of electors, each broken in the running code; see ``mutants``.

Knows: where each rule stands in the code. Must not know: how a mistake is found.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tenure import _aio
from tests.sim.mutants import Mutant, replaced


def _only_signalled(stock: Any) -> Any:
    """The action is left to find out by itself."""

    async def attend(run: Any, lease: Any, task: Any, *, cancels: bool) -> None:
        await stock(run, lease, task, cancels=False)

    return attend


def _not_waited_for(stock: Any) -> Any:
    """Whoever is given up ends at once; what its action still does is nobody's affair."""

    async def attend(run: Any, lease: Any, task: Any, *, cancels: bool) -> None:
        attending = asyncio.ensure_future(stock(run, lease, task, cancels=cancels))
        try:
            await asyncio.shield(attending)
        except asyncio.CancelledError as error:
            run.gave_up(error)
            task.cancel()

    return attend


MUTANTS: dict[str, Mutant] = {
    "action not cancelled when its lease is lost": replaced(_aio, "attend", _only_signalled),
    "released before the action has ended": replaced(_aio, "attend", _not_waited_for),
}
