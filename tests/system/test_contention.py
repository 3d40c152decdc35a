"""Workers contend through a real raft group, or as one, while its nodes are killed: exclusion, rising tokens, quick takeovers.

Knows: processes and what they wrote down. Must not know: the product's inside.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from cluster.cli.runs import Run
from cluster.env import boot_clock
from tests.support import eventually
from tests.support_cluster import NodeGroup, free_ports
from tests.system.support_workers import Worker, all_runs, assert_exclusive, next_run_after, working

TAKEOVER_S = 2.0


def _wait_until(moment: float) -> None:
    eventually(lambda: boot_clock() >= moment, moment - boot_clock() + 1.0, "the clock goes on")


def _longest_pause(runs: list[Run], begin: float, end: float) -> float:
    """The longest time in which no run began: a grant that was under way at the kill is no takeover yet."""
    starts = [begin, *(run.start for run in runs if begin < run.start < end), end]
    return max(later - sooner for sooner, later in pairwise(starts))


@pytest.mark.timeout(180)
def test_eight_workers_while_the_raft_leader_is_killed_twice__I1_I2(tmp_path: Path) -> None:
    with NodeGroup(tmp_path) as group:
        workers = [Worker(number, tmp_path, ["--connect", group.endpoints, "--name", "job"]) for number in range(1, 9)]
        with working(workers):
            next_run_after(workers, 0.0, 20.0)
            begun = boot_clock()
            kills = []
            for kill_at in (5.0, 12.0):
                _wait_until(begun + kill_at)
                leader = group.leader()
                kills.append(boot_clock())
                leader.kill()
                next_run_after(workers, kills[-1] + 0.1, 15.0)
                _wait_until(boot_clock() + 1.0)
                leader.start()
            _wait_until(begun + 20.0)
            late = boot_clock() - 4.0
            for worker in workers:
                assert worker.process is not None
                assert worker.process.poll() is None, f"worker {worker.number} ended by itself\n{worker.said()}"
            for worker in workers:
                worker.end()
        runs = assert_exclusive(workers)
        pauses = [_longest_pause(runs, kill, kill + 5.0) for kill in kills]
        assert max(pauses) < TAKEOVER_S, f"the longest time without a new run after each kill: {pauses}\n{group.logs()}"
        assert {run.worker for run in runs if run.start > late} == set(range(1, 9)), (
            "every worker had its turn to the end"
        )
        assert len(runs) > 200


@pytest.mark.timeout(180)
def test_embedded_workers_one_killed_and_restarted__I1_I2(tmp_path: Path) -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    workers = [
        Worker(
            number,
            tmp_path,
            [
                *("--join", address, "--peers", ",".join(addresses), "--data-dir", str(tmp_path / f"node-{number}")),
                *("--name", "job", "--lease-s", "2"),
            ],
        )
        for number, address in enumerate(addresses, 1)
    ]
    with working(workers):
        next_run_after(workers, 0.0, 30.0)
        eventually(lambda: {run.worker for run in all_runs(workers)} == {1, 2, 3}, 10.0, "each of the three led once")
        killed_at = workers[0].kill()
        # It may have died as the holder: then its lease of 2 s has to run out first.
        next_run_after(workers, killed_at, 2.0 + 2 * TAKEOVER_S)
        _wait_until(boot_clock() + 2.0)
        back_at = boot_clock()
        workers[0].start()
        eventually(
            lambda: any(run.start > back_at for run in workers[0].runs()), 20.0, "the restarted node leads again"
        )
        for worker in workers:
            worker.end()
    assert_exclusive(workers)
