"""Renewal does not depend on the work: a loop that its own action blocks, a thread that is at work (A8).

Knows: the public interface, a coordinator of one process. Must not know: the engine.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

import tenure

pytestmark = pytest.mark.core

LEASE_S = 2.0
BUSY_S = 3.0
"""So long nothing else runs where the work runs: longer than the lease, and not by so much that waiting for it hurts."""


def busy() -> None:
    threading.Event().wait(BUSY_S)


@pytest.mark.parametrize("form", ["loop", "thread"])
def test_work_that_lets_nothing_else_run_keeps_its_lease__A8(form: str) -> None:
    options = tenure.ElectionOptions(lease_time=LEASE_S, auto_extend=True)

    async def blocks_its_loop() -> None:
        busy()

    with tenure.local() as coordinator:
        if form == "loop":
            elector = tenure.AsyncLeaderElector(coordinator, options)
            result = asyncio.run(elector.run_if_leader_result("job", blocks_its_loop))
        else:
            result = tenure.LeaderElector(coordinator, options).run_if_leader_result("job", busy)
        assert isinstance(result, tenure.Elected), result
        assert coordinator.state("job").leader is None
