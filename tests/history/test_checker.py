"""The checker must first catch what is known to be bad, and let pass what is known to be good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history import record
from tests.history.calls import Malformed, read_calls
from tests.history.checker import check
from tests.history.record import Recorder

pytestmark = pytest.mark.fast

Story = Callable[["Teller"], None]


class Teller(Recorder):
    """Writes a history down by hand: every step takes a second."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(self._tick)

    def _tick(self) -> float:
        self.now += 1.0
        return self.now

    def asks(self, process: str, *, max_leaders: int = 1, name: str = "job") -> int:
        return self.call(process, "acquire", [name], max_leaders=max_leaders)

    def gets(self, number: int, token: int, slot: int = 0, name: str = "job") -> None:
        self.returned(number, "ok", grants=[[name, slot, token]])

    def grant(self, process: str, token: int, slot: int = 0, *, max_leaders: int = 1, name: str = "job") -> None:
        self.gets(self.asks(process, max_leaders=max_leaders, name=name), token, slot, name)

    def release(self, process: str, token: int, result: str = "ok") -> None:
        self.returned(self.call(process, "release", ["job"], token=token), result)

    def extend(self, process: str, token: int, result: str = "ok") -> None:
        self.returned(self.call(process, "extend", ["job"], token=token), result)

    def write(self, process: str, token: int, value: int, *, took: bool = True) -> None:
        about = {"name": "stock", "process": process, "token": token, "value": value, "took": took}
        self.events.append({"at": self._tick(), "kind": "write", **about})

    def read(self, *slots: list[int]) -> None:
        self.returned(self.call("r", "read", ["job"]), "ok", slots=list(slots))


def one_after_the_other(t: Teller) -> None:
    t.grant("a", 1)
    t.look("a", 1, True, 9.0)
    t.read([0, 1])
    t.release("a", 1)
    t.read()
    t.grant("b", 2)
    t.read([0, 2])


def lost_then_taken(t: Teller) -> None:
    t.grant("a", 1)
    t.look("a", 1, True, 2.0)
    waiting = t.asks("b")
    t.look("a", 1, False, 0.0)
    t.gets(waiting, 2)


def two_slots(t: Teller) -> None:
    t.grant("a", 1, 0, max_leaders=2)
    t.grant("b", 2, 1, max_leaders=2)
    t.look("a", 1, True, 9.0)
    t.look("b", 2, True, 9.0)
    t.read([0, 1], [1, 2])


def unknown_may_hold(t: Teller) -> None:
    t.returned(t.asks("a"), "unknown")
    t.read([0, 7])
    t.returned(t.asks("b"), "no", grants=[])
    t.read()


def refused_by_a_waiter(t: Teller) -> None:
    waiting = t.asks("a")
    t.returned(t.asks("b"), "no", grants=[])
    t.gets(waiting, 1)


def a_read_beside_a_release(t: Teller) -> None:
    t.grant("a", 1)
    release = t.call("a", "release", ["job"], token=1)
    t.read()
    t.returned(release, "ok")


def told_too_late_and_asked_again(t: Teller) -> None:
    first = t.asks("a")
    t.read([0, 1])
    t.grant("b", 2)
    t.release("b", 2)
    t.gets(first, 3)


def increments_one_by_one(t: Teller) -> None:
    t.write("a", 1, 1)
    t.write("b", 2, 2)
    t.write("a", 1, 2, took=False)
    t.write("b", 2, 3)


def too_late_and_refused(t: Teller) -> None:
    t.grant("a", 1)
    waiting = t.asks("b")
    extension = t.call("a", "extend", ["job"], token=1)
    t.gets(waiting, 2)
    t.returned(extension, "ok")
    t.extend("a", 1, "no")
    t.release("a", 1, "no")


GOOD: list[Story] = [
    too_late_and_refused,
    one_after_the_other, lost_then_taken, two_slots, unknown_may_hold, refused_by_a_waiter, a_read_beside_a_release,
    told_too_late_and_asked_again, increments_one_by_one,
]  # fmt: skip


def two_at_once(t: Teller) -> None:
    t.grant("a", 1)
    t.grant("b", 2)
    t.look("a", 1, True, 5.0)


def earlier_token_later(t: Teller) -> None:
    t.grant("a", 2)
    t.release("a", 2)
    t.grant("b", 1)


def token_of_another_name_reused(t: Teller) -> None:
    t.grant("a", 5, name="other")
    t.grant("b", 5)


def released_after_its_successor(t: Teller) -> None:
    t.grant("a", 1)
    t.grant("b", 2)
    t.release("a", 1)


def extended_after_its_successor(t: Teller) -> None:
    t.grant("a", 1)
    t.grant("b", 2)
    t.extend("a", 1)


def over_the_limit(t: Teller) -> None:
    t.grant("a", 1, 0, max_leaders=1)
    t.grant("b", 2, 1, max_leaders=2)
    t.look("a", 1, True, 5.0)


def three_where_one_asked_for_two(t: Teller) -> None:
    t.grant("a", 1, 1, max_leaders=3)
    t.grant("b", 2, 2, max_leaders=3)
    t.grant("c", 3, 0, max_leaders=2)
    t.look("a", 1, True, 5.0)
    t.look("b", 2, True, 5.0)


def slot_beyond_the_limit(t: Teller) -> None:
    t.grant("a", 1, 1, max_leaders=1)


def shortened(t: Teller) -> None:
    t.grant("a", 1)
    t.look("a", 1, True, 9.0)
    t.look("a", 1, True, 2.0)


def lost_and_found(t: Teller) -> None:
    t.grant("a", 1)
    t.look("a", 1, False, 0.0)
    t.look("a", 1, True, 1.0)


def stale_read(t: Teller) -> None:
    t.grant("a", 1)
    t.release("a", 1)
    t.read([0, 1])


def read_of_the_one_before(t: Teller) -> None:
    t.grant("a", 1)
    waiting = t.asks("b")
    t.gets(waiting, 2)
    t.read([0, 1])


def reads_that_go_back(t: Teller) -> None:
    first, second = t.asks("a"), t.asks("b")
    t.read([0, 2])
    t.read([0, 1])
    t.returned(first, "unknown")
    t.returned(second, "unknown")


def blind_read(t: Teller) -> None:
    t.grant("a", 1)
    t.read()
    t.look("a", 1, True, 3.0)


def read_of_nobody(t: Teller) -> None:
    t.read([0, 4])


def refused_for_nothing(t: Teller) -> None:
    t.grant("a", 1)
    t.release("a", 1)
    t.returned(t.asks("b"), "no", grants=[])


def granted_what_was_not_asked(t: Teller) -> None:
    t.returned(t.asks("a"), "ok", grants=[["other", 0, 1]])


def overwritten_increment(t: Teller) -> None:
    t.write("a", 1, 1)
    t.write("b", 2, 2)
    t.write("a", 1, 2)


BAD: dict[Story, str] = {
    two_at_once: "I8",
    earlier_token_later: "I2",
    token_of_another_name_reused: "I2",
    released_after_its_successor: "I4",
    extended_after_its_successor: "I4",
    over_the_limit: "I1",
    three_where_one_asked_for_two: "I1",
    slot_beyond_the_limit: "I1",
    shortened: "I4",
    lost_and_found: "held again",
    stale_read: "after its end",
    read_of_the_one_before: "token",
    reads_that_go_back: "before",
    blind_read: "was there",
    read_of_nobody: "before",
    refused_for_nothing: "nobody held",
    granted_what_was_not_asked: "asked for",
    overwritten_increment: "an increment is lost",
}


@pytest.mark.parametrize("story", GOOD, ids=lambda story: story.__name__)
def test_what_is_right_passes(story: Story) -> None:
    teller = Teller()
    story(teller)
    assert check(teller.events) == []


@pytest.mark.parametrize("story", BAD, ids=lambda story: story.__name__)
def test_what_is_wrong_is_found(story: Story) -> None:
    teller = Teller()
    story(teller)
    assert any(BAD[story] in objection for objection in check(teller.events))


def test_a_history_is_the_same_after_a_file(tmp_path: Path) -> None:
    teller = Teller()
    two_at_once(teller)
    record.save(teller.events, tmp_path / "history.jsonl")
    assert record.load(tmp_path / "history.jsonl") == teller.events


def test_what_is_no_history_is_refused() -> None:
    teller = Teller()
    teller.returned(7, "ok")
    with pytest.raises(Malformed):
        read_calls(teller.events)
