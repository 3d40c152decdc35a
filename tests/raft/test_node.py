"""The replicated log as its users see it: proposing, stopping, handing over, limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cluster.limits import CLOCK_DRIFT
from cluster.raft import commit, config, messages
from cluster.raft.adapter import Adapter
from cluster.raft.bridge import Bridge
from cluster.raft.commit import Poison
from tests.raft.lab import World
from tests.raft.variants import TriesForEver, commands, variant

pytestmark = pytest.mark.fast


# Proposing.


def test_only_the_leader_proposes_and_nothing_is_forwarded__s09() -> None:
    w = World("ABC")
    w.form("A")
    assert w["B"].raft.propose(b"xx") is None
    assert not w.pending("B", "A"), "a follower sends nothing for its callers: no request id can be answered twice"
    with pytest.raises(RuntimeError, match="propose"):
        w["B"].adapter._applyCommand(b"xx", None)
    bridge: Bridge = w["B"].adapter._bridge
    peer = w["B"].adapter._peers["A"].node
    for kind in ("apply_command", "apply_command_response", "append_entries", "next_node_idx"):
        assert not bridge.send(peer, {"type": kind, "command": b"xx", "request_id": 1, "term": 1})
    assert not w.pending("B", "A")


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", b"\x01", b"\x90", b"\x91\xa1x", b"\x92\x63\x01", b"\x80", b"\x93\x01\x01\x01"]
)
def test_what_is_not_a_message_is_ignored(payload: bytes) -> None:
    w = World("ABC")
    w.form("A")
    w.hand_over("A", "B", payload)
    assert not w["B"].fatal
    w.propose("A", "x0")
    w.beat("A", "BC")
    assert commands(w["B"].machine) == ["x0"]


def test_fields_of_a_wrong_type_are_ignored() -> None:
    w = World("ABC")
    w.form("A")
    whole: list[list[Any]] = [
        [messages.APPEND, 1, 1e9, 2, 1, 2, [[1, b"xx"]]],
        [messages.ACK, 1, 1e9, 2, True, True],
        [messages.PIECE, 1, 1e9, 2, 9, 1, 5, 5, 0, b"abc"],
        [messages.REQUEST_VOTE, 9, 9, 9, True],
    ]
    for message in whole:
        for at in range(1, len(message)):
            for wrong in (None, "x", [1], -1.5, b"x", {"a": 1}):
                if type(wrong) is not type(message[at]):
                    w.hand_over("A", "B", messages.encode(*message[:at], wrong, *message[at + 1 :]))
    w.hand_over("A", "B", messages.encode(messages.APPEND, 1, 1e9, 2, 1, 2, [[1, "text"]]))
    assert not w["B"].fatal
    assert w["B"].raft.term == 1
    assert w["B"].last == w["A"].last


@pytest.mark.parametrize("command", [b"", b"x", b"\xff\xff", bytes(config.ENTRY_MAX_BYTES + 1)])
def test_a_command_that_the_log_does_not_carry_is_refused(command: bytes) -> None:
    w = World("ABC")
    w.form("A")
    last = w["A"].last
    with pytest.raises(ValueError, match="command"):
        w["A"].raft.propose(command)
    assert w["A"].last == last


def test_the_largest_command_travels() -> None:
    w = World("ABC")
    World.segment_bytes, before = 1 << 23, World.segment_bytes
    try:
        w.form("A")
        index = w["A"].raft.propose(b"xx" + bytes(config.ENTRY_MAX_BYTES - 2))
        w.beat("A", "BC")
        assert w["C"].adapter._SyncObj__raftLastApplied == index
    finally:
        World.segment_bytes = before


def test_the_machine_may_propose_while_it_applies() -> None:
    w = World("ABC")
    w.form("A")
    machine = w["A"].machine
    apply, chain = machine.apply, [b"x1", b"x2", b"x3"]

    def apply_and_propose(index: int, term: int, command: bytes) -> None:
        apply(index, term, command)
        if chain:
            w["A"].raft.propose(chain.pop(0))

    machine.apply = apply_and_propose  # type: ignore[method-assign]
    w.propose("A", "x0")
    w.beat("A", "BC", 6)
    assert commands(w["B"].machine) == ["x0", "x1", "x2", "x3"]
    assert not w.ledger.violations


# Stopping.


def s17_command_that_fails(adapter: Any) -> World:
    w = World("ABC", adapter)
    w.form("A")
    w.propose("A", "boom")
    w.propose("A", "x0")
    w.beat("A", "BC", 4)
    return w


def test_s17_a_command_that_fails_stops_the_node_once() -> None:
    whole = s17_command_that_fails(Adapter)
    assert len(whole["A"].fatal) == 1
    assert "cannot be applied" in whole["A"].fatal[0]
    assert whole["A"].machine.tried == [b"boom"]
    assert not whole["A"].raft.is_leader
    assert whole["A"].raft.propose(b"x1") is None
    assert whole["A"].machine.roles[-1][0] is False, "the machine is told that it leads no more"
    damaged = s17_command_that_fails(variant({Poison: TriesForEver}))
    for i in range(1, 4):
        damaged.propose("A", f"x{i}")
        damaged.beat("A", "BC")
    assert damaged["A"].machine.tried.count(b"boom") > 3
    assert commands(damaged["A"].machine) == []


def test_an_unforeseen_error_stops_the_node_with_a_message() -> None:
    w = World("ABC")
    w.form("A")
    w["B"].adapter._handlers[messages.APPEND] = lambda peer, message: 1 / 0
    w.tick("A")
    w.flow("A", "B")
    assert w["B"].fatal == ["an unexpected error: ZeroDivisionError: division by zero"]
    w.lose("B", "A")
    w.tick("A")
    w.flow("A", "B")
    assert not w.pending("B", "A"), "it says nothing any more"


def test_a_full_disk_stops_the_node__E7() -> None:
    w = World("ABC")
    w.form("A")
    drive = w["A"].drive
    drive.capacity_bytes = 0
    drive.faults = {call: OSError(28, "No space left on device") for call in range(drive.calls + 1, drive.calls + 50)}
    assert w["A"].raft.propose(b"x0") is not None, "it is on its way: nobody may say that it did not happen"
    w["A"].env.run_soon()
    assert len(w["A"].fatal) == 1
    assert "No space left" in w["A"].fatal[0]
    assert w["A"].machine.roles[-1][0] is False
    w.flow("A", "B")
    w.kill("A")
    w.elect("B", "C")
    w.propose("B", "x1")
    w.beat("B", "C")
    assert commands(w["C"].machine) == ["x0", "x1"]
    assert not w.ledger.violations


def test_a_full_disk_stops_a_node_that_stands_for_election_and_says_why__E7() -> None:
    w = World("ABC")
    w.form("A")
    drive = w["B"].drive
    drive.faults = {call: OSError(28, "No space left on device") for call in range(drive.calls + 1, drive.calls + 50)}
    w.lose("A", "B")
    with pytest.raises(AssertionError, match="B was not elected"):
        w.elect("B", "C")
    assert w["B"].fatal == ["the disk of this node failed: [Errno 28] No space left on device"]


def test_after_close_nothing_is_said_or_heard() -> None:
    w = World("ABC")
    w.form("A")
    w["B"].raft.close()
    w.propose("A", "x0")
    w.flow("A", "B")
    w.tick("B", 5.0)
    assert not w.pending("B", "A")
    assert w["B"].machine.commands == []
    assert not w["B"].fatal


# Slow followers.


def test_a_follower_that_does_not_answer_costs_a_bounded_window() -> None:
    w = World("ABC")
    w.form("A")
    for i in range(200):
        w.propose("A", f"x{i}")
        w.flow("A", "B")
        w.flow("B", "A")
    assert len(w.pending("A", "C")) <= config.APPENDS_IN_FLIGHT_MAX + 2
    assert len(w.ledger.acked) == 200
    for _ in range(40):
        w.flow("A", "C")
        w.flow("C", "A")
    assert w["C"].last == w["A"].last, "what it missed is sent in larger appends as it answers"


def test_one_append_is_bounded_by_bytes() -> None:
    w = World("ABC")
    w.form("A")
    w.isolate("C")
    for _ in range(8):
        w["A"].raft.propose(bytes(300_000))
    w.flow("A", "B")
    w.flow("B", "A")
    w.link("A", "C")
    sizes = [
        sum(len(command) for _, command in message[6])
        for message in w.pending("A", "C")
        if message[0] == messages.APPEND
    ]
    assert sizes
    assert max(sizes) <= config.APPEND_MAX_BYTES + 300_000


def test_a_hanging_disk_of_the_leader_counts_it_out_and_collects_nothing__E7() -> None:
    World.durability, before = "fsync", World.durability
    try:
        w = World("ABC")
        for name in "ABC":
            w.work(name)
        w.elect("A", "BC")
        for name in "ABC":
            w.work(name)
        for i in range(50):
            w.propose("A", f"x{i}")
            for follower in "BC":
                w.flow("A", follower)
                w.work(follower)
                w.flow(follower, "A")
        assert len(w["A"].env.disk_jobs) <= 2
        assert len(w.ledger.acked) == 50, "two of three have it on disk"
        w.isolate("C")
        w.propose("A", "y0")
        w.flow("A", "B")
        w.work("B")
        w.flow("B", "A")
        assert b"y0" not in w.ledger.acked
        w.work("A")
        assert b"y0" in w.ledger.acked
    finally:
        World.durability = before


def test_a_follower_acknowledges_only_what_is_on_its_disk__I9() -> None:
    World.durability, before = "fsync", World.durability
    try:
        w = World("ABC")
        for name in "ABC":
            w.work(name)
        w.elect("A", "BC")
        w.work("B")
        w.flow("B", "A")
        w.propose("A", "x0")
        w.flow("A", "B")
        assert not w.pending("B", "A")
        w.tick("A")
        w.flow("A", "B")
        (answer,) = w.pending("B", "A")
        assert answer[3] == w["B"].last - 1, "a sign of life is answered, for what is durable"
        w.work("B")
        assert w.pending("B", "A")[-1][3] == w["B"].last
    finally:
        World.durability = before


# Handing over.


def test_leadership_is_handed_to_the_named_member() -> None:
    w = World("ABC")
    w.form("A")
    w.propose("A", "x0")
    assert w["A"].raft.transfer("C")
    assert w["A"].raft.propose(b"x1") is None, "nothing is proposed meanwhile"
    assert not w["A"].raft.transfer("B"), "one at a time"
    for _ in range(4):
        for one, other in ("AC", "CA", "AB", "BA", "CB", "BC"):
            w.flow(one, other)
    assert w["C"].raft.is_leader
    assert not w["A"].raft.is_leader
    w.propose("C", "x2")
    w.beat("C", "AB")
    assert commands(w["B"].machine) == ["x0", "x2"]
    assert not w.ledger.violations


def test_a_handover_that_fails_ends_and_leaves_no_trust_in_silence() -> None:
    w = World("ABC")
    w.form("A")
    w.beat("A", "BC")
    assert w["A"].raft.has_fresh_majority()
    assert not w["A"].raft.transfer("D")
    assert not w["B"].raft.transfer(None)
    assert w["A"].raft.transfer("C")
    w.lose("A", "C")
    for _ in range(12):
        w.tick("A")
        w.flow("A", "B")
        w.flow("B", "A")
    assert w["A"].raft.is_leader
    w.propose("A", "x0")
    w.beat("A", "BC")
    assert b"x0" in w.ledger.acked
    assert not w["A"].raft.has_fresh_majority(), "the target may still stand, and would be voted for at any time"


def test_status_tells_members_and_lag() -> None:
    w = World("ABC")
    w.form("A")
    w.beat("A", "BC")
    w.isolate("C")
    w.propose("A", "x0")
    w.beat("A", "B")
    status = w["A"].raft.status()
    assert (status["role"], status["leader"], status["has_quorum"]) == ("leader", "A", True)
    assert [(m["node_id"], m["lag"], m["connected"]) for m in status["members"]] == [
        ("A", 0, True),
        ("B", 0, True),
        ("C", 1, False),
    ]
    assert w["B"].raft.status()["members"][0]["lag"] is None
    assert w["B"].raft.status()["commit_index"] == status["commit_index"]


def test_a_long_log_is_applied_in_slices_and_the_leader_is_heard_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "APPLY_SLICE_BYTES", 100)
    w = World("ABC")
    w.form("A")
    w.isolate("B")
    for _ in range(10):
        w["A"].raft.propose(bytes(50))
    adapter, last = w["A"].adapter, w["A"].last
    w.flow("A", "C")
    w["A"].net.on_frame("C", messages.encode(*w.pending("C", "A")[-1]))
    assert adapter._SyncObj__raftCommitIndex == last
    assert adapter._SyncObj__raftLastApplied < last, "the loop has its turn first"
    for _ in range(6):
        for _ in range(len(w["A"].env.soon)):
            fn, args = w["A"].env.soon.popleft()
            fn(*args)
    assert adapter._SyncObj__raftLastApplied == last
    assert len(w["A"].machine.commands) == 10


def test_trust_lasts_no_longer_than_the_shortest_timeout_of_any_member() -> None:
    w = World("ABC")
    w["C"].adapter._config = replace(w["C"].adapter._config, election_min_s=0.25)
    w.link("A", "C")
    w.form("A")
    w.propose("A", "x0")
    sent = w.now
    for name in "BC":
        w.flow("A", name)
        w.flow(name, "A")
    w.now = sent + 0.25 * (1 - CLOCK_DRIFT) - 0.001
    assert w["A"].raft.has_fresh_majority()
    w.now = sent + 0.25
    assert not w["A"].raft.has_fresh_majority()
