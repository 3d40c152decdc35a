"""The checker of records must first catch what is known to be bad, and let pass what is known to be good."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.history.checker import check
from tests.history.record import Recorder

pytestmark = pytest.mark.fast


class Teller(Recorder):
    """Writes a history down by hand: every step takes a second."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(self._tick)

    def _tick(self) -> float:
        self.now += 1.0
        return self.now

    def puts(self, process: str, value: str, *, token: int = 0, expected: int | None = None) -> int:
        return self.call(process, "put", ["key"], value=value, token=token, expected=expected)

    def put(self, process: str, value: str, version: int, *, token: int = 0, expected: int | None = None) -> None:
        self.returned(self.puts(process, value, token=token, expected=expected), "ok", version=version)

    def get(self, value: str, version: int) -> None:
        self.saw(self.call("r", "get", ["key"]), value, version)

    def saw(self, number: int, value: str, version: int) -> None:
        self.returned(number, "ok", value=value, version=version, token=0)


Story = Callable[[Teller], None]


def one_after_the_other(t: Teller) -> None:
    t.get("", 0)
    t.put("a", "a1", 3, expected=0)
    t.get("a1", 3)
    t.put("b", "b1", 5, expected=3)
    t.get("b1", 5)


def unknown_and_seen_later(t: Teller) -> None:
    t.put("a", "a1", 3)
    t.returned(t.puts("b", "b1"), "unknown")
    t.get("a1", 3)
    t.get("b1", 4)
    t.get("b1", 4)


def two_at_once(t: Teller) -> None:
    first, second = t.puts("a", "a1"), t.puts("b", "b1")
    reading = t.call("r", "get", ["key"])
    t.returned(first, "ok", version=7)
    t.returned(second, "ok", version=6)
    t.saw(reading, "b1", 6)
    t.get("a1", 7)


def refused(t: Teller) -> None:
    t.put("a", "a1", 3, token=2)
    t.returned(t.puts("b", "b1", token=1), "fenced")
    t.returned(t.puts("b", "b2", token=2, expected=9), "conflict")
    t.put("c", "c1", 9, token=8)
    t.get("c1", 9)


GOOD: list[Story] = [one_after_the_other, unknown_and_seen_later, two_at_once, refused]


def stale_read(t: Teller) -> None:
    t.put("a", "a1", 3)
    t.put("b", "b1", 5)
    t.get("a1", 3)


def reads_that_go_back(t: Teller) -> None:
    t.put("a", "a1", 3)
    t.returned(t.puts("b", "b1"), "unknown")
    t.get("b1", 4)
    t.get("a1", 3)


def nothing_after_a_write(t: Teller) -> None:
    t.put("a", "a1", 3)
    t.get("", 0)


def read_from_nowhere(t: Teller) -> None:
    t.put("a", "a1", 3)
    t.get("z9", 4)


def read_from_the_future(t: Teller) -> None:
    t.get("a1", 3)
    t.put("a", "a1", 3)


def applied_twice(t: Teller) -> None:
    t.put("a", "a1", 3)
    t.put("b", "b1", 4)
    t.get("a1", 5)


def one_version_for_two(t: Teller) -> None:
    t.put("a", "a1", 3)
    t.put("b", "b1", 3)


def below_what_was_answered(t: Teller) -> None:
    t.put("a", "a1", 5)
    t.put("b", "b1", 4)


def a_fenced_write_was_applied(t: Teller) -> None:
    t.returned(t.puts("a", "a1", token=1), "fenced")
    t.get("a1", 3)


def an_earlier_holder_wrote_later(t: Teller) -> None:
    t.put("a", "a1", 3, token=2)
    t.put("b", "b1", 6, token=5)
    t.put("a", "a2", 7, token=2)


def over_another_version(t: Teller) -> None:
    t.put("a", "a1", 3)
    first = t.puts("a", "a2")
    t.put("b", "b1", 5, expected=3)
    t.returned(first, "ok", version=4)


BAD: dict[Story, str] = {
    stale_read: "had been answered version 5",
    reads_that_go_back: "had been answered version 4",
    nothing_after_a_write: "had been answered version 3",
    read_from_nowhere: "which nobody wrote",
    read_from_the_future: "before it was written",
    applied_twice: "written twice",
    one_version_for_two: "version 3 is that of",
    below_what_was_answered: "had been answered version 5",
    a_fenced_write_was_applied: "whose write was refused",
    an_earlier_holder_wrote_later: "after one of 5 (I10)",
    over_another_version: "over [4]",
}


@pytest.mark.parametrize("story", GOOD, ids=lambda story: story.__name__)
def test_a_good_history_passes(story: Story) -> None:
    teller = Teller()
    story(teller)
    assert check(teller.events) == []


@pytest.mark.parametrize("story", BAD, ids=lambda story: story.__name__)
def test_a_bad_history_is_caught(story: Story) -> None:
    teller = Teller()
    story(teller)
    found = check(teller.events)
    assert any(BAD[story] in text for text in found), found
