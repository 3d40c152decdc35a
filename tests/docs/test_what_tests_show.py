"""What the docs say of tests: every code in a test's name is explained, every bug that was found has the command that shows it.

Knows: the tables of codes, hazards and bugs, the names of tests. Must not know: whether a command runs (``test_commands_of_tests.py``).
"""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from tests.docs.test_commands_of_tests import objection
from tests.house import files, nodes, read
from tests.sim import test_sim as simulated

pytestmark = pytest.mark.fast

CODE = re.compile(r"(?:_|\b)([A-GIRrs]\d+)(?=_|\b)")
HAZARDS = "## Hazards and what stands against them"
COMMANDS = re.compile(r"`pytest [^`]+`(?:, `pytest [^`]+`)*")


def rows(name: str, heading: str = "") -> list[list[str]]:
    """The cells of a page's tables, or of those under one heading, without the tables' heads."""
    text = read(name).partition(heading)[2].partition("\n## ")[0] if heading else read(name)
    table = [line for line in text.splitlines() if line.startswith("|")]
    rules = [at for at, line in enumerate(table) if set(line) <= set("|- ")]
    heads = {at - shift for at in rules for shift in (0, 1)}
    return [line.strip("| ").split(" | ") for at, line in enumerate(table) if at not in heads]


def explained() -> set[str]:
    codes = {cells[0] for cells in rows("docs/scenarios.md")}
    codes |= set(re.findall(r"^- \*\*(I\d+)\*\*", read("docs/architecture.md"), re.MULTILINE))
    hazards = " ".join(cells[0] for cells in rows("docs/raft.md", HAZARDS))
    return codes | set(re.findall(r"\b[Rs]\d+\b", hazards))


def codes_of_tests() -> dict[str, str]:
    """Each code that is in the name of a test, or in the docstring of its file: one place that has it."""
    found: dict[str, str] = {}
    for name in files("tests"):
        tests = [each.name for each in nodes(name) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        says = [ast.get_docstring(nodes(name)[0]) or ""]  # type: ignore[arg-type]
        for text in [test for test in tests if test.startswith("test_")] + says:
            found |= {code.replace("r", "R"): f"{name}: {text:.80}" for code in CODE.findall(text)}
    return found


def test_every_code_in_the_name_of_a_test_is_explained() -> None:
    known = explained()
    used = codes_of_tests()
    assert len(used) > 60
    assert not {code: where for code, where in used.items() if code not in known}


def test_every_scenario_is_shown_by_tests() -> None:
    table = rows("docs/scenarios.md")
    codes = [cells[0] for cells in table]
    assert len(codes) == len(set(codes)) > 60
    bare = [cells for cells in table if len(cells) != 3 or not cells[1] or not COMMANDS.fullmatch(cells[2])]
    assert not bare


def test_every_bug_that_was_found_has_the_command_that_shows_it() -> None:
    table = rows("docs/testing.md", "## Bugs found, and by what")
    assert len(table) > 60
    bare = [cells for cells in table if len(cells) != 3 or not all(cells[:2]) or not COMMANDS.fullmatch(cells[2])]
    assert not bare
    # A row is read alone.
    assert not [cells for cells in table if cells[1].startswith("the same")]
    wrong = [text for cells in table for each in cells[2].split("`, `") if (text := objection(each.strip("`").split()))]
    assert not wrong


def test_every_hazard_has_its_tests() -> None:
    table = rows("docs/raft.md", HAZARDS)
    named = {f"R{number}" for number in range(1, 16)} | {f"s{number:02}" for number in range(1, 21)}
    assert named <= set(re.findall(r"\b[Rs]\d+\b", " ".join(cells[0] for cells in table)))
    there = {
        each.name for name in files("tests") for each in nodes(name) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for hazard, _, shown in table:
        tests = re.findall(r"`(test_\w+)(…?)`", shown)
        paths = re.findall(r"`(tests/\w+/\w+\.py|test_\w+\.py)`", shown)
        assert tests or paths, hazard
        for name, more in tests:
            assert name in there or (more and any(each.startswith(name) for each in there)), name
        for path in paths:
            assert path in files("tests") or f"tests/raft/{path}" in files("tests"), path


def test_how_many_seeds_the_page_says_are_played() -> None:
    """In the default tier and the long one."""
    long_s = inspect.signature(simulated.play).parameters["seconds"].default
    first, all_, chunk = simulated.LONG_UNTIL, simulated.DEFAULT_SEEDS, simulated.CHUNK
    for said in (
        f"plays {all_} seeds: {first} for {long_s:g} simulated seconds, and {all_ - first} for {simulated.SHORT_S:g},",
        f"{5 * chunk} more are of clients of one kind ({chunk} for {long_s:g} s, {4 * chunk} for {simulated.SHORT_S:g} s)",
        f"`-m long` plays {simulated.LONG_SEEDS:,} for {long_s:g} s, and {simulated.LONG_SEEDS // 4} of clients of each of two kinds.",
    ):
        assert said in read("docs/testing.md"), said
