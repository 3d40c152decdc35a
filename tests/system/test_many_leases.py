"""Thousands of auto-extended leases of one process: none is lost, and renewing all of them is one operation.

Knows: process times, the log's index, the client's renewals. Must not know: how a session renews.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tenure
from cluster.client.sessions import RenewCall
from cluster.env import boot_clock
from tests.support import eventually
from tests.support_cluster import NodeGroup
from tests.system.test_idle import cpu_seconds

LEADER_CPU_MAX = 0.05
# What is promised: from a third of the lease on, spread over a tenth of that, so that processes do not renew in step.
RENEW_AT = 1 / 3
RENEW_SPREAD = 0.1
AT_ONCE = 500

logger = logging.getLogger(__name__)

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the process times of /proc")


async def acquire_many(coordinator: tenure.Coordinator, count: int, lease_s: float) -> list[Any]:
    leases: list[Any] = []
    for first in range(0, count, AT_ONCE):
        names = [f"many/{number}" for number in range(first, min(count, first + AT_ONCE))]
        asking = [coordinator.aio.acquire(name, lease_time=lease_s, auto_extend=True) for name in names]
        leases += await asyncio.gather(*asking)
    return leases


def hold(directory: Path, monkeypatch: pytest.MonkeyPatch, count: int, lease_s: float, watched_s: float) -> None:
    renewals: list[float] = []
    operation = RenewCall.operation

    def counted(call: RenewCall, now: float) -> Any:
        renewals.append(now)
        return operation(call, now)

    monkeypatch.setattr(RenewCall, "operation", counted)
    with NodeGroup(directory, options=()) as group:
        coordinator = tenure.connect(group.endpoints)
        leases = asyncio.run(acquire_many(coordinator, count, lease_s))
        assert None not in leases
        leader = group.leader()
        renewals.clear()
        index, epoch = coordinator.status().commit_index, coordinator.status().term
        used, own, begun = cpu_seconds(leader.pid), time.process_time(), boot_clock()
        while boot_clock() < begun + watched_s:
            next_look = min(boot_clock() + 5.0, begun + watched_s)
            eventually(lambda at=next_look: boot_clock() >= at, 30.0)  # type: ignore[misc]
            assert not [lease for lease in leases if lease.lost.is_set()]
        lasted = boot_clock() - begun
        sent = len(renewals)
        entries = coordinator.status().commit_index - index
        figures = {
            "leases": count,
            "seconds": round(lasted, 1),
            "renewals": sent,
            "entries": entries,
            "leader_cpu": round((cpu_seconds(leader.pid) - used) / lasted, 5),
            "client_cpu": round((time.process_time() - own) / lasted, 5),
        }
        # None lost: in the holder's eyes, and the cluster's, under the same tokens.
        assert "lost" not in {lease.confidence for lease in leases}, figures
        held = {info.name: info.token for info in coordinator.leases("many/")}
        assert held == {lease.name: lease.token for lease in leases}
        # One operation per third of a lease, for all of them, and nothing else in the log.
        third_s = lease_s * RENEW_AT
        assert lasted / (third_s * (1 + RENEW_SPREAD)) - 2 <= sent <= lasted / third_s + 1, figures
        if coordinator.status().term == epoch:
            assert entries <= sent + 2, figures
        assert figures["leader_cpu"] < LEADER_CPU_MAX, figures
        coordinator.close(limit=0)
    # Shown with -o log_cli=true --log-cli-level=INFO.
    logger.info("many_leases %s", figures)


def test_two_thousand_leases_are_one_renewal_and_none_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(tmp_path, monkeypatch, 2_000, 6.0, 7.0)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_thousand_leases_for_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(tmp_path, monkeypatch, 10_000, 60.0, 300.0)
