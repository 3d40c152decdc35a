"""What a client asks for again and again while the log stands still, or all at once, is bounded in bytes and in time.

Knows: a node of one process, client frames. Must not know: how the server is made.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from cluster.local import LocalNode
from cluster.opcodes import Op, Status
from cluster.server.waiters import Waiter
from tests.server.test_asking_again import hold_back, on_a_node, turns
from tests.server.test_hostile_requests import Talker, acquire

pytestmark = pytest.mark.fast


async def until(done: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come about")


def test_states_of_a_name_with_many_holders_are_read_one_a_turn__G5() -> None:
    async def story(node: LocalNode) -> None:
        greedy, other = [await Talker().open(node, who * 16) for who in (b"G", b"O")]
        greedy.send(*[acquire(b"h%015d" % number, max_leaders=300, metadata=bytes(4000)) for number in range(300)])
        await turns()
        numbers = greedy.send(*[[int(Op.STATE), b"job", True]] * 100)
        assert (await other.ask(acquire(b"o" * 16, name=b"other")))[0] == Status.OK
        assert sum(number in greedy.answers for number in numbers) < 20, "served before all the states"
        await until(lambda: bool(greedy.ended) or all(number in greedy.answers for number in numbers))
        assert not greedy.ended, "so many in one turn that they filled its output"
        assert {len(greedy.answers[number][2]) for number in numbers} == {300}

    on_a_node(story)


def test_all_clients_together_have_one_slice_of_a_turn_and_are_served_round_robin__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    # One request a turn, however fast the machine is.
    monkeypatch.setattr("cluster.server.turns.SLICE_S", 0.0)

    async def story(node: LocalNode) -> None:
        asked = 0
        status = node.server.status

        def counted() -> dict[str, Any]:
            nonlocal asked
            asked += 1
            return status()

        monkeypatch.setattr(node.server, "status", counted)
        crowd = [await Talker().open(node, b"c%015d" % number) for number in range(30)]
        for talker in crowd:
            talker.send(*[[int(Op.STATUS)]] * 3)
        while asked < 90:
            before = asked
            await asyncio.sleep(0)
            assert asked - before <= 2
            told = [len(talker.answers) for talker in crowd]
            assert max(told) - min(told) <= 2, "nobody waits while another is served again and again"
        await until(lambda: all(len(talker.answers) == 3 for talker in crowd))

    on_a_node(story)


@pytest.mark.parametrize("ask", ["wait", "state"])
def test_what_waits_for_the_log_is_bounded__G5(monkeypatch: pytest.MonkeyPatch, ask: str) -> None:
    monkeypatch.setattr("cluster.server.batcher.REQUESTS_QUEUED_MAX", 50)

    async def story(node: LocalNode) -> None:
        greedy = await Talker().open(node, b"G" * 16)
        assert (await greedy.ask(acquire(b"g" * 16)))[0] == Status.OK
        go_on = hold_back(node, monkeypatch)
        operation = [int(Op.STATE), b"job", True] if ask == "state" else [int(Op.WAIT), 1000, acquire(b"g" * 16)]
        numbers = greedy.send(*[operation] * 300)
        await until(lambda: any(number in greedy.answers for number in numbers))
        refused = [greedy.answers[number] for number in numbers if number in greedy.answers]
        assert refused == [[int(Status.OVERLOADED), "REQUESTS_QUEUED_MAX"]] * len(refused)
        while not all(number in greedy.answers for number in numbers):
            assert node.server.batcher.intake.queued <= 100
            go_on()
            await turns()
        assert {greedy.answers[number][0] for number in numbers} == {Status.OK, Status.OVERLOADED}

    on_a_node(story)


def test_who_will_be_refused_is_bounded_in_bytes__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.server.waiting.REFUSALS_QUEUED_MAX_BYTES", 100_000)

    async def story(node: LocalNode) -> None:
        holder, crowd = await Talker().open(node, b"h" * 16), await Talker().open(node, b"c" * 16)
        assert (await holder.ask(acquire(b"h" * 16)))[0] == Status.OK
        holder.send([int(Op.WAIT), 60_000, acquire(b"w" * 16)])
        await turns()
        go_on = hold_back(node, monkeypatch)
        holder.send(acquire(b"o" * 16, name=b"other"))
        numbers = crowd.send(*[acquire(b"c%015d" % number, metadata=bytes(4000)) for number in range(30)])
        await until(lambda: numbers[-1] in crowd.answers)
        go_on()
        await until(lambda: all(number in crowd.answers for number in numbers))
        refused = [crowd.answers[number] for number in numbers if crowd.answers[number][0] != Status.HELD]
        assert refused == [[int(Status.OVERLOADED), "REFUSALS_QUEUED_MAX_BYTES"]] * len(refused)
        assert 0 < len(refused) < 30
        assert node.server.control._waiting._undecided_bytes == 0

    on_a_node(story)


def test_refusals_that_come_due_together_are_worked_off_in_slices__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    # One in a turn, however fast the machine is.
    monkeypatch.setattr("cluster.server.batcher.SLICE_S", 0.0)

    async def story(node: LocalNode) -> None:
        holder, crowd = await Talker().open(node, b"h" * 16), await Talker().open(node, b"c" * 16)
        assert (await holder.ask(acquire(b"h" * 16)))[0] == Status.OK
        holder.send([int(Op.WAIT), 60_000, acquire(b"w" * 16)])
        await turns()
        go_on = hold_back(node, monkeypatch)
        holder.send(acquire(b"o" * 16, name=b"other"))
        numbers = crowd.send(*[acquire(b"c%015d" % number) for number in range(100)])
        await until(lambda: len(node.server.batcher._afterwards) == 100)
        await turns()
        told = [0]
        go_on()
        for _ in range(1000):
            await asyncio.sleep(0)
            told.append(sum(number in crowd.answers for number in numbers))
        assert max(now - before for before, now in itertools.pairwise(told)) <= 2
        assert told[-1] == 100
        assert {crowd.answers[number][0] for number in numbers} == {Status.HELD}

    on_a_node(story)


def test_who_was_to_be_refused_is_told_when_the_reign_ends__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.server.batcher.SLICE_S", 0.0)

    async def story(node: LocalNode) -> None:
        holder, crowd = await Talker().open(node, b"h" * 16), await Talker().open(node, b"c" * 16)
        assert (await holder.ask(acquire(b"h" * 16)))[0] == Status.OK
        holder.send([int(Op.WAIT), 60_000, acquire(b"w" * 16)])
        await turns()
        go_on = hold_back(node, monkeypatch)
        holder.send(acquire(b"o" * 16, name=b"other"))
        numbers = crowd.send(*[acquire(b"c%015d" % number) for number in range(50)])
        await until(lambda: len(node.server.batcher._afterwards) == 50)
        await turns()
        go_on()
        node.server.role_changed(False, 9, None)
        await until(lambda: all(number in crowd.answers for number in numbers))
        assert {crowd.answers[number][0] for number in numbers} == {Status.HELD, Status.NOT_LEADER}

    on_a_node(story)


def test_what_sets_of_names_make_all_nodes_look_at_is_bounded__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty-four full groups take two milliseconds to refuse, and three thousand such requests fit in a batch."""
    monkeypatch.setattr("cluster.server.control.SET_LOOKS_QUEUED_MAX", 100)

    async def story(node: LocalNode) -> None:
        greedy = await Talker().open(node, b"G" * 16)
        for number in range(40):
            assert (await greedy.ask(acquire(b"h%015d" % number, max_leaders=40)))[0] == Status.OK
        go_on = hold_back(node, monkeypatch)
        many = [[int(Op.ACQUIRE_ALL), b"s%015d" % number, [b"job", b"x"], 60_000, 40, 0, 0, b"t", b""] for number in range(5)]
        numbers = greedy.send(*many)
        await until(lambda: numbers[-1] in greedy.answers)
        assert [number in greedy.answers for number in numbers] == [False, False, True, True, True]
        assert greedy.answers[numbers[-1]] == [int(Status.OVERLOADED), "SET_LOOKS_QUEUED_MAX"]
        go_on()
        await until(lambda: all(number in greedy.answers for number in numbers))
        assert [greedy.answers[number][0] for number in numbers[:2]] == [Status.HELD] * 2
        asked = greedy.send(many[0])[0]
        await turns()
        assert asked not in greedy.answers, "there is room again"
        go_on()
        await until(lambda: asked in greedy.answers)

    on_a_node(story)


def test_views_of_candidates_that_waited_for_the_log_are_told_in_slices__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    # One in a turn, however fast the machine is.
    monkeypatch.setattr("cluster.server.batcher.SLICE_S", 0.0)

    async def story(node: LocalNode) -> None:
        greedy = await Talker().open(node, b"G" * 16)
        await turns()
        monkeypatch.setattr(node.log, "has_fresh_majority", lambda: False)
        go_on = hold_back(node, monkeypatch)
        numbers = greedy.send(*[[int(Op.CANDIDATES), b"job"]] * 50)
        await until(lambda: node.server.batcher.intake.queued + len(node.server.batcher._tickets) >= 50)
        await turns()
        told = [0]
        for _ in range(1000):
            go_on()
            await asyncio.sleep(0)
            told.append(sum(number in greedy.answers for number in numbers))
        assert told[-1] == 50
        assert max(now - before for before, now in itertools.pairwise(told)) <= 2

    on_a_node(story)


def test_who_waits_is_not_looked_at_for_what_frees_nothing__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set that waits for many names would be asked about all of them for each name that is extended."""

    async def story(node: LocalNode) -> None:
        holder, other = await Talker().open(node, b"h" * 16), await Talker().open(node, b"o" * 16)
        names = [b"n%d" % number for number in range(5)]
        tokens = [(await holder.ask(acquire(b"h%015d" % at, name=name)))[1] for at, name in enumerate(names)]
        waiting = other.send([int(Op.WAIT), 60_000, [int(Op.ACQUIRE_ALL), b"w" * 16, names, 60_000, 1, 0, 0, b"t", b""]])
        await turns()
        looked: list[bytes] = []
        desk = node.server.control._waiting
        stock = desk.free_in_s

        def asked(waiter: Waiter, name: bytes) -> float:
            looked.append(name)
            return stock(waiter, name)

        monkeypatch.setattr(desk, "free_in_s", asked)
        for at, name in enumerate(names):
            assert (await holder.ask([int(Op.EXTEND), b"h%015d" % at, name, tokens[at], 120_000]))[0] == Status.OK
        await turns()
        assert not looked
        for at, name in enumerate(names):
            assert (await holder.ask([int(Op.RELEASE), b"h%015d" % at, name, tokens[at], 0]))[0] == Status.OK
        await until(lambda: waiting[0] in other.answers)
        assert other.answers[waiting[0]][0] == Status.OK

    on_a_node(story)


def test_a_group_that_is_revoked_is_told_to_each_client_at_once__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: LocalNode) -> None:
        greedy = await Talker().open(node, b"G" * 16)
        for number in range(20):
            assert (await greedy.ask(acquire(b"h%015d" % number, max_leaders=20)))[0] == Status.OK
        broadcast: list[bytes] = []
        stock = node.server.sessions.broadcast

        def told(data: bytes) -> None:
            broadcast.append(data)
            stock(data)

        monkeypatch.setattr(node.server.sessions, "broadcast", told)
        greedy.connection.hello = dataclasses.replace(greedy.connection.hello, role="admin")
        for session in node.server.sessions._by_number.values():
            session.connection.hello = dataclasses.replace(session.connection.hello, role="admin")
        assert (await greedy.ask([int(Op.REVOKE), b"job", None, False]))[0] == Status.OK
        await turns()
        assert len(broadcast) == 1
        assert broadcast[0].count(b"job") == 20

    on_a_node(story)
