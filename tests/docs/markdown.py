"""Reads the project's Markdown files: links, headings, code blocks.

Knows: Markdown as we write it. Must not know: what the files are about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.house import committed_files, project_files, read

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"<!-- example: ([\w-]+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its text."""

    file: str
    line: int
    language: str
    text: str


def markdown_files() -> list[str]:
    return [name for name in {*project_files(), *committed_files()} if name.endswith(".md")]


def links(name: str) -> Iterator[str]:
    """Targets of all links outside of code."""
    yield from LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", read(name))))


def anchors(name: str) -> set[str]:
    """The anchors of a file's headings, as web views of repositories make them."""
    found = set()
    for line in FENCE.sub("", read(name)).splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def blocks(name: str) -> Iterator[Block]:
    text = read(name)
    for found in FENCE.finditer(text):
        yield Block(name, text.count("\n", 0, found.start()) + 1, found.group(1), found.group(2))


def examples(name: str) -> dict[str, str]:
    """The named Python examples of a file."""
    return dict(EXAMPLE.findall(read(name)))
