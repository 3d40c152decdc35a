"""The programs of docs/schedules.md run as they stand, and print what they should.

Knows: what each must print. Must not know: how they do it.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.docs.markdown import examples

pytestmark = pytest.mark.fast

FILE = "docs/schedules.md"
PRINTED = {"every": ["report of a time in UTC led: report"], "asyncio": ["indexed"]}


def test_every_example_is_run_here() -> None:
    assert set(examples(FILE)) == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_it_should(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / f"example_{name}.py"
    program.write_text(examples(FILE)[name])
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == PRINTED[name]
