"""Leadership moves to the heaviest member that could lead: by transfer, seldom, and never against a vote rule.

Knows: nodes on a table, time by hand. Must not know: how leadership is handed over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from cluster.address import Address
from cluster.errors import UsageError
from cluster.limits import ELECTION_TIMEOUT_MAX_S, NODE_WEIGHT_MAX
from cluster.node import NodeConfig
from cluster.raft.messages import TIMEOUT_NOW, decode
from cluster.raft.preferring import PREFERENCE_LAG_MAX, PREFERENCE_ROUNDS
from tests.raft.lab import World

pytestmark = pytest.mark.fast

PATIENCE_S = PREFERENCE_ROUNDS * ELECTION_TIMEOUT_MAX_S
STEP_S = 0.04


def weighed(**weights: Any) -> World:
    """A group in which A leads."""
    w = World(tuple(weights), connect=False)
    for name, weight in weights.items():
        if weight is not None:
            w[name].config["weight"] = weight
        w[name].boot()
    for a, b in itertools.combinations(weights, 2):
        w.link(a, b)
    w.form("A")
    return w


def pass_time(w: World, seconds: float, each: Callable[[], None] = lambda: None) -> None:
    """Timers fire and messages arrive, for all who live."""
    for _ in range(round(seconds / STEP_S)):
        w.now += STEP_S
        for name in w.names:
            if w[name].alive:
                w[name].env.fire_due()
                w.work(name)
        each()
        for a, b in itertools.permutations(w.names, 2):
            if w[a].alive and w[b].alive:
                w.flow(a, b)
                w.work(b)


def leaders(w: World) -> str:
    return "".join(name for name in w.names if w[name].alive and w[name].raft.is_leader)


def terms(w: World) -> set[int]:
    return {w[name].raft.term for name in w.names if w[name].alive}


def test_leadership_moves_to_the_heaviest_and_stays_there() -> None:
    w = weighed(A=1, B=5, C=3)
    before = terms(w)
    pass_time(w, PATIENCE_S - 1)
    assert (leaders(w), terms(w)) == ("A", before), "not before its time"
    pass_time(w, 3)
    assert leaders(w) == "B"
    after = terms(w)
    pass_time(w, 3 * PATIENCE_S)
    assert (leaders(w), terms(w)) == ("B", after), "one transfer, and no more"
    assert not w.ledger.violations


@pytest.mark.parametrize("weights", [{"A": 2, "B": 2, "C": 1}, {"A": None, "B": 1, "C": 0}], ids=["equal", "default"])
def test_it_stays_where_nobody_is_heavier(weights: dict[str, Any]) -> None:
    w = weighed(**weights)
    before = terms(w)
    pass_time(w, 2 * PATIENCE_S)
    assert (leaders(w), terms(w)) == ("A", before)


def test_a_member_that_says_nonsense_weighs_like_one_that_says_nothing() -> None:
    for said in (True, -1, NODE_WEIGHT_MAX + 1, 2.5, "9", None):
        w = weighed(A=1, B=1, C=1)
        for peer in w["A"].adapter._counted:
            peer.hello.info["weight"] = said
        pass_time(w, PATIENCE_S + 2)
        assert leaders(w) == "A"


def test_a_lighter_one_leads_while_the_heaviest_is_dead_and_gives_way_when_it_has_been_back_for_long() -> None:
    w = weighed(A=5, B=1, C=1)
    w.propose("A", "x0")
    w.beat("A", "BC")
    w.kill("A")
    pass_time(w, 3)
    assert leaders(w) in ("B", "C"), "no vote is refused for a weight"
    pass_time(w, 2 * PATIENCE_S)
    lighter = leaders(w)
    assert lighter in ("B", "C")
    w.restart("A", "BC")
    pass_time(w, PATIENCE_S - 1)
    assert leaders(w) == lighter, "it is back for too short a time"
    pass_time(w, 3)
    assert leaders(w) == "A"
    assert not w.ledger.violations


def test_one_that_comes_and_goes_drags_nothing_with_it() -> None:
    w = weighed(A=1, B=5, C=1)
    before = terms(w)
    for _ in range(6):
        pass_time(w, PATIENCE_S / 2)
        w.isolate("B")
        pass_time(w, 0.2)
        for other in "AC":
            w.link("B", other)
    assert (leaders(w), terms(w)) == ("A", before)


def test_one_that_lags_is_not_asked() -> None:
    w = weighed(A=1, B=5, C=1)
    peer = w["A"].adapter._peers["B"]

    def lags() -> None:
        if leaders(w) == "A":
            peer.match = max(0, w["A"].last - PREFERENCE_LAG_MAX - 1)

    for i in range(PREFERENCE_LAG_MAX + 10):
        w.propose("A", f"x{i}")
    w.beat("A", "BC")
    pass_time(w, PATIENCE_S + 2, lags)
    assert leaders(w) == "A"


def test_a_handover_that_fails_is_tried_again_more_and_more_seldom() -> None:
    w = weighed(A=1, B=5, C=1)
    asked: list[float] = []

    def lose_the_request() -> None:
        queue = w["A"].net.links["B"].queues["A"]
        kept = [payload for payload in queue if decode(payload)[0] != TIMEOUT_NOW]
        if len(kept) < len(queue):
            asked.append(w.now)
            queue.clear()
            queue.extend(kept)

    pass_time(w, 8 * PATIENCE_S + 2, lose_the_request)
    assert leaders(w) == "A"
    assert len(asked) == 4, "after 1, 2, 4 and 8 times its patience"
    w.propose("A", "it goes on")
    w.beat("A", "BC")
    assert w["B"].machine.commands == w["A"].machine.commands
    assert not w.ledger.violations


@pytest.mark.parametrize("weight", [-1, NODE_WEIGHT_MAX + 1, 1.5, True])
def test_a_bad_weight_is_refused(weight: Any) -> None:

    with pytest.raises(UsageError, match="weight="):
        NodeConfig(listen=Address.parse("127.0.0.1:7101"), single=True, weight=weight).check()
    for good in (0, NODE_WEIGHT_MAX):
        NodeConfig(listen=Address.parse("127.0.0.1:7101"), single=True, weight=good).check()
