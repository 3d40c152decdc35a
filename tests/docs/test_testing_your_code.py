"""The project of docs/testing-your-code.md passes its own tests, with the plugin as it is installed.

Knows: which files it has, how many tests. Must not know: how the plugin works.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import examples
from tests.tenure.support_plugin import run_pytest

pytestmark = pytest.mark.core

FILE = "docs/testing-your-code.md"


def test_the_project_of_the_page_passes_its_tests(tmp_path: Path) -> None:
    files = {f"{name}.py": text for name, text in examples(FILE).items()}
    assert set(files) == {"jobs.py", "test_jobs.py", "test_group.py"}
    result = run_pytest(tmp_path, files)
    assert re.search(r"^7 passed", result.stdout, re.MULTILINE), result.stdout + result.stderr
