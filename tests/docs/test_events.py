"""The programs of docs/events.md run as they stand, and print what they should.

Knows: what each must print. Must not know: how they do it.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.docs.markdown import examples

FILE = "docs/events.md"
PRINTED = {
    "watch": ["nightly/report slot 0 has a holder", "nightly/report completed", "None"],
    "listeners": [
        "leads report slot 0",
        "failed: ZeroDivisionError division by zero",
        "gave it back: failed",
        "left to others: held",
    ],
    "metrics": ["1 1", "1 True"],
}


def test_every_example_is_run_here() -> None:
    assert set(examples(FILE)) == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_it_prints_what_it_should(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / f"example_{name}.py"
    program.write_text(examples(FILE)[name])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == PRINTED[name]
