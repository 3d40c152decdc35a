"""README and docs: every link leads somewhere, every command line in them is one that the program accepts.

Knows: Markdown, the parsers. Must not know: what the commands do.
"""

from __future__ import annotations

import importlib
import re
import shlex

import pytest

from cluster.cli.main import COMMANDS
from cluster.cli.options import Parser
from tests.docs.markdown import anchors, blocks, examples, links, markdown_files
from tests.house import ROOT

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


def _command_lines() -> list[tuple[str, str]]:
    """Every command line of the docs and of the commands' own help."""
    found = [
        (f"{name}:{block.line}", line.group(0))
        for name in markdown_files()
        for block in blocks(name)
        for line in COMMAND_LINE.finditer(block.text)
    ]
    for command in COMMANDS:
        module = importlib.import_module(f"cluster.cli.{command}")
        found += [(command, line.group(0)) for line in COMMAND_LINE.finditer(module.EXAMPLE)]
    return found


def test_every_command_line_of_the_docs_is_accepted() -> None:
    lines = _command_lines()
    assert set(COMMANDS) <= {COMMAND_LINE.match(line).group(1) for _, line in lines}  # type: ignore[union-attr]
    for where, line in lines:
        found = COMMAND_LINE.match(line)
        assert found is not None
        words = shlex.split(found.group(2).partition(" | ")[0].partition("   ")[0], comments=True)
        head = words[: words.index("--")] if "--" in words else words
        assert found.group(1) in COMMANDS, f"{where}: {line}"
        module = importlib.import_module(f"cluster.cli.{found.group(1)}")
        parser = Parser(prog="t")
        module.declare(parser)
        parser.finish(parser.parse_args(head), {"TENURE_CONNECT": "127.0.0.1:1"})


def test_every_option_is_in_the_docs_of_the_command_line_or_explains_itself() -> None:
    for command in COMMANDS:
        module = importlib.import_module(f"cluster.cli.{command}")
        parser = Parser(prog="t")
        module.declare(parser)
        for option in parser.options:
            assert len(option.help) > 10, f"{command} {option.flag}"
            assert option.variable in parser.format_help()
