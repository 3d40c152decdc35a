"""Schedules, for every coordinator: each time is run for once, whoever is there.

Knows: the public decorator. Must not know: how the mark is kept.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import tenure
from tests.contract.conftest import Ways
from tests.contract.support_forms import Asyncio, Form
from tests.support import eventually


def started(form: Form, way: Any, name: str, due: list[datetime], **rhythm: Any) -> Any:
    """A schedule that runs; what is returned closes it."""
    if not isinstance(form, Asyncio):
        schedule = tenure.leader_scheduled(tenure.LeaderElector(way), name, **rhythm)(due.append)
        schedule.start()
        return schedule.close

    async def note(at: datetime) -> None:
        due.append(at)

    async def begin() -> tenure.AsyncSchedule:
        made = tenure.leader_scheduled(tenure.AsyncLeaderElector(way), name, **rhythm)(note)
        made.start()
        return made

    def wait(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, form.loop).result(20)

    made = wait(begin())
    return lambda: wait(made.close())


def test_each_time_is_run_for_once_by_one_of_all(ways: Ways, form: Form, name: str) -> None:
    due: list[datetime] = []
    closers = [started(form, way, name, due, every=0.1, jitter=0.01) for way in (ways.one, ways.other, ways.one)]
    eventually(lambda: len(due) >= 3, 20)
    # Who stays goes on.
    closers.pop()()
    closers.pop(0)()
    count = len(due)
    eventually(lambda: len(due) >= count + 2, 20)
    closers.pop()()
    assert due == sorted(set(due))
    assert all(at.microsecond % 100_000 == 0 and at.utcoffset() is not None for at in due)
    assert ways.one.state(name, consistent=True).leader is None
