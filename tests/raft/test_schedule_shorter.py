"""A member comes back without the last entry that it had acknowledged (R15): it is sent it again, and not counted before.

It may: with ``durability="process"`` after a power cut, or because its last group was damaged, which looks like one that was torn.
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.raft.adapter import Adapter
from cluster.raft.returning import AsksAnew
from tests.raft.lab import World
from tests.raft.variants import variant

pytestmark = pytest.mark.fast


def forget_last_record(w: World, name: str) -> None:
    """While it is down: the end of its journal is damaged, as by a write that was torn."""
    drive = w[name].drive
    file = [each for each in drive.files() if each.startswith("journal")][-1]
    data = bytearray(drive.files()[file])
    end = len(bytes(data).rstrip(b"\0"))
    data[end - 3 : end] = bytes(3)
    drive.set_file(file, bytes(data))


def one_of_two_forgets(adapter: Any) -> tuple[World, int]:
    """Of three, one is down, and the one that the leader needs has lost the end of its log. Returns how often it was sent to in five
    seconds, too."""
    w = World("ABC", adapter)
    w.form("A")
    for i in range(5):
        w.propose("A", f"x{i}")
    w.beat("A", "BC")
    w.kill("B")
    w.kill("C")
    forget_last_record(w, "B")
    before = w["B"].last
    w.restart("B", "A")
    assert w["B"].last == before - 1
    sent = 0
    w.propose("A", "later")
    for _ in range(100):
        w.tick("A", 0.05)
        for _ in range(5):
            sent += len(w.pending("A", "B"))
            w.flow("A", "B")
            w.work("B")
            w.flow("B", "A")
    assert not w.ledger.violations
    return w, sent


def test_a_member_that_lost_its_last_entry_is_sent_it_again() -> None:
    w, sent = one_of_two_forgets(Adapter)
    assert b"later" in w.ledger.acked
    assert w["B"].last == w["A"].last
    assert sent < 150, "beats, and little else"


def test_without_asking_anew_the_group_stands_still_although_two_of_three_run() -> None:
    w, sent = one_of_two_forgets(variant({AsksAnew: None}))
    assert b"later" not in w.ledger.acked
    assert w["A"].raft.is_leader, "every refusal is a sign of life"
    assert sent > 400


def counted_for_what_it_lost(adapter: Any) -> list[tuple[str, str]]:
    """The leader's own disk is slow: it commits only when that has answered, and by then the other one has lost the entry."""

    class Synced(World):
        durability = "fsync"

    w = Synced("ABC", adapter)
    for name in "ABC":
        w.work(name)
    w.form("A")
    for name in "ABC":
        w.work(name)
    w.beat("A", "BC")
    w.cut("A", "C")
    w.cut("B", "C")
    w.propose("A", "xx")
    w.flow("A", "B")
    w.work("B")
    w.flow("B", "A")
    assert b"xx" not in w.ledger.acked
    w.kill("B", power=True)
    forget_last_record(w, "B")
    w.restart("B", "A")
    w.work("A")
    w.kill("A")
    w.link("B", "C")
    w.elect("B", "C")
    w.propose("B", "yy")
    for _ in range(6):
        w.tick("B", 0.08)
        w.flow("B", "C")
        w.work("C")
        w.flow("C", "B")
        w.work("B")
    assert b"yy" in w.ledger.acked
    w.ledger.check_kept("B", w["B"].machine.commands)
    return w.ledger.violations


def test_what_a_member_has_lost_is_not_counted__I9() -> None:
    assert counted_for_what_it_lost(Adapter) == []
    rules = {rule for rule, _ in counted_for_what_it_lost(variant({AsksAnew: None}))}
    assert "AckedLost" in rules
