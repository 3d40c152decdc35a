"""A node is stopped (SIGSTOP) for longer than an election takes, and goes on: what slept in its sockets, what it believes of itself.

Knows: processes, the public interface, client frames. Must not know: the product's inside.

The election timeout is raised, so that what a busy machine adds is small against it: nothing here may come from a node that was late.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tenure
from cluster.env import boot_clock
from cluster.opcodes import Op, Status
from tests.faults.support_asking import REFUSALS, Asking, acquire, wait_for
from tests.faults.support_group import caught_up, follows, leads, said, wait
from tests.support import eventually
from tests.support_cluster import NodeGroup

ELECTION_S = 1.2
# A node draws its timeout up to twice the shortest one.
LONGEST_S = 2 * ELECTION_S
SETTLED_WITHIN_S = 30.0


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeGroup]:
    options = ("--durability", "process", "--election-timeout", str(ELECTION_S))
    with NodeGroup(tmp_path_factory.mktemp("stopped"), options=options) as made:
        yield made


@pytest.fixture
def group(started: NodeGroup) -> Iterator[NodeGroup]:
    eventually(lambda: all(follows(node) for node in started.nodes), SETTLED_WITHIN_S, "all nodes hear a leader")
    yield started
    for node in started.nodes:
        node.resume()


def _terms(group: NodeGroup) -> dict[str, tuple[str, int]]:
    return {node.address: (said(node).role, said(node).term) for node in group.nodes}


def test_a_request_that_slept_in_a_stopped_leader_grants_nothing__B2_E3_I1_I4(group: NodeGroup) -> None:
    old = group.leader()
    others = [node for node in group.nodes if node is not old]
    with Asking(old, 1) as late, tenure.connect([node.address for node in others], timeout=SETTLED_WITHIN_S) as elsewhere:
        ((status, token, *_),) = late.ask(acquire("late/before", b"b"))
        assert status == Status.OK, "this client and its requests are good"
        old.pause()
        sent = late.send(
            acquire("late/taken", b"t"),
            wait_for(60_000, acquire("late/taken", b"w")),
            acquire("late/free", b"f"),
            [int(Op.RELEASE), b"b" * 16, b"late/before", token, 0],
        )
        eventually(lambda: any(leads(node) for node in others), SETTLED_WITHIN_S, "another leads")
        taken = elsewhere.acquire("late/taken", lease_time=600.0)
        assert taken is not None
        assert taken.token > token
        new = next(node for node in others if leads(node))
        term = said(new).term
        old.resume()
        answers = [late.answer(number) for number in sent]
        assert {answer[0] for answer in answers} <= REFUSALS, answers
        eventually(lambda: follows(old), SETTLED_WITHIN_S, "the old leader follows")
        wait(LONGEST_S)
        assert _terms(group) == {
            node.address: ("leader" if node is new else "follower", term) for node in group.nodes
        }, "who returns topples nobody"
        found = {lease.name: (lease.token, lease.node_id) for lease in elsewhere.leases("late/")}
        assert found == {"late/before": (token, "asking"), "late/taken": (taken.token, taken.node_id)}
        assert taken.confidence == "held"
        assert taken.release()


def test_a_stopped_follower_is_not_missed_and_deposes_nobody__E3(group: NodeGroup) -> None:
    leader = group.leader()
    before = said(leader)
    sleeper = group.followers()[0]
    with tenure.connect(leader.address, timeout=SETTLED_WITHIN_S) as coordinator:
        sleeper.pause()
        until = boot_clock() + 1.1 * LONGEST_S
        while boot_clock() < until:
            lease = coordinator.acquire("job", lease_time=60.0)
            assert lease is not None
            assert lease.release()
        sleeper.resume()
        eventually(lambda: caught_up(group, sleeper), SETTLED_WITHIN_S, "it has what it slept through")
        wait(LONGEST_S)
        assert coordinator.acquire("job") is not None
    assert _terms(group) == {
        node.address: ("leader" if node is leader else "follower", before.term) for node in group.nodes
    }
