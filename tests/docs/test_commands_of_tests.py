"""The commands in the docs that show something: each names tests, or a program of tests, that are there and would be run.

Knows: Markdown, which tests are long. Must not know: what a test shows.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from tests.docs.markdown import markdown_files
from tests.house import ROOT, read

pytestmark = pytest.mark.fast

COMMAND = re.compile(r"`((?:python -m )?pytest [^`]*|python -m tests\.[^`]*)`")


def commands() -> list[tuple[str, list[str]]]:
    """(document, words) of each."""
    return [(name, shlex.split(found)) for name in markdown_files() for found in COMMAND.findall(read(name))]


def _marks_long(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "long" for each in ast.walk(node))


def lengths(path: Path) -> dict[str, bool]:
    """The tests of a file: whether each is a long one."""
    body = ast.parse(path.read_text()).body
    all_long = any(
        isinstance(each, ast.Assign) and "pytestmark" in ast.dump(each.targets[0]) and _marks_long(each.value) for each in body
    )
    tests = [each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_")]
    return {test.name: all_long or any(map(_marks_long, test.decorator_list)) for test in tests}


def objection(words: list[str]) -> str:
    """What is wrong with a command; empty: nothing."""
    if words[:2] == ["python", "-m"]:
        if words[2] != "pytest":
            return "" if importlib.util.find_spec(words[2]) else "there is no such program"
        words = words[2:]
    long = ["-m", "long"] in [words[at : at + 2] for at in range(len(words))]
    for word in words:
        if not word.startswith("tests/"):
            continue
        file, _, test = word.partition("::")
        path = ROOT / file
        if not path.exists():
            return f"{file} does not exist"
        if path.is_dir():
            continue
        found = lengths(path)
        if test and test not in found:
            return f"{file} has no {test}"
        if long not in {each for name, each in found.items() if not test or name == test}:
            return f"of {word} nothing is run {'with' if long else 'without'} -m long"
    return ""


def test_every_command_runs_something() -> None:
    found = commands()
    assert len(found) > 30
    wrong = [f"{name}: {' '.join(words)}: {text}" for name, words in found if (text := objection(words))]
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("python -m tests.nothing --seed 1", "no such program"),
        ("pytest tests/nothing.py", "does not exist"),
        ("pytest tests/docs/test_commands_of_tests.py::test_nothing", "has no test_nothing"),
        ("pytest tests/faults/test_regions.py", "without -m long"),
        ("pytest -m long tests/docs/test_commands_of_tests.py", "with -m long"),
        ("python -m pytest -m long tests/docs/test_commands_of_tests.py", "with -m long"),
        ("pytest -m long tests/faults/test_regions.py tests/sim", ""),
    ],
)
def test_a_command_that_runs_nothing_is_found(command: str, text: str) -> None:
    found = objection(shlex.split(command))
    assert text in found if text else not found
