"""Workers and nodes under random faults; the verdict is the history checker's. More of it: ``python -m tests.faults.soak``.

Knows: the soak, which faults there are. Must not know: how a fault is done, workloads.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from tests.faults.soak import Verdict, soak, uncovered
from tests.faults.support_group import LinkedGroup
from tests.faults.support_machine import SmallDisk, WallClock
from tests.faults.support_storm import ALL_KILLED, LEADER, ROLES, WORKER_STOPPED, Storm
from tests.history.record import save
from tests.support_cluster import NodeGroup

SHORT_S = 6.0
LONG_S = 600.0


def _soak(directory: Path, seconds: float, seed: int) -> None:
    verdict = soak(directory, seconds, seed)
    if verdict.objections:
        history = directory / "history.jsonl"
        save(verdict.history, history)
        pytest.fail("\n".join([*verdict.lines(), f"check it again: python -m tests.history {history}"]))
    assert verdict.grants > 0
    assert verdict.increments > 0


@pytest.mark.timeout(400)
def test_a_short_soak__I1_I2_I4_I5_I8(tmp_path: Path) -> None:
    _soak(tmp_path, SHORT_S, 3)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2])
def test_ten_minutes_of_faults__I1_I2_I4_I5_I8(tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    # It says how far it is, and which faults this machine cannot have.
    with capsys.disabled():
        _soak(tmp_path, LONG_S, seed)


def _storm(directory: Path, seed: int = 1) -> Storm:
    """Of a group that is never started."""
    return Storm(cast(LinkedGroup, NodeGroup(directory)), [], [], random.Random(seed))


def _come(storm: Storm) -> None:
    for name in storm.faults():
        for role in ROLES if name in storm.node_faults() else ("all",):
            storm.counts[name, role] = 1


@pytest.mark.fast
def test_a_long_soak_misses_no_fault_and_no_role(tmp_path: Path) -> None:
    storm = _storm(tmp_path)
    assert uncovered(storm, SHORT_S) == ["no fault came"]
    storm.counts["isolated", LEADER] = 1
    assert not uncovered(storm, SHORT_S), "a short one cannot have all"
    _come(storm)
    assert not uncovered(storm, LONG_S)
    for came in list(storm.counts):
        count = storm.counts.pop(came)
        (objection,) = uncovered(storm, LONG_S)
        assert came[0] in objection
        storm.counts[came] = count


@pytest.mark.fast
def test_what_a_machine_can_have_besides_is_missed_too(tmp_path: Path) -> None:
    storm = _storm(tmp_path)
    _come(storm)
    node = storm.group.nodes[0]
    storm.disks = {node: SmallDisk(tmp_path / "disk", 1 << 20)}
    storm.clocks = [WallClock(tmp_path / "clock", "library")]
    assert uncovered(storm, LONG_S) == [
        "never came: disk full, leader",
        "never came: disk full, follower",
        "never came: wall clocks set",
    ]


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(5))
def test_all_faults_come_before_one_comes_often(tmp_path: Path, seed: int) -> None:
    storm = _storm(tmp_path, seed)
    often: Counter[str] = Counter()
    for _ in range(40):
        chosen = storm.draw()
        assert len(chosen) == len(set(chosen))
        assert chosen == [ALL_KILLED] or ALL_KILLED not in chosen
        often.update(chosen)
    # One is drawn besides, in most rounds.
    del often[WORKER_STOPPED]
    assert set(often) == set(storm.faults()) - {WORKER_STOPPED}
    assert max(often.values()) - min(often.values()) <= 1


@pytest.mark.fast
def test_what_machines_cannot_have_is_said() -> None:
    assert "  not here: wall clocks set: no library" in Verdict(not_here=["wall clocks set: no library"]).lines()
