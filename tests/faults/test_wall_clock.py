"""The wall clocks of nodes and clients are set forth and back by an hour while they run: nothing happens.

Knows: libfaketime, the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

import tenure
from tests.faults.support_crew import CrewMember, at_work, diaries
from tests.faults.support_diary import merged
from tests.faults.support_group import said
from tests.faults.support_machine import WallClock, forget_faketime, wall_clock
from tests.history.checker import check
from tests.support import eventually
from tests.support_cluster import NodeGroup

HOUR_S = 3600
# What the nodes, one by one, and the client are ahead.
STEPS = ((HOUR_S, 0, -HOUR_S, HOUR_S), (-HOUR_S, HOUR_S, HOUR_S, -HOUR_S))
# So much of a lease that lasts an hour and a half is gone at most when the test looks at it.
LEASE_S, GONE_S = 5400.0, 60.0


def wait_for_grants(worker: CrewMember, when: str) -> None:
    """Some more grants than there have been so far."""

    def count() -> int:
        return worker.diaries[0].read_text().count('"grants": [[')

    seen = count()
    eventually(lambda: count() > seen + 2, 20.0, f"grants go on {when}\n{worker.said()}")


def test_wall_clocks_are_set_by_an_hour__B1_B3_I3(tmp_path: Path) -> None:
    clocks: list[WallClock] = []
    for number in range(4):
        clock = wall_clock(tmp_path / f"clock-{number}")
        if isinstance(clock, str):
            pytest.skip(clock)
        clocks.append(clock)
    # Raised, so that an election would come of a clock that was set, not of a machine that is busy.
    group = NodeGroup(tmp_path, options=("--durability", "process", "--election-timeout", "1.2"))
    for node, clock in zip(group.nodes, clocks, strict=False):
        node.environ.update(clock.environ)
    with ExitStack() as stack:
        pids: list[int] = []
        stack.callback(lambda: forget_faketime(*pids))
        stack.enter_context(group)
        arguments = ["--connect", group.endpoints, "--name", "job", "--work", "mutex"]
        worker = CrewMember("worker", tmp_path, arguments, clocks[3].environ)
        with at_work([worker], 1), tenure.connect(group.endpoints) as coordinator:
            pids += [worker.pid, *(node.pid for node in group.nodes)]
            lease = coordinator.acquire("long", lease_time=LEASE_S)
            assert lease is not None
            term = said(group.leader()).term
            for step in STEPS:
                for clock, ahead_s in zip(clocks, step, strict=True):
                    clock.set(ahead_s)
                wait_for_grants(worker, f"with the clocks at {step}")
                state = coordinator.state("long", consistent=True)
                assert state.leader is not None
                assert state.leader.token == lease.token
                assert LEASE_S - GONE_S < state.leader.expires_in <= LEASE_S
            assert said(group.leader()).term == term, "nobody stood for election"
            worker.end()
            assert lease.release()
    assert not check(merged(diaries([worker])))
