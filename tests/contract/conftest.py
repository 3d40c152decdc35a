"""The coordinators and forms that every test of the contract runs against.

Knows: the four ways in. Must not know: the rules under test.

Raft groups are made once per session and shared: every test uses names of its own. ``-k client`` runs one kind only.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tenure
from tests.contract.support_forms import (
    Asyncio,
    Blocking,
    Form,
    Futures,
    LoopThread,
    ThreadCall,
    Threads,
)
from tests.contract.support_strategic import StrategicAsyncio, StrategicBlocking
from tests.support_cluster import NodeGroup, free_ports

_names = itertools.count(1)


class Ways(NamedTuple):
    """Two coordinators of one raft group, of different nodes or clients where there are several; ``endpoints`` of its sockets."""

    kind: str
    one: Any
    other: Any
    endpoints: str = ""


@contextlib.contextmanager
def _local(directory: Path) -> Iterator[Ways]:
    with tenure.local() as coordinator:
        yield Ways("local", coordinator, coordinator)


@contextlib.contextmanager
def _embedded(directory: Path) -> Iterator[Ways]:
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    with (
        tenure.join(address, single=True, data_dir=str(directory / "node"), durability="process") as node,
        tenure.connect(address) as client,
    ):
        yield Ways("embedded", node, client, address)


@contextlib.contextmanager
def _embedded_three(directory: Path) -> Iterator[Ways]:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
    with contextlib.ExitStack() as stack:
        # A node is ready once a majority is there, so the three are started side by side.
        starting = [ThreadCall(_joiner(address, addresses, directory)) for address in addresses]
        nodes = [stack.enter_context(call.result(30.0)) for call in starting]
        leader = nodes[0].status().leader
        nodes.sort(key=lambda node: node.status().node_id != leader)
        yield Ways("embedded-3", nodes[0], nodes[1], ",".join(addresses))


def _joiner(address: str, addresses: list[str], directory: Path) -> Any:
    data_dir = directory / address.replace(":", "-")
    return lambda: tenure.join(address, addresses, data_dir=str(data_dir), durability="process")


@contextlib.contextmanager
def _client(group: NodeGroup) -> Iterator[Ways]:
    with tenure.connect(group.endpoints) as one, tenure.connect(group.endpoints) as other:
        yield Ways("client", one, other, group.endpoints)


_MAKERS = {"local": _local, "embedded": _embedded, "embedded-3": _embedded_three}


@pytest.fixture(scope="session", params=[*_MAKERS, "client"])
def ways(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    kind: str = request.param
    opened = (
        _client(request.getfixturevalue("tenure_group"))
        if kind == "client"
        else _MAKERS[kind](tmp_path_factory.mktemp(kind))
    )
    with opened as made:
        yield made


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture
def aio(loop_thread: LoopThread) -> Asyncio:
    """The asyncio form alone, for what only tasks can do."""
    return Asyncio(loop_thread.loop)


PLAIN: dict[str, type[Form]] = {"blocking": Blocking, "future": Futures, "thread": Threads}
FORMS = ("blocking", "asyncio", "future", "thread")
STRATEGIC_FORMS = ("strategic-blocking", "strategic-asyncio")
GROUP_FORMS = tuple(f"group-{form}" for form in FORMS)


@pytest.fixture(params=["blocking", "asyncio"])
def form(request: pytest.FixtureRequest, loop_thread: LoopThread) -> Form:
    """A form by its name; ``group-`` or ``strategic-`` before it for its twin. What only the coordinator decides is asked in two forms."""
    return made_form(request.param, loop_thread.loop)


def made_form(which: str, loop: asyncio.AbstractEventLoop) -> Form:
    if which in STRATEGIC_FORMS:
        return StrategicBlocking() if which == "strategic-blocking" else StrategicAsyncio(loop)
    group, kind = which.startswith("group-"), which.removeprefix("group-")
    return Asyncio(loop, group=group) if kind == "asyncio" else PLAIN[kind](group=group)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cells that ask nothing new, as docs/testing.md says; what groups alone can do is asked everywhere."""
    spared = [item for item in items if _is_spared(item)]
    if spared:
        config.hook.pytest_deselected(items=spared)
        gone = set(spared)
        items[:] = [item for item in items if item not in gone]


def _is_spared(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    form, ways = str(params.get("form", "")), params.get("ways")
    if item.path.name == "test_groups.py" or ways is None:
        return False
    detached = form.endswith(("future", "thread"))
    if detached and "leading" in item.name:
        return True
    if form.startswith("group-"):
        return bool(ways != "local")
    return bool(ways == "embedded" and (detached or form in STRATEGIC_FORMS))


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{re.sub(r'[^A-Za-z0-9_]', '-', request.node.originalname)[:80]}/{next(_names)}"
