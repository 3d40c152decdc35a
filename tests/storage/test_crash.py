"""Crashes at every disk call, by a killed process and by a power cut: what was acknowledged is there, and nothing else is."""

from __future__ import annotations

import errno
import random

import pytest

from cluster.errors import CoordinationError
from cluster.storage import Durability

from .simdisk import Crash, SimDisk
from .story import Story

pytestmark = pytest.mark.fast


def life(story: Story | None, drive: SimDisk, seed: int, durability: Durability, steps: int) -> Story | None:
    """Begin, or go on with, a story. None: the first life ended before there was a storage."""
    try:
        if story is None:
            story = Story(drive, seed, durability)
        else:
            story.rng = random.Random(seed)
            story.open()
            story.check()
        story.run(steps)
        story.env.run()
    except Crash:
        pass
    return story


@pytest.mark.parametrize(("durability", "power"), [("fsync", True), ("fsync", False), ("process", False)])
@pytest.mark.parametrize("seed", range(3))
def test_a_crash_at_every_call_loses_nothing_acknowledged__I9(durability: Durability, power: bool, seed: int) -> None:
    script = 120
    whole = SimDisk(random.Random(seed))
    life(None, whole, seed, durability, script)
    assert whole.calls > 40
    for call in range(1, whole.calls + 1):
        drive = SimDisk(random.Random(seed), crash_at=call)
        story = life(None, drive, seed, durability, script)
        drive.crash_power() if power else drive.crash_process()
        drive.crash_at = 0
        again = life(story, drive, seed + 1, durability, 15)
        assert again is not None, f"seed {seed}, crash at call {call}"
        again.close()


@pytest.mark.parametrize("seed", range(25))
def test_many_lives_lose_nothing_acknowledged__I9(seed: int) -> None:
    rng = random.Random(seed)
    drive = SimDisk(random.Random(seed))
    durability: Durability = rng.choice(("fsync", "fsync", "process"))
    story = None
    for number in range(8):
        drive.crash_at = drive.calls + rng.randint(1, 150)
        story = life(story, drive, seed * 100 + number, durability, 80)
        if durability == "fsync" and rng.random() < 0.5:
            drive.crash_power()
        else:
            drive.crash_process()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("durability", ["fsync", "process"])
def test_an_error_at_every_call_is_told_once_and_nothing_false_is_acknowledged__I9(
    durability: Durability, number: int
) -> None:
    seed, script = 5, 60
    whole = SimDisk(random.Random(seed))
    life(None, whole, seed, durability, script)
    for call in range(1, whole.calls + 1):
        error = OSError(number, "planned")
        drive = SimDisk(random.Random(seed), faults={call: error})
        story = None
        raised: Exception | None = None
        try:
            story = Story(drive, seed, durability)
            story.run(script)
            story.env.run()
        except (OSError, CoordinationError) as caught:
            raised = caught
        assert raised in (None, error) or "planned" in str(raised)
        if story is not None:
            story.env.run()
            assert [*story.errors, *story.snapshot_errors] in ([], [error])
        drive.crash_power() if durability == "fsync" else drive.crash_process()
        life(story, drive, seed, durability, 15)
