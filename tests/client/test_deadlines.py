"""Deadlines come when they are due, whatever is set while another one is met.

Knows: ``Deadlines``, virtual time. Must not know: calls.
"""

from __future__ import annotations

import pytest

from cluster.client.deadlines import RESOLUTION_S, Deadlines
from tests.client.support import CLOCK_START_S, VirtualEnv
from tests.sim.loop import VirtualLoop

pytestmark = pytest.mark.fast


class Item:
    """Set again ``again_s`` later when it is due."""

    def __init__(self, again_s: float = 0.0) -> None:
        self.bucket = -1
        self.again_s = again_s
        self.due_at: list[float] = []


def played(dated: list[tuple[float, Item]], until_s: float) -> None:
    loop = VirtualLoop()
    env = VirtualEnv(loop, 1)

    def due(item: Item) -> None:
        item.due_at.append(env.clock() - CLOCK_START_S)
        if item.again_s and len(item.due_at) == 1:
            deadlines.set(item, env.clock() + item.again_s)

    deadlines: Deadlines[Item] = Deadlines(env, due)
    for at_s, item in dated:
        deadlines.set(item, CLOCK_START_S + at_s)
    loop.call_later(until_s, loop.stop)
    loop.run_forever()
    loop.close()


@pytest.mark.parametrize("again_s", [0.0, 0.1, 60.0])
def test_a_deadline_that_is_put_off_far_hides_none_that_comes_before(again_s: float) -> None:
    first, second, third = Item(again_s), Item(), Item()
    played([(1.0, first), (1.5, second), (2.0, third)], 70.0)
    assert len(first.due_at) == (2 if again_s else 1)
    for item, expected in ((first, 1.0), (second, 1.5), (third, 2.0)):
        assert expected <= item.due_at[0] <= expected + 2 * RESOLUTION_S
