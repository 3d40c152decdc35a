"""The pytest plugin in projects that are not ours: what it imports, how it is switched off, what a failure shows.

Knows: small projects. Must not know: the fixtures' inner parts; what they give is shown by ``test_testing.py`` and the docs' own example.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import ROOT
from tests.tenure.support_plugin import run_pytest

pytestmark = pytest.mark.core

UNUSED = """
import sys

def test_nothing_of_it_is_imported(request):
    assert request.config.pluginmanager.has_plugin("tenure")
    assert not {"tenure", "cluster", "pysyncobj"} & set(sys.modules)
"""
USED = "def test_it(tenure_local):\n    pass\n"
FAILING = """
def test_it(tenure_group, tenure_coordinator):
    assert tenure_coordinator.status().has_quorum
    tenure_group.nodes[0].kill()
    assert "this" == "fails"

def test_without():
    assert "this" == "too"
"""


def test_a_project_that_uses_no_fixture_imports_nothing(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, {"test_unused.py": UNUSED})
    assert result.returncode == 0, result.stdout + result.stderr


def test_it_is_switched_off_by_its_name(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, {"test_used.py": USED}, "-p", "no:tenure")
    assert "fixture 'tenure_local' not found" in result.stdout


def test_a_failure_shows_the_logs_of_the_raft_group_and_nothing_is_left_running(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, {"test_failing.py": FAILING})
    assert result.stdout.count("Raft group") == 1, result.stdout + result.stderr
    assert "(ended)" in result.stdout
    assert "epoch.open" in result.stdout
    assert not subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout


def test_tenure_testing_needs_no_pytest() -> None:
    program = "import sys; sys.modules['pytest'] = None; import tenure.testing; print(sorted(tenure.testing.__all__))"
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "ManualClock" in result.stdout
