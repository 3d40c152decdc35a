"""Prints what was measured at the end of every run, whether it passed or not.

Knows: pytest's hooks. Must not know: the measurements.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.report import surroundings

_sections = pytest.StashKey[dict[str, list[str]]]()


@pytest.fixture(scope="session")
def show(request: pytest.FixtureRequest) -> Callable[[str, list[str]], None]:
    """``show(title, lines)`` adds a section to the end of the run; the same title again replaces it."""
    sections = request.config.stash.setdefault(_sections, {})

    def add(title: str, lines: list[str]) -> None:
        sections[title] = lines

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    sections = config.stash.get(_sections, {})
    if not sections:
        return
    terminalreporter.section("measured")
    for name, text in surroundings().items():
        terminalreporter.line(f"{name:9} {text}")
    for title, lines in sections.items():
        terminalreporter.line("")
        terminalreporter.line(title)
        for line in lines:
            terminalreporter.line(f"  {line}")
