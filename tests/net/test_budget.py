"""What all connections of a node may hold together: the heaviest go first, and the light ones are served on (G5)."""

from __future__ import annotations

import logging
import random

import pytest

from cluster.address import Address
from cluster.budget import SMALL_BYTES, Budget
from cluster.env import RealEnv
from cluster.net import open_client
from cluster.ports import Connection
from tests.net.support import SECRET, Raw, client, mesh, run, until
from tests.net.test_strangers import is_served

pytestmark = pytest.mark.fast

MIB = 1 << 20


class Holder:
    def __init__(self, size: int = 0) -> None:
        self.size = size
        self.reasons: list[str] = []

    def held(self) -> int:
        return self.size

    def shed(self, reason: str) -> None:
        self.reasons.append(reason)
        self.size = 0


def test_the_heaviest_go_until_a_quarter_is_free() -> None:
    budget = Budget(1_000_000, "answers")
    holders = [Holder(size) for size in (400_000, 100_000, 300_000, 150_000)]
    for holder in holders:
        budget.note(holder, holder.size)
    assert not any(holder.reasons for holder in holders)
    last = Holder(50_001)
    budget.note(last, last.size)
    assert [len(holder.reasons) for holder in holders] == [1, 0, 0, 0]
    assert "1000001 bytes of answers together, more than 1000000" in holders[0].reasons[0]
    assert budget.total == 600_001


def test_who_has_let_go_since_is_not_closed() -> None:
    budget = Budget(1_000_000, "answers")
    fast, slow = Holder(900_000), Holder(200_000)
    budget.note(fast, fast.size)
    fast.size = 0
    budget.note(slow, slow.size)
    assert not fast.reasons
    assert not slow.reasons
    assert budget.total == 200_000
    assert len(budget) == 1


def test_the_total_is_the_sum_of_the_notes_whatever_comes_and_goes() -> None:
    rng = random.Random(7)
    budget, holders = Budget(15_000_000, "answers"), [Holder() for _ in range(100)]
    for _ in range(5_000):
        holder = rng.choice(holders)
        holder.size = rng.choice((0, 1, SMALL_BYTES, SMALL_BYTES + 1, rng.randrange(2 * MIB)))
        if rng.random() < 0.1:
            holder.size = 0
            budget.forget(holder)
        else:
            budget.note(holder, holder.size)
        assert budget.total == sum(holder.size for holder in holders if holder.size > SMALL_BYTES)
        assert budget.total <= 15_000_000
    for holder in holders:
        budget.forget(holder)
    assert budget.total == len(budget) == 0
    assert any(holder.reasons for holder in holders)


@pytest.mark.parametrize("plain", [False, True], ids=["uvloop", "asyncio"])
def test_clients_that_do_not_read_are_closed_together_before_they_fill_the_memory__G5(
    plain: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them stays below what one may hold; the ones that hold least are left alone, and so is who reads."""
    monkeypatch.setattr("cluster.net.node.CLIENTS_OUTPUT_MAX_BYTES", 16 * MIB)

    async def work(env: RealEnv) -> None:
        (node,) = await mesh(env, 1)
        deaf = [Raw(node.address) for _ in range(8)]
        for number, raw in enumerate(deaf):
            await raw.shake(client(f"deaf:{number}"))
        await until(lambda: len(node.clients) == 8, "they are in")
        reader: list[bytes] = []
        connection, _ = await open_client(env, Address.parse(node.address), client(), SECRET, 8.0)
        connection.on_data = reader.append
        sent: dict[Connection, int] = dict.fromkeys(node.clients[:8], 0)
        for _ in range(10):
            for number, server_end in enumerate(list(sent)):
                if server_end.reason is None:
                    server_end.write(bytes(MIB // (1 if number < 4 else 16)))
            assert node.net._output.total <= 16 * MIB
        await until(lambda: len(node.ends) >= 2, "some are told")
        assert all("unread answers together" in end for end in node.ends)
        heavy, light = node.clients[:4], node.clients[4:8]
        assert any(end.reason for end in heavy)
        assert not any(end.reason for end in light)
        connection.write(b"still here")
        await until(lambda: reader == [b"still here"], "who reads is served")
        for raw in deaf:
            raw.close()
        connection.close()
        await until(lambda: len(node.ends) == 9, "all gone")
        assert node.net._output.total == 0
        assert await is_served(env, node)
        await node.stop()

    with caplog.at_level(logging.WARNING):
        run(work, plain=plain)
    assert "budget.exceeded what=unread answers" in caplog.text


