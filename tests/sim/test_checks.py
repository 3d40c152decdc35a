"""What is asserted of every seed when its faults are over: each of it is seen to fail here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sim import worker
from tests.sim.faults import Faults
from tests.sim.model_table import fresh_table
from tests.sim.run import run
from tests.sim.violation import Violation
from tests.sim.worker import Worker


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Calm(Faults):
    """No faults."""

    async def run(self, until: float) -> None:
        await asyncio.sleep(until - self.world.loop.time())


class OneStaysAway(Calm):
    """A follower is never joined again."""

    async def mend(self) -> None:
        await super().mend()
        away = next(node for node in self.world.nodes if node is not self.world.leader())
        for host in self.world.hosts():
            self.world.network.cut(host.name, away.name)
            self.world.network.cut(away.name, host.name)


class OneHasAnotherState(Calm):
    """A follower's table is not what the log gives."""

    async def mend(self) -> None:
        await super().mend()
        node = next(node for node in self.world.nodes if node is not self.world.leader())
        assert node.node is not None
        table: Any = node.node.server.table
        node.node.server.table = fresh_table()
        node.node.server.table.restore(table.snapshot())
        node.node.server.apply = lambda index, term, command: None  # type: ignore[method-assign]


def test_a_calm_run_is_clean() -> None:
    assert run(1, 2.0, weather=Calm).counts["granted"] > 5


def test_a_node_that_does_not_catch_up_is_found() -> None:
    with pytest.raises(Violation, match="the nodes do not agree 30 s after the last fault"):
        run(1, 2.0, weather=OneStaysAway)


def test_a_node_with_another_state_is_found__I6() -> None:
    with pytest.raises(Violation, match=r"has another state at index \d+ than the log gives \(I6\)"):
        run(1, 2.0, weather=OneHasAnotherState)


def test_a_caller_that_is_never_told_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(self: Worker, names: list[str], arguments: dict[str, Any]) -> list[Any]:
        await asyncio.sleep(10_000)
        return []

    monkeypatch.setattr(Worker, "acquire", never)
    with pytest.raises(Violation, match="neither served nor told"):
        run(1, 2.0, weather=Calm)


def test_a_caller_that_is_told_too_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "TOLD_SLACK_S", -20.0)
    with pytest.raises(Violation, match="bound to"):
        run(1, 2.0, weather=Calm)
