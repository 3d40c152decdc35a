"""What a restore excuses in a history: records that go back, leases that nobody sees. And what not: two holders, tokens that fall."""

from __future__ import annotations

import pytest

from tests.history.checker import check
from tests.history.record import Recorder

pytestmark = pytest.mark.fast


def history(token: int, *, restored: bool) -> list[dict[str, object]]:
    """A record is written and then not there; a name is granted twice."""
    now = iter(range(100))
    recorder = Recorder(lambda: float(next(now)))
    recorder.returned(recorder.call("a", "acquire", ["job"], max_leaders=1), "ok", grants=[["job", 0, 7]])
    recorder.returned(recorder.call("a", "put", ["key"], value="one", token=0, expected=None), "ok", version=8)
    if restored:
        recorder.restored()
    recorder.returned(recorder.call("b", "get", ["key"]), "ok", version=0, value="", token=0)
    recorder.returned(recorder.call("b", "acquire", ["job"], max_leaders=1), "ok", grants=[["job", 0, token]])
    return recorder.events


def test_records_may_go_back_by_a_restore_only() -> None:
    assert not check(history(9, restored=True))
    assert any("record 'key'" in objection for objection in check(history(9, restored=False)))


@pytest.mark.parametrize("restored", [True, False])
def test_who_held_before_a_restore_may_believe_it_while_nobody_is_seen(restored: bool) -> None:
    now = iter(range(100))
    recorder = Recorder(lambda: float(next(now)))
    recorder.returned(recorder.call("a", "acquire", ["job"], max_leaders=1), "ok", grants=[["job", 0, 7]])
    recorder.returned(recorder.call("b", "read", ["job"]), "ok", slots=[[0, 7]])
    if restored:
        recorder.restored()
    recorder.returned(recorder.call("b", "read", ["job"]), "ok", slots=[])
    recorder.look("a", 7, True, 5.0)
    assert bool(check(recorder.events)) is not restored


def test_tokens_may_not__I2() -> None:
    assert any("(I2)" in objection for objection in check(history(6, restored=True)))


@pytest.mark.parametrize(("restored", "excused"), [("before the read", True), ("after it", False), ("never", False)])
def test_a_read_may_miss_who_holds_from_before_a_restore_only(restored: str, excused: bool) -> None:
    now = iter(range(100))
    recorder = Recorder(lambda: float(next(now)))
    recorder.returned(recorder.call("a", "acquire", ["job"], max_leaders=1), "ok", grants=[["job", 0, 7]])
    if restored == "before the read":
        recorder.restored()
    recorder.returned(recorder.call("b", "read", ["job"]), "ok", slots=[])
    if restored == "after it":
        recorder.restored()
    recorder.look("a", 7, True, 5.0)
    assert (not check(recorder.events)) is excused
