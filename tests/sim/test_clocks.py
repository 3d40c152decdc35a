"""Whether time that is lost or gained is seen: stamps as leaders would give them, one rule broken at a time (B4, I8).

Knows: the check of stamps. Must not know: how a leader finds one.
"""

from __future__ import annotations

import pytest

from tests.sim.clocks import Pace, Stamp
from tests.sim.violation import Violation

pytestmark = pytest.mark.fast


class Story:
    """Batches of leaders whose clocks are exact; times in seconds."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.index = 0

    def batch(self, node: str, epoch: int, time_s: float, at: float, known_at: float = 0.0) -> None:
        self.index += 1
        self.pace.accepted(self.index, Stamp(node, epoch, round(time_s * 1000), at, at, known_at))


@pytest.mark.parametrize(("time_s", "good"), [(4.0, True), (3.984, True), (3.982, False), (2.0, False)])
def test_a_new_leader_counts_from_the_batch_that_it_knew__B4(time_s: float, good: bool) -> None:
    """The last batch is stamped 1 s at 11 s, and applied by the next leader at 12 s; its first batch is sealed at 15 s."""
    story = Story()
    story.batch("n1", 1, 1.0, 11.0, 10.0)
    if good:
        story.batch("n2", 4, time_s, 15.0, 12.0)
    else:
        with pytest.raises(
            Violation, match=r"from epoch 1 to epoch 4, and n2 had known for 3000\.0 ms .* a failover takes time"
        ):
            story.batch("n2", 4, time_s, 15.0, 12.0)


def test_a_leader_that_came_to_know_it_late_may_lose_that_time__B4() -> None:
    story = Story()
    story.batch("n1", 1, 1.0, 11.0)
    story.batch("n2", 2, 1.01, 15.0, 14.99)


def test_time_that_stands_still_within_an_epoch_is_seen() -> None:
    story = Story()
    story.batch("n1", 1, 1.0, 11.0)
    with pytest.raises(Violation, match="time stands still under load"):
        story.batch("n1", 1, 1.99, 12.0)


def test_time_that_runs_ahead_is_seen__I8() -> None:
    story = Story()
    story.batch("n1", 1, 1.0, 11.0)
    with pytest.raises(Violation, match="faster than real time"):
        story.batch("n2", 2, 2.1, 12.0, 11.0)


def test_when_a_node_knew_is_when_it_last_applied_or_loaded() -> None:
    pace = Pace()
    pace.reached("n1", 1.0)
    pace.reached("n2", 2.0)
    pace.reached("n1", 3.0)
    assert (pace.known_at("n1"), pace.known_at("n2")) == (3.0, 2.0)
