"""The programs of docs/fencing.md run as they stand, and are refused what they should be.

Knows: what each must print. Must not know: how they do it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support_cli import environ
from tests.docs.markdown import examples

PRINTED = {
    "records": [
        r"step 1",
        r"step 2",
        r"step 3",
        r"put 'import/checkpoint': the record is bound to 'import', and the write was made under no lease\. .*",
    ],
    "column": [r"'stock': no row took the write of token \d+\. .*", r"\(12,\)"],
    "fence": [r"'report': no row took the write of token \d+\. .*", r"\[\(2,\)\]"],
    "gate": [r"200", r"200", r"'stock' refuses token \d+: token \d+ was here\. .*", r"409", r"\['first', 'second'\]"],
}


def test_every_example_is_run_here() -> None:
    assert set(examples("docs/fencing.md")) == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_it_should__I10(name: str, tmp_path: Path) -> None:
    program = tmp_path / f"example_{name}.py"
    program.write_text(examples("docs/fencing.md")[name])
    command = [sys.executable, "-W", "error", "-W", "ignore::ResourceWarning", str(program)]
    result = subprocess.run(
        command, cwd=tmp_path, env=environ(), capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == len(PRINTED[name]), lines
    for line, pattern in zip(lines, PRINTED[name], strict=True):
        assert re.fullmatch(pattern, line), line
