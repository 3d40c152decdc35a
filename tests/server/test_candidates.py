"""Candidates at the node: what is read without the log, who may not be overtaken by a claim, what is no request.

Knows: a node of one process, client frames. Must not know: how the server is made.
"""

from __future__ import annotations

from typing import Any

import pytest

from cluster.limits import CANDIDATE_INFO_MAX_BYTES, CANDIDATE_REPLIES_UNSENT_MAX_BYTES
from cluster.local import LocalNode
from cluster.opcodes import Op, Status
from tests.server.test_asking_again import on_a_node, turns
from tests.server.test_hostile_requests import U64_MAX, Talker, acquire
from tests.server.test_records import SlowLog, committed

pytestmark = pytest.mark.fast

LOOK = [int(Op.CANDIDATES), b"job"]


def register(node_id: bytes = b"test:1", info: bytes = b"info") -> list[Any]:
    return [int(Op.CANDIDATE_REGISTER), b"job", node_id, 600_000, info]


def elect(acq_id: bytes, revision: int, count: int, node_id: bytes = b"test:1") -> list[Any]:
    return [int(Op.ELECT), acq_id, b"job", 60_000, 1, 0, 0, node_id, b"", revision, count, 0, 0]


def test_a_view_says_who_stands_and_whether_the_name_is_free() -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"T" * 16)
        before = await talker.ask(LOOK)
        assert (before[2:6], before[7]) == ([0, 0, 0, 0], [])
        revision = (await talker.ask(register()))[1]
        token = (await talker.ask(elect(b"t" * 16, revision, 1)))[1]
        _, now, newest, last_token, free_in, _, event, (row,) = await talker.ask(LOOK)
        assert (newest, last_token, 59_000 < free_in <= 60_000) == (token, token, True)
        assert event == before[6] + 1, "the grant"
        assert (row[:2], row[4:], 0 <= row[2] <= row[3] <= now) == ([b"test:1", b"info"], [None, 0, 0], True)

    on_a_node(story)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_view_goes_through_the_log_unless_a_majority_has_just_answered__E2_E16(fresh: bool) -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"T" * 16)
        await talker.ask(register())
        node.log.has_fresh_majority = lambda: fresh  # type: ignore[method-assign]
        before = committed(node)
        assert len((await talker.ask(LOOK))[7]) == 1
        assert committed(node) - before == (0 if fresh else 1)

    on_a_node(story)


def test_a_claim_does_not_overtake_who_waits__A1() -> None:
    async def story(node: LocalNode) -> None:
        holder, waiter, candidate = [await Talker().open(node, who * 16) for who in (b"H", b"W", b"C")]
        revision = (await candidate.ask(register()))[1]
        held = await holder.ask(acquire(b"h" * 16))
        (waiting,) = waiter.send([int(Op.WAIT), 60_000, acquire(b"w" * 16)])
        await turns()
        slow = SlowLog(node)
        node.log.propose = slow.propose  # type: ignore[method-assign]
        holder.send([int(Op.RELEASE), b"h" * 16, b"job", held[1], 1])
        await slow.apply_next()
        (claim,) = candidate.send(elect(b"c" * 16, revision, 1))
        await turns()
        assert claim not in candidate.answers, "an older copy of it might be under way"
        await slow.apply_next()
        assert waiter.answers[waiting][0] == Status.OK
        assert candidate.answers[claim][0] == Status.HELD

    on_a_node(story)


def test_many_big_views_at_once_are_put_off_and_the_connection_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    # All in one turn, however slow the machine is.
    monkeypatch.setattr("cluster.server.batcher.SLICE_S", 60.0)

    async def story(node: LocalNode) -> None:
        reader = await Talker().open(node, b"R" * 16)
        for number in range(64):
            await reader.ask(register(b"node-%d" % number, b"i" * CANDIDATE_INFO_MAX_BYTES))
        slow = SlowLog(node)
        node.log.propose = slow.propose  # type: ignore[method-assign]
        node.log.has_fresh_majority = lambda: False  # type: ignore[method-assign]
        looks = reader.send(*[LOOK] * 60)
        for _ in range(20):
            await turns()
        for _ in range(2):
            await slow.apply_next()
        assert not reader.ended
        good = sum(reader.answers[number][0] == Status.OK for number in looks)
        refusal = [Status.OVERLOADED, "CANDIDATE_REPLIES_UNSENT_MAX_BYTES"]
        assert good + sum(reader.answers[number] == refusal for number in looks) == 60
        assert CANDIDATE_REPLIES_UNSENT_MAX_BYTES // (70 * CANDIDATE_INFO_MAX_BYTES) <= good < 60
        (again,) = reader.send(LOOK)
        await slow.apply_next()
        assert reader.answers[again][0] == Status.OK

    on_a_node(story)


@pytest.mark.parametrize(
    "operation",
    [
        [int(Op.CANDIDATES), b"-"],
        [int(Op.CANDIDATES)],
        [int(Op.CANDIDATE_REGISTER), b"job", b"n" * 256, 1_000, b""],
        [int(Op.CANDIDATE_REGISTER), b"job", b"n", 1_000, b"i" * (CANDIDATE_INFO_MAX_BYTES + 1)],
        [int(Op.CANDIDATE_REFRESH), b"job", b"n", -1],
        [int(Op.CANDIDATE_UNREGISTER), b"job", "n"],
        elect(b"short", 1, 1),
        elect(b"c" * 16, -1, 1),
        [int(Op.WAIT), 1_000, elect(b"c" * 16, 1, 1)],
    ],
)
def test_what_is_no_request_about_candidates_is_refused__G5(operation: list[Any]) -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"T" * 16)
        assert (await talker.ask(operation))[0] == Status.BAD_REQUEST

    on_a_node(story)


def test_endless_numbers_of_a_claim_harm_nobody__I7() -> None:
    async def story(node: LocalNode) -> None:
        talker = await Talker().open(node, b"T" * 16)
        revision = (await talker.ask(register()))[1]
        assert await talker.ask(elect(b"c" * 16, U64_MAX, U64_MAX)) == [Status.VERSION_DIFFERS, revision]
        claim = elect(b"c" * 16, revision, 1)
        assert await talker.ask([*claim[:11], U64_MAX, U64_MAX]) == [Status.INVALID, 11]
        assert (await talker.ask(claim))[0] == Status.OK

    on_a_node(story)
