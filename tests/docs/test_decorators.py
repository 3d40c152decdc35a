"""The programs of docs/decorators.md run as they stand, and print what they should.

Knows: what each must print. Must not know: how they do it.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.docs.markdown import examples
from tests.support_cluster import free_ports

FILE = "docs/decorators.md"
PRINTED = {
    "functions": [r"report-eu, day 1", r"report-us, day 2", r"None", r"indexed 45 True", r"slot 0"],
    "generators": [r"0 held: True by this code: None", r"1 held: True by this code: None", r"free: True"],
    "unled": [
        r"this code runs without a lease on 'cache': the cluster was unavailable, .*",
        # The second, where the acquisition is on its way before the client has seen that the node is gone.
        r"unled: True, lease: None since (Unavailable|Indeterminate)",
    ],
}


def test_every_example_is_run_here() -> None:
    assert set(examples(FILE)) == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_it_should(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / f"example_{name}.py"
    program.write_text(examples(FILE)[name].replace("7104", str(free_ports(1)[0])))
    runpy.run_path(str(program), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PRINTED[name]), lines
    for line, pattern in zip(lines, PRINTED[name], strict=True):
        assert re.fullmatch(pattern, line), line
