"""The programs of docs/strategic.md run as they stand, and print what they should.

Knows: what each must print. Must not know: how they do it.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.docs.markdown import examples

pytestmark = pytest.mark.fast

FILE = "docs/strategic.md"
PRINTED = {
    "ranked": ["Skipped(reason='not_elected', holder=None)", "written by big-machine", "written by small-machine"],
    "scored": ["b {'b': 16.0, 'a': 4.0}", "{'c': \"scoring raised KeyError: 'free_gib'\"}", "a"],
}


def test_every_example_is_run_here() -> None:
    assert set(examples(FILE)) == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_it_should(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / f"example_{name}.py"
    program.write_text(examples(FILE)[name])
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == PRINTED[name]
