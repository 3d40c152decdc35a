"""Operations on the raft group as the server takes them, and what a client makes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

import tenure
from cluster.client.answers import refusal
from cluster.codec import unpack
from cluster.errors import CoordinationError, Unavailable, UsageError
from cluster.limits import NODE_ID_MAX_BYTES
from cluster.local import LocalNode
from cluster.opcodes import Op, Status
from cluster.ports import ChangeOutcome, Replicator
from cluster.server.group import operate
from cluster.server.shapes import fault
from tests.server.test_asking_again import on_a_node
from tests.server.test_hostile_requests import Talker

pytestmark = pytest.mark.fast

ID = b"i" * 16


class Log:
    """Notes what it is asked, and gives the outcome that it is told."""

    def __init__(self, outcome: ChangeOutcome | None = None) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._outcome = outcome or ChangeOutcome("done")

    def change_members(self, add: bool, node_id: str, request: bytes, settled: Callable[[ChangeOutcome], None]) -> None:
        self.asked.append((add, node_id, request))
        settled(self._outcome)

    def hand_over(self, to: str | None, settled: Callable[[ChangeOutcome], None]) -> None:
        self.asked.append((to,))
        settled(self._outcome)


def answers_of(log: Log, *operation: Any, role: str = "admin") -> list[Any]:
    got: list[bytes] = []
    first = operate(cast(Replicator, log), role, "someone", list(operation), got.append)
    (answer,) = got if first is None else [first]
    found: list[Any] = unpack(answer)
    return found


def test_each_operation_reaches_the_log_with_the_address_in_its_one_form() -> None:
    log = Log()
    assert answers_of(log, Op.MEMBER_ADD, " h:1", ID) == [Status.OK]
    assert answers_of(log, Op.MEMBER_REMOVE, "[::1]:7", ID) == [Status.OK]
    assert answers_of(log, Op.TRANSFER, "h:2") == [Status.OK]
    assert answers_of(log, Op.TRANSFER, "") == [Status.OK]
    assert log.asked == [(True, "h:1", ID), (False, "[::1]:7", ID), ("h:2",), (None,)]


@pytest.mark.parametrize("role", ["client", "peer"])
def test_only_operators_change_the_group__G6(role: str) -> None:
    log = Log()
    for operation in ((Op.MEMBER_ADD, "h:1", ID), (Op.MEMBER_REMOVE, "h:1", ID), (Op.TRANSFER, "")):
        status, text = answers_of(log, *operation, role=role)
        assert status == Status.BAD_REQUEST
        assert "admin role" in text
    assert not log.asked


def test_what_is_no_address_is_refused_before_the_log() -> None:
    log = Log()
    for name in ("", "h", "h:x", "h:99999"):
        assert answers_of(log, Op.MEMBER_ADD, name, ID)[0] == Status.REFUSED
    assert not log.asked


def test_outcomes_become_answers_and_errors() -> None:
    cases: list[tuple[bool, type[CoordinationError]]] = [(True, Unavailable), (False, UsageError)]
    for again, kind in cases:
        answer = answers_of(Log(ChangeOutcome("refused", "it cannot be", "do this", again)), Op.MEMBER_ADD, "h:1", ID)
        assert answer == [Status.REFUSED, "it cannot be", "do this", again]
        error = refusal(answer, "members add h:1")
        assert type(error) is kind
        assert str(error) == "members add h:1: it cannot be. do this"
        assert error.applied == "no"
    assert answers_of(Log(ChangeOutcome("unsure")), Op.MEMBER_ADD, "h:1", ID) == [Status.UNSURE]


@pytest.mark.parametrize(
    ("operation", "fine"),
    [
        ([Op.MEMBER_ADD, "h:1", ID], True),
        ([Op.MEMBER_ADD, "h" * NODE_ID_MAX_BYTES, ID], True),
        ([Op.MEMBER_ADD, "h" * (NODE_ID_MAX_BYTES + 1), ID], False),
        ([Op.MEMBER_ADD, b"h:1", ID], False),
        ([Op.MEMBER_ADD, "h:1", b"short"], False),
        ([Op.MEMBER_REMOVE, "h:1"], False),
        ([Op.MEMBERS], True),
        ([Op.MEMBERS, ""], False),
        ([Op.TRANSFER, ""], True),
        ([Op.TRANSFER, None], False),
    ],
)
def test_shapes(operation: list[Any], fine: bool) -> None:
    assert (fault(operation) == "") is fine


def test_the_members_are_told_by_the_raft_leader_only() -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"O" * 16)
        (status, found) = await talker.ask([int(Op.MEMBERS)])
        assert (status, [member["role"] for member in found["members"]]) == (Status.OK, ["leader"])
        node.server.role_changed(False, 2, "elsewhere:1")
        # Who led a moment ago would show a group without a leader.
        assert (await talker.ask([int(Op.MEMBERS)]))[:1] == [Status.NOT_LEADER]
        assert (await talker.ask([int(Op.STATUS)]))[0] == Status.OK

    on_a_node(story)


def test_one_process_has_no_group_to_change() -> None:
    with tenure.local() as coordinator:
        (me,) = coordinator.members.list()
        assert (me.node_id, me.role, me.voter) == ("local", "leader", True)
        with pytest.raises(tenure.UsageError, match="admin role"):
            coordinator.members.add("h:1")
