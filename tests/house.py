"""What the tests of the house look at: this project's files, and what Python files import and call.

Knows: git's list of files, syntax trees. Must not know: the rules.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


@cache
def project_files() -> tuple[str, ...]:
    """Paths of all files that are in git, or would be with the next commit, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(sorted({name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}))


@cache
def committed_files() -> tuple[str, ...]:
    """Paths of the files that are in git."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(sorted(name for name in listed.stdout.split("\0") if name))


def files(*tops: str, suffixes: tuple[str, ...] = (".py",)) -> list[str]:
    """The project's files under the given directories (or with the given names), by suffix."""
    return [
        name
        for name in project_files()
        if name.endswith(suffixes) and any(name == top or name.startswith(top + "/") for top in tops)
    ]


@cache
def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(read(name), name)


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """Every node of a file's tree."""
    return tuple(ast.walk(tree(name)))


class Import(NamedTuple):
    """One imported module: ``cluster.limits`` for both ``import cluster.limits`` and ``from cluster.limits import X``."""

    file: str
    line: int
    module: str
    for_types: bool


def imports(name: str) -> Iterator[Import]:
    """Every import of a Python file, those inside functions too. ``for_types``: under ``if TYPE_CHECKING``."""
    typed: set[int] = set()
    for node in nodes(name):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            typed.update(id(inner) for inner in ast.walk(node))
    for node in nodes(name):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, node.lineno, alias.name, id(node) in typed)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield Import(name, node.lineno, module, id(node) in typed)


CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+(c?import)\b|(c?import)\s+([\w.]+))", re.MULTILINE)


def cython_imports(name: str) -> Iterator[tuple[str, bool]]:
    """``(module, whether it is a cimport)`` of a Cython file."""
    for found in CYTHON_IMPORT.finditer(read(name)):
        module, kind, kind_too, module_too = found.groups()
        yield module or module_too, (kind or kind_too) == "cimport"


def function_lengths(name: str) -> Iterator[tuple[str, int, int]]:
    """``(name, first line, number of lines)`` of every function of a Python file, decorators not counted."""
    for node in nodes(name):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno is not None
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


CYTHON_FUNCTION = re.compile(r"^(\s*)(?:async\s+def|def|cdef|cpdef)\s[^=]*\(.*$")


def cython_function_lengths(name: str) -> Iterator[tuple[str, int, int]]:
    """The same for a Cython file, by indentation: a function ends before the next line that is not deeper than it."""
    lines = read(name).splitlines()
    for at, line in enumerate(lines):
        found = CYTHON_FUNCTION.match(line)
        if not found:
            continue
        depth = len(found.group(1))
        # The head may go over several lines, whose last one can stand at the function's own depth.
        head = at
        while head < len(lines) - 1 and not lines[head].rstrip().endswith(":"):
            head += 1
        last = head
        for below in range(head + 1, len(lines)):
            text = lines[below]
            if text.strip() and not text.strip().startswith("#"):
                if len(text) - len(text.lstrip()) <= depth:
                    break
                last = below
        yield line.strip(), at + 1, last - at + 1
