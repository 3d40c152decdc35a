"""Fixtures of the tests of commands that work on files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.backup import encode
from cluster.env import RealEnv
from tests.cli.support_backup import backup


@pytest.fixture
def own_logging() -> Iterator[None]:
    """The command line sets up logging for its process, which is this one here."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backup's file, in a directory that commands run in."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "backup"
    path.write_bytes(encode(backup()))
    return path


@pytest.fixture
def env() -> Iterator[RealEnv]:
    loop = asyncio.new_event_loop()
    env = RealEnv(loop)
    yield env
    env.close()
    loop.close()
