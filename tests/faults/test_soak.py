"""Workers and nodes under random faults; the verdict is the history checker's. More of it: ``python -m tests.faults.soak``.

Knows: the soak. Must not know: faults, workloads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.soak import soak
from tests.history.record import save

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
def test_ten_minutes_of_faults__I1_I2_I4_I5_I8(tmp_path: Path, seed: int) -> None:
    _soak(tmp_path, LONG_S, seed)
