"""Candidates that are processes: one wins, whatever each of them sees; one that is killed delays the next and never blocks it (F4).

Knows: processes, signals, one node in this process. Must not know: the electors' steps.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tenure
from tests.support import eventually
from tests.support_cluster import free_ports
from tests.tenure.program_candidate import CLAIM_TIMEOUT_S

ROUNDS = 60
# How much later than its turn a candidate may be on a busy machine.
SLACK_S = 10.0


class Node(NamedTuple):
    address: str
    coordinator: Any


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    with tenure.join(address, single=True, ephemeral=True) as coordinator:
        yield Node(address, coordinator)


class Candidate:
    """A process that stands; killed at the end."""

    def __init__(self, node: Node, name: str, node_id: str, rank: int, what: str, directory: Path) -> None:
        self._said = directory / f"{node_id}.stdout"
        self._complained = directory / f"{node_id}.stderr"
        with self._said.open("wb") as said, self._complained.open("wb") as complained:
            arguments = [node.address, name, node_id, str(rank), what, str(directory / "rounds")]
            command = [sys.executable, "-m", "tests.tenure.program_candidate", *arguments]
            self.process = subprocess.Popen(command, stdout=said, stderr=complained)

    def wait_for(self, word: str, within_s: float = 30.0) -> None:
        def has_said() -> bool:
            return word in self._said.read_text().split()

        eventually(lambda: has_said() or self.process.poll() is not None, within_s, f"the candidate says {word}")
        assert has_said(), self._complained.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Candidate:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def test_of_two_who_take_themselves_for_the_winner_one_leads_at_a_time__F4(node: Node, tmp_path: Path) -> None:
    name, rounds = "work/two-views", tmp_path / "rounds"

    def lines() -> list[str]:
        return rounds.read_text().splitlines() if rounds.exists() else []

    with (
        Candidate(node, name, "a", 0, "rounds", tmp_path) as one,
        Candidate(node, name, "b", 0, "rounds", tmp_path) as other,
    ):
        one.wait_for("standing")
        other.wait_for("standing")
        eventually(lambda: len(lines()) >= 2 * ROUNDS, 60.0, "both have worked")
        (a, b) = sorted(node.coordinator.candidates(name), key=lambda info: str(info.node_id))
        assert a.success_count + b.success_count >= ROUNDS - 1
    tokens = [line.split()[1] for line in lines() if line.startswith("begin")]
    assert len(set(tokens)) == len(tokens), "a token was used twice"
    for begin, end in zip(lines()[::2], lines()[1::2], strict=False):
        assert (begin.split()[0], end) == ("begin", begin.replace("begin", "end")), "two led at once"


def test_a_winner_that_is_killed_before_it_claims_delays_the_next_by_its_turn__F4(node: Node, tmp_path: Path) -> None:
    name = "work/dead-winner"
    held = node.coordinator.acquire(name, lease_time=600)
    with (
        Candidate(node, name, "winner", 0, "stand", tmp_path) as winner,
        Candidate(node, name, "next", 1, "lead", tmp_path) as successor,
    ):
        winner.wait_for("standing")
        successor.wait_for("waiting")
        winner.kill()
        assert node.coordinator.elect(name, tenure.RankedStrategy()).winner == "winner", "it still stands"
        before = node.coordinator.candidates(name).cluster_time
        held.release()
        successor.wait_for("leading")
        started = next(info.last_start for info in node.coordinator.candidates(name) if info.node_id == "next")
        assert CLAIM_TIMEOUT_S <= round(started - before, 3) < CLAIM_TIMEOUT_S + SLACK_S
