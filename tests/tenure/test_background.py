"""The one loop beside a process's callers: made once, whoever comes meanwhile (D1).

Knows: ``_background``. Must not know: what runs there.
"""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest

import tenure
from cluster.client import IoThread
from tenure import _background
from tests.support import eventually

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was made yet, as far as the test can see."""
    monkeypatch.setattr(_background, "_made", {})


def threads() -> int:
    return sum(thread.name == "tenure-runs" for thread in threading.enumerate())


def test_a_signal_handler_that_needs_the_loop_while_it_is_made_gets_one__D1(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threads()
    real = IoThread
    closed: list[bool] = []

    def interrupted(name: str) -> Any:
        if not closed:
            signal.raise_signal(signal.SIGTERM)
        return real(name)

    monkeypatch.setattr(_background, "IoThread", interrupted)
    with tenure.local() as coordinator:
        latch, other = tenure.LeaderLatch(coordinator), tenure.LeaderLatch(coordinator)

        def handler(*_: object) -> None:
            closed.append(True)
            other.start("other")
            other.close()
            latch.close()

        earlier = signal.signal(signal.SIGTERM, handler)
        try:
            with pytest.raises(tenure.UsageError, match="closed before"):
                latch.start("job")
        finally:
            signal.signal(signal.SIGTERM, earlier)
            latch.close()
        eventually(lambda: threads() == before + 1, 20, "one loop is left")
    _background.background().discard()
    assert closed == [True]


def test_threads_that_need_the_loop_in_the_same_moment_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threads()
    together = threading.Barrier(4)
    real = IoThread
    found: list[Any] = []

    def slow(name: str) -> Any:
        together.wait(20)
        return real(name)

    monkeypatch.setattr(_background, "IoThread", slow)
    callers = [threading.Thread(target=lambda: found.append(_background.background())) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert (len(found), len(set(found))) == (4, 1)
    eventually(lambda: threads() == before + 1, 20, "one loop is left")
    found[0].discard()
