"""Copies of one acquisition that are under way at once, and one that is called off while it is: each is decided, and nobody is left (C5).

Knows: a node of one process whose log is held back, its client frames. Must not know: how the queues are kept.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from cluster.local import LocalNode
from cluster.opcodes import Op, Status
from tests.server.test_asking_again import NAME, Client, acquisition, hold_back, on_a_node, turns

pytestmark = pytest.mark.fast

MINE, OTHERS, BUSY = b"m" * 16, b"o" * 16, b"h" * 16
SECOND = b"job2"


def holders(node: LocalNode, name: bytes = NAME) -> list[bytes]:
    return [row[0] for row in node.server.table.rows(name, node.server.keeper.stamp())]


async def after_wait() -> None:
    """A wait of a millisecond is over."""
    over = time.monotonic() + 0.003
    for _ in range(1_000_000):
        if time.monotonic() >= over:
            break
        await asyncio.sleep(0)
    await turns()


def test_a_copy_whose_wait_is_over_is_refused_in_the_batch_that_brings_the_next__C5(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node must not ask itself for ever what becomes of the next one, whose answer is the next that it hands out."""

    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        other = await Client(node, b"B" * 16).open()
        granted = other.acquire(OTHERS)
        await turns()
        first = await Client(node, b"A" * 16).open()
        first.wait(MINE, 1)
        await turns()
        again = await Client(node, b"A" * 16).open()
        asked = again.wait(MINE, 1)
        await turns()
        await after_wait()
        for _ in range(3):
            commit()
            await turns()
        assert (await other.answer(granted))[0] == Status.OK
        assert (await again.answer(asked))[0] == Status.HELD
        assert node.server.control.waiter_count == 0

    on_a_node(story)


def test_two_clients_that_give_one_id_to_two_acquisitions_stop_nobody__G5(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        asked = []
        for client_id, name in ((b"A" * 16, b"na"), (b"B" * 16, b"nb")):
            client = await Client(node, client_id).open()
            client.ask(acquisition(client_id, name))
            asked.append((client, client.ask([int(Op.WAIT), 0, acquisition(MINE, name)])))
        await turns()
        for _ in range(3):
            commit()
            await turns()
        for client, rid in asked:
            assert (await client.answer(rid))[0] == Status.HELD

    on_a_node(story)


def test_a_waiter_that_is_called_off_while_it_is_proposed_stands_in_no_line_when_it_is_refused__A1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would be granted the name when its turn came, and nobody would know of it."""

    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        other = await Client(node, b"B" * 16).open()
        other.acquire(OTHERS)
        await turns()
        first = await Client(node, b"A" * 16).open()
        waiting = first.wait(MINE)
        await turns()
        first.ask([int(Op.CANCEL), MINE])
        await turns()
        assert waiting not in first.replies, "whether it was granted is for the log to say"
        for _ in range(2):
            commit()
            await turns()
        assert (await first.answer(waiting))[0] == Status.CANCELLED
        assert node.server.control.waiter_count == 0

    on_a_node(story)


def test_a_waiter_that_is_called_off_while_it_is_granted_is_told_of_its_grant__C10(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        first = await Client(node, b"A" * 16).open()
        waiting = first.wait(MINE)
        await turns()
        first.ask([int(Op.CANCEL), MINE])
        await turns()
        commit()
        assert (await first.answer(waiting))[0] == Status.OK

    on_a_node(story)


def test_a_waiter_that_is_called_off_while_nothing_is_granted_yet_stands_in_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a restore every acquisition is refused for a while, with the time that is left."""

    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        first = await Client(node, b"A" * 16).open()
        waiting = first.wait(MINE)
        await turns()
        first.ask([int(Op.CANCEL), MINE])
        await turns()
        not_yet = [int(Status.NOT_YET), 1000]
        monkeypatch.setattr("cluster.server.waiting.unpack", lambda answer: not_yet)
        commit()
        assert (await first.answer(waiting))[0] == Status.CANCELLED
        assert node.server.control.waiter_count == 0

    on_a_node(story)


def _all(acq_id: bytes) -> list[Any]:
    return [int(Op.ACQUIRE_ALL), acq_id, [NAME, SECOND], 60_000, 1, 0, 0, b"test:1", b""]


@pytest.mark.parametrize("elects", [True, False])
def test_nobody_is_refused_from_memory_while_an_older_copy_that_never_waited_has_yet_to_travel__C5(
    monkeypatch: pytest.MonkeyPatch, elects: bool
) -> None:
    """Sets of names and claims go the slow path, and stay in the next batch although their connection is gone."""

    async def story(node: LocalNode) -> None:
        first = await Client(node, b"A" * 16).open()
        operation = _all(MINE)
        if elects:
            registered = first.ask([int(Op.CANDIDATE_REGISTER), NAME, b"test:1", 60_000, b""])
            revision = (await first.answer(registered))[1]
            operation = [int(Op.ELECT), MINE, NAME, 60_000, 1, 0, 0, b"test:1", b"", revision, 1, 0, 1000]
        commit = hold_back(node, monkeypatch)
        busy = await Client(node, b"H" * 16).open()
        busy.ask(acquisition(BUSY, b"another"))
        await turns()
        first.ask(operation)
        await turns()
        again = await Client(node, b"A" * 16).open()
        other = await Client(node, b"B" * 16).open()
        waiting = other.wait(OTHERS)
        await turns()
        asked = again.ask(operation)
        await turns()
        for _ in range(4):
            commit()
            await turns()
        assert (await again.answer(asked))[0] == Status.OK
        assert len(holders(node)) == 1
        assert waiting not in other.replies

    on_a_node(story)


def test_who_is_to_be_looked_at_again_when_the_reign_ends_is_told_so_and_asks_nothing_more__C5(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its acquisition would stay queued for this node's next reign, and it would never be told."""
    # One in a turn, however fast the machine is.
    monkeypatch.setattr("cluster.server.batcher.SLICE_S", 0.0)

    async def story(node: LocalNode) -> None:
        commit = hold_back(node, monkeypatch)
        first = await Client(node, b"A" * 16).open()
        first.acquire(MINE)
        await turns()
        first.close()
        await turns()
        waiting = []
        for number in range(3):
            other = await Client(node, b"o%015d" % number).open()
            waiting.append((other, other.wait(b"w%015d" % number)))
        await turns()
        again = await Client(node, b"A" * 16).open()
        waiting.append((again, again.wait(MINE)))
        await turns()
        commit()
        node.server.role_changed(False, 9, None)
        for client, rid in waiting[1:]:
            assert (await client.answer(rid))[0] == Status.NOT_LEADER
        assert node.server.batcher.intake.queued == 0

    on_a_node(story)


@pytest.mark.parametrize("waits", [True, False])
def test_a_request_of_another_reign_is_refused_with_the_epoch_that_serves__I3(waits: bool) -> None:
    """What it was asked in may have been settled elsewhere since, and its client have given it up."""

    async def story(node: LocalNode) -> None:
        client = await Client(node, b"A" * 16).open()
        serving = node.server.batcher.intake.epoch
        client._epoch = serving - 1
        rid = client.wait(MINE) if waits else client.acquire(MINE)
        assert await client.answer(rid) == [int(Status.STALE_EPOCH), serving]
        assert not holders(node)

    on_a_node(story)


def test_who_is_to_be_told_after_a_batch_is_told_when_all_of_that_batch_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: LocalNode) -> None:
        first = await Client(node, b"A" * 16).open()
        batcher = node.server.batcher
        seals: list[Any] = []
        monkeypatch.setattr(batcher, "_seal", lambda: seals.append(None))
        first.acquire(MINE)
        await turns()
        assert batcher.intake.queued == 1
        told: list[bool] = []
        assert batcher.after_flight(lambda: told.append(True))
        first.close()
        await turns()
        assert (batcher.intake.queued, told, seals) == (0, [], [None])
        type(batcher)._seal(batcher)
        assert told == [True]

    on_a_node(story)
