"""The programs of docs/fencing.md run as they stand, and are refused what they should be.

Knows: what each must print. Must not know: how they do it.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tenure import FencedError
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


def test_a_writer_that_was_refused_keeps_nobody_out__A2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement that changes no row has taken the database's lock all the same."""
    monkeypatch.chdir(tmp_path)
    setting, there, _ = examples("docs/fencing.md")["column"].partition("with tenure.local()")
    assert there
    names: dict[str, Any] = {}
    exec(setting, names)
    with closing(names["db"]), closing(sqlite3.connect("stock.db", timeout=0)) as other:
        names["write"](11, 5)
        with pytest.raises(FencedError):
            names["write"](99, 4)
        with other:
            other.execute("UPDATE stock SET amount = 12")
