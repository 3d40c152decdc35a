"""What is asserted of every seed when its faults are over: each of it is seen to fail here."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.history import __main__ as history
from tests.history.record import load, save
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


def test_the_history_of_a_failed_run_is_written_down_and_can_be_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def again(path: Path) -> int:
        monkeypatch.setattr(sys, "argv", ["python -m tests.history", str(path)])
        return history.main()

    written, spoilt = tmp_path / "history-1.jsonl", tmp_path / "spoilt.jsonl"
    with pytest.raises(Violation, match="has another state"):
        run(1, 2.0, weather=OneHasAnotherState, history=written)
    events = load(written)
    granted = [event for event in events if event["kind"] == "return" and event.get("grants")]
    assert len(granted) > 5, "it is the history of this run"
    # The clients have seen nothing of it.
    assert again(written) == 0
    assert capsys.readouterr().out == f"{written}: {len(events)} events, 0 objections\n"
    granted[1]["grants"][0][2] = granted[0]["grants"][0][2]
    save(events, spoilt)
    assert again(spoilt) == 1
    assert "was told to two calls" in capsys.readouterr().out


def test_a_clean_run_leaves_no_file(tmp_path: Path) -> None:
    run(1, 1.0, weather=Calm, history=tmp_path / "history.jsonl")
    assert not list(tmp_path.iterdir())
