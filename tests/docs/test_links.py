"""README and docs: every link leads somewhere, every command line in them is one that the program accepts.

Knows: Markdown, the parsers. Must not know: what the commands do.
"""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cluster.cli.main import ACTIONS, COMMANDS
from cluster.cli.options import Parser
from tests.docs.markdown import anchors, blocks, examples, links, markdown_files
from tests.house import ROOT, read

pytestmark = pytest.mark.fast

COMMAND_LINE = re.compile(r"(?:python -m (?:cluster|tenure)|\{prog\}) (\w+)([^\n]*)")


def test_every_link_leads_somewhere() -> None:
    broken = []
    for name in markdown_files():
        for target in links(name):
            path, _, anchor = target.partition("#")
            if re.match(r"\w+:", target):
                broken.append(f"{name}: {target} leaves the project")
                continue
            file = (ROOT / name).parent / path if path else ROOT / name
            if not file.exists():
                broken.append(f"{name}: {target} does not exist")
            elif anchor and anchor not in anchors(str(file.resolve().relative_to(ROOT))):
                broken.append(f"{name}: {target} has no such heading")
    assert not broken, broken


def test_every_python_block_is_an_example_that_a_test_runs() -> None:
    unnamed = [
        f"{block.file}:{block.line}"
        for name in markdown_files()
        for block in blocks(name)
        if block.language == "python" and block.text not in examples(name).values()
    ]
    assert not unnamed, f"put <!-- example: name --> in front of {unnamed}, and run it in tests/docs/test_examples.py"


def _modules() -> dict[str, Any]:
    """Every command, and where a command has actions every action, with the module that does it."""
    names = [name for name in COMMANDS if name not in ACTIONS]
    names += [f"{name} {action}" for name, actions in ACTIONS.items() for action in actions]
    return {name: importlib.import_module(f"cluster.cli.{name.replace(' ', '_')}") for name in names}


def _command_lines() -> list[tuple[str, str]]:
    """Every command line of the docs and of the commands' own help."""
    found = [
        (f"{name}:{block.line}", line.group(0))
        for name in markdown_files()
        for block in blocks(name)
        for line in COMMAND_LINE.finditer(block.text)
    ]
    for command, module in _modules().items():
        found += [(command, line.group(0)) for line in COMMAND_LINE.finditer(module.EXAMPLE)]
    return found


def test_every_command_line_of_the_docs_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, modules, seen = _command_lines(), _modules(), set()
    # Files that options read at once are there; which files the docs have made before, their own tests tell.
    monkeypatch.chdir(tmp_path)
    for name in ("node.secrets", "client.secrets"):
        (tmp_path / name).write_text("a secret of enough bytes")
    for where, line in lines:
        found = COMMAND_LINE.match(line)
        assert found is not None
        words = shlex.split(found.group(2).partition(" | ")[0].partition("   ")[0], comments=True)
        head = words[: words.index("--")] if "--" in words else words
        command = found.group(1)
        if command in ACTIONS:
            command += " " + head.pop(0)
        assert command in modules, f"{where}: {line}"
        seen.add(command)
        parser = Parser(prog="t")
        modules[command].declare(parser)
        parser.finish(parser.parse_args(head), {"TENURE_CONNECT": "127.0.0.1:1"})
    assert seen == set(modules)


def test_every_option_is_in_the_docs_of_the_command_line_or_explains_itself() -> None:
    for command, module in _modules().items():
        parser = Parser(prog="t")
        module.declare(parser)
        for option in parser.options:
            assert len(option.help) > 10, f"{command} {option.flag}"
            assert option.variable in parser.format_help()


def test_every_test_that_the_docs_name_exists() -> None:
    missing = [
        f"{line}: {name} in {file}"
        for line in read("docs/testing.md").splitlines()
        for file, names in re.findall(r"`(test_\w+\.py)`: ((?:`test_\w+`(?:, )?)+)", line)
        for name in re.findall(r"`(test_\w+)`", names)
        if f"def {name}(" not in read(f"tests/contract/{file}")
    ]
    assert not missing, missing


def test_every_test_of_the_contract_is_in_its_matrix() -> None:
    """By its name, or by that of its file alone where one row is about all of it."""
    matrix = read("docs/testing.md").partition("## The contract")[2].partition("\n## ")[0]
    whole = set(re.findall(r"all of `(test_\w+\.py)`", matrix))
    absent = [
        f"{path.name}: {name}"
        for path in sorted((ROOT / "tests/contract").glob("test_*.py"))
        if path.name not in whole
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE)
        if f"`{name}`" not in matrix
    ]
    assert not absent, absent
