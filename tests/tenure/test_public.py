"""What ``tenure`` shows: its names, their docstrings, and examples that run."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import tenure
from tests.support_cluster import free_ports

pytestmark = pytest.mark.fast


def modules() -> list[ModuleType]:
    names = [info.name for info in pkgutil.iter_modules(tenure.__path__) if info.name != "__main__"]
    return [tenure, *(importlib.import_module(f"tenure.{name}") for name in names)]


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__)
def test_examples_run(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    assert sum(doctest.testmod(module).attempted for module in modules()) >= 8


def test_the_public_names_are_those_that_are_listed() -> None:
    shown = {name for name in vars(tenure) if not name.startswith("_")}
    submodules = {info.name for info in pkgutil.iter_modules(tenure.__path__)}
    assert shown - submodules == set(tenure.__all__) - submodules
    assert tenure.__all__ == sorted(tenure.__all__)


def test_every_public_name_says_what_it_is() -> None:
    silent = [name for name in tenure.__all__ if not inspect.getdoc(getattr(tenure, name))]
    # An alias for a union has no docstring of its own.
    assert set(silent) <= {"ExtendOutcome", "RunResult"}


def test_what_opens_for_threads_opens_for_tasks_with_the_same_arguments() -> None:
    for name in ("connect", "join"):
        blocking, twin = getattr(tenure, name), getattr(tenure.aio, name)
        assert inspect.iscoroutinefunction(twin)
        assert inspect.signature(twin).parameters == inspect.signature(blocking).parameters


def test_the_raft_engine_is_imported_only_when_a_node_starts() -> None:
    script = "import sys, tenure\nwith tenure.local() as c, c.acquire('job'): print('pysyncobj' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "False"


def test_a_node_in_a_loop_is_joined_and_closed_without_blocking_it() -> None:
    async def main() -> object:
        (port,) = free_ports(1)
        address = f"127.0.0.1:{port}"
        async with (
            await tenure.aio.join(address, single=True, ephemeral=True, ready_timeout=20) as node,
            await tenure.aio.connect(address) as client,
        ):
            lease = await node.aio.acquire("job")
            assert lease is not None
            assert await client.aio.acquire("job") is None
            return await lease.release()

    assert asyncio.run(main()) is True


def test_bad_doors_are_refused_at_once() -> None:
    openings: list[Callable[[], object]] = [
        lambda: tenure.join("127.0.0.1:7101"),
        lambda: tenure.join("nowhere", single=True),
        lambda: tenure.join("127.0.0.1:7101", ["127.0.0.1:7102"], durability="perhaps"),  # type: ignore[arg-type]
        lambda: tenure.connect(""),
        lambda: tenure.connect("127.0.0.1"),
        lambda: tenure.connect("127.0.0.1:7101", timeout=0),
    ]
    for opening in openings:
        with pytest.raises(tenure.UsageError):
            opening()
