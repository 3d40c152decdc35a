"""The programs of docs/electors.md run as they stand, and print what they should.

Knows: what each must print. Must not know: how they do it.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.docs.markdown import examples

pytestmark = pytest.mark.fast

FILE = "docs/electors.md"
PRINTED = {
    "blocking": [r"monday under token \d+", r"tuesday under token \d+", r"a body of its own, token \d+"],
    "asyncio": [r"done", r"leading job"],
    "future": [r"45"],
    "thread": [r"done", r"done", r"done"],
    "group": [r"slots 0 1 tokens differ: True", r"a third: None", r"leaders 2 free 0"],
    "latch": [r"elected, token rises: True", r"not leader any more", r"leads: False"],
    "inside": [r"True"],
    "tenant": [r"tenant:acme:job", r"job is stored as tenant:acme:job"],
    "identity": [r"True", r"True", r"True", r"True"],
}


def test_every_example_is_run_here() -> None:
    assert set(examples(FILE)) == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_it_should(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / f"example_{name}.py"
    program.write_text(examples(FILE)[name])
    runpy.run_path(str(program), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PRINTED[name]), lines
    for line, pattern in zip(lines, PRINTED[name], strict=True):
        assert re.fullmatch(pattern, line), line
