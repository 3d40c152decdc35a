"""``demo``: tells the story, comes out well, ends in time, and leaves nothing behind.

Knows: the command line, processes. Must not know: the product's inside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.support_cli import start, tenure
from tests.support import eventually


@pytest.fixture
def scratch(tmp_path: Path) -> dict[str, str]:
    """An environment whose temporary files land where the test can see them."""
    return {"TMPDIR": str(tmp_path)}


def processes_of(directory: Path) -> list[str]:
    """Command lines of processes that work below ``directory``."""
    listed = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(directory) in line]


def test_the_demo_tells_the_story_and_comes_out_well(tmp_path: Path, scratch: dict[str, str]) -> None:
    begun = time.monotonic()
    result = tenure(["demo", "--seconds", "8", "--json"], tmp_path, env=scratch, timeout_s=60)
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - begun < 30.0
    summary = json.loads(result.stdout)
    assert summary["ok"] is True
    assert (summary["overlaps"], summary["token_falls"], summary["hung"]) == (0, 0, [])
    assert set(summary["takeover_ms"]) == {"raft_leader_killed", "holder_killed"}
    for told in ("raft leader", "leads with token", "kill -9 of worker", "takeover in", "starts again"):
        assert told in result.stderr
    assert "\x1b" not in result.stderr, "plain where it is no terminal"
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_demo_that_was_called_off(tmp_path: Path, scratch: dict[str, str], number: int) -> None:
    demo = start(["demo"], tmp_path, env=scratch)
    try:
        assert demo.stdout is not None
        assert any("leads with token" in line for line in iter(demo.stdout.readline, ""))
        assert len(processes_of(tmp_path)) >= 7
        os.kill(demo.pid, number)
        assert demo.wait(10) == (-9 if number == signal.SIGKILL else 128 + number)
        assert "Traceback" not in demo.communicate()[1]
    finally:
        demo.kill()
        demo.communicate()
    eventually(lambda: processes_of(tmp_path) == [], 10.0, "its nodes and workers ended")
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []
