"""``lock`` under a lease that is over before its command could be started.

Knows: the steps of ``lock`` between grant and release, with a real guard. Must not know: nodes.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import cast

import pytest

from cluster.cli import lock
from cluster.client import AsyncLease
from cluster.errors import LeaseLostError

pytestmark = pytest.mark.core


class OverAtOnce:
    """A lease that ended while ``lock`` was stopped, before it could start its command."""

    name, token, slot = "late", 1, 0

    def __init__(self, known: bool) -> None:
        self.known = known
        self.released = False

    def check(self) -> None:
        if self.known:
            raise LeaseLostError("the lease is over")

    def remaining(self) -> float:
        return 0.0

    async def release(self) -> bool:
        self.released = True
        return False


@pytest.mark.parametrize("known", [True, False], ids=["before the start", "in the guard"])
def test_nothing_is_started_under_a_lease_that_is_over__I8(tmp_path: Path, known: bool) -> None:
    lease = OverAtOnce(known)
    args = argparse.Namespace(lease_time=60.0, grace=1.0, rest=["touch", str(tmp_path / "ran")])

    async def run() -> int:
        return await lock._run(cast("AsyncLease", lease), args, asyncio.Queue())

    assert asyncio.run(run()) == 1
    assert lease.released
    assert not (tmp_path / "ran").exists()
