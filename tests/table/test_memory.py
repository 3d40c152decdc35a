"""Without memory the table says so. It does not crash, and what is left of it is whole enough to be looked at before the node stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="only here does a limit of the address space bind")
@pytest.mark.parametrize("more", [2_000_000, 5_000_000, 12_000_000, 20_000_000])
def test_without_memory_it_raises_and_does_not_crash(more: int) -> None:
    command = [sys.executable, "-m", "tests.table.starving", str(more)]
    outcome = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr
    assert [line.split(":")[0] for line in outcome.stdout.splitlines()] == ["apply", "restore"]
