"""Partitions between real nodes: an isolated leader, a node that returns, a node that is deaf.

Knows: links, the public interface. Must not know: the product's inside.

The election timeout is raised, so that what a busy machine adds is small against it: nothing here may come from a node that was late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tenure
from cluster.env import boot_clock
from cluster.opcodes import Op, Status
from tests.faults.support_asking import REFUSALS, Asking, acquire, wait_for
from tests.faults.support_group import LinkedGroup, follows, leads, said, wait
from tests.support import eventually
from tests.support_cluster import NodeProcess

ELECTION_S = 1.2
# A node draws its timeout up to twice the shortest one.
LONGEST_S = 2 * ELECTION_S
# The machine may be busy. The exact bound is shown in virtual time.
SLACK_S = 3.0
TRIES = 3
QUESTIONS = (
    acquire("remembered", b"q"),
    wait_for(10, acquire("remembered", b"r")),
    [int(Op.RECORD_GET), b"remembered"],
    [int(Op.CANDIDATES), b"remembered"],
    [int(Op.STATE), b"remembered", True],
)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedGroup]:
    options = ("--durability", "process", "--election-timeout", str(ELECTION_S))
    with LinkedGroup(tmp_path_factory.mktemp("partition"), options=options) as made:
        yield made


@pytest.fixture
def group(started: LinkedGroup) -> LinkedGroup:
    started.links.heal()
    eventually(lambda: all(follows(node) for node in started.nodes), 30.0, "all nodes hear a leader")
    return started


def test_an_isolated_leader_steps_down_and_answers_nothing__E2_E3_I1(group: LinkedGroup) -> None:
    old = group.leader()
    with tenure.connect(old.address, timeout=0.5) as near_old:
        lease = near_old.acquire("job", lease_time=60.0)
        assert lease is not None
        isolated_at = boot_clock()
        group.links.isolate(old.address)
        # Within an election timeout nobody else can lead: until then it may answer. From then on it must not, leader or not.
        wait(ELECTION_S)
        with pytest.raises(tenure.CoordinationError):
            near_old.state("job", consistent=True)
        eventually(lambda: not leads(old), LONGEST_S + SLACK_S + 5.0, "the isolated leader steps down")
        took_s = boot_clock() - isolated_at
        assert took_s < LONGEST_S + SLACK_S, f"it took {took_s:.2f} s to step down"
        with pytest.raises((tenure.Unavailable, tenure.Indeterminate)):
            near_old.acquire("job")
        with pytest.raises((tenure.Unavailable, tenure.Indeterminate)):
            near_old.acquire("other")

        others = ",".join(node.address for node in group.other_than(old))
        new: list[NodeProcess] = []

        def led_by_another() -> bool:
            new[:] = [node for node in group.other_than(old) if leads(node)]
            return bool(new)

        eventually(led_by_another, 4 * LONGEST_S, "another leads")
        with tenure.connect(others) as elsewhere:
            # The lease outlives the change of the raft leader, its holder still has it, and only it.
            assert elsewhere.acquire("job") is None
            assert elsewhere.state("job", consistent=True).leader is not None
            assert lease.confidence == "held"
            other = elsewhere.acquire("other", lease_time=60.0)
            assert other is not None
            before = said(new[0])
            group.links.heal()
            eventually(lambda: follows(old), 20.0, "the old one is back")
            wait(LONGEST_S)
            after = said(new[0])
            assert (after.role, after.term) == ("leader", before.term), "who returns topples nobody"
            assert [said(node).term for node in group.nodes] == 3 * [before.term]
            assert other.release()
        assert lease.release()


def test_an_isolated_leader_answers_nothing_from_memory_while_it_still_leads__E2(group: LinkedGroup) -> None:
    """From one election timeout after the cut on no answer of a majority is fresh, and until it steps down it believes that it leads."""
    for _ in range(TRIES):
        answers = _answers_without_a_majority(group)
        if answers:
            break
        # It had stepped down before this process came to ask it.
        group.links.heal()
        eventually(lambda: all(follows(node) for node in group.nodes), 30.0, "all nodes hear a leader")
    assert answers
    assert {answer[0] for answer in answers} <= REFUSALS, answers


def _answers_without_a_majority(group: LinkedGroup) -> list[list[Any]]:
    """What an isolated raft leader answers to what it reads an election timeout after the cut and later, and before it steps down."""
    old = group.leader()
    with Asking(old, 1) as holder, Asking(old, 2) as waiter, Asking(old, 3) as asking:
        assert holder.ask(acquire("remembered", b"h"))[0][0] == Status.OK
        waits = waiter.send(wait_for(60_000, acquire("remembered", b"w")))
        eventually(lambda: _status(waiter)["waiters"] == 1, 20.0, "somebody stands in line")
        answered = [answer[0] for answer in asking.ask(*QUESTIONS)]
        assert answered == [Status.HELD, Status.HELD, Status.OK, Status.OK, Status.OK]
        group.links.isolate(old.address)
        wait(ELECTION_S)
        asked: list[int] = []
        while True:
            numbers = asking.send(*QUESTIONS)
            # A node reads in order what one connection brings: it led when it read the questions.
            if _status(asking)["role"] != "leader":
                break
            asked += numbers
            _status(waiter)
            wait(0.1)
        return [asking.answer(number) for number in asked] + [waiter.answer(number) for number in waits if asked]


def _status(asking: Asking) -> dict[str, Any]:
    found: dict[str, Any] = asking.ask([int(Op.STATUS)])[0][1]
    return found


def test_a_node_that_hears_nobody_deposes_nobody__E3(group: LinkedGroup) -> None:
    leader = group.leader()
    before = said(leader)
    deaf = group.other_than(leader)[0]
    for node in group.other_than(deaf):
        group.links.block(node.address, deaf.address)
    wait(1.5 * LONGEST_S)
    group.links.heal()
    eventually(lambda: follows(deaf), 20.0, "the deaf one hears again")
    after = said(leader)
    assert (after.role, after.term) == ("leader", before.term)
