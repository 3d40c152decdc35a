"""Whom to dial next: spread, bounded, and quick to follow a hint (G4).

Knows: the decision. Must not know: sockets.
"""

from __future__ import annotations

import random

import pytest

from cluster.client.seek import BACKOFF_MAX_S, DIALS_MAX, HEDGE_S, SCOUT_STALE_S, Seek
from cluster.errors import AuthenticationError
from tests.client.support import World, story

pytestmark = pytest.mark.fast

NODES = ["a:1", "b:1", "c:1"]


def seek(seed: int = 1) -> Seek:
    return Seek(list(NODES), random.Random(seed))


def test_clients_begin_at_different_nodes__G4() -> None:
    firsts = {seek(seed).next(0.0, "", ())[0] for seed in range(30)}
    assert firsts == set(NODES)


def test_a_second_attempt_starts_only_when_the_first_takes_long() -> None:
    search = seek()
    (first,) = search.next(0.0, "", ())
    assert search.next(HEDGE_S / 2, "", (first,)) == []
    (second,) = search.next(HEDGE_S, "", (first,))
    assert second != first
    assert search.next(10.0, "", (first, second)) == []
    assert DIALS_MAX == 2


def test_members_that_are_named_are_dialled_too_and_forgotten_when_they_are_none_any_more() -> None:
    search = seek()
    search.learn(["b:1", "d:1", "e:1"])
    dialled = {search.next(float(turn), "", ())[0] for turn in range(10)}
    assert dialled == {*NODES, "d:1", "e:1"}, "those that were given are asked as before"
    search.learn(["b:1"])
    assert {search.next(20.0 + turn, "", ())[0] for turn in range(10)} == set(NODES)


def test_the_named_leader_is_dialled_at_once() -> None:
    search = seek()
    (first,) = search.next(0.0, "", ())
    search.hint = next(node for node in NODES if node != first)
    assert search.next(0.001, "", (first,)) == [search.hint]
    search.hint = "elsewhere:9"
    assert search.next(0.002, first, ()) == ["elsewhere:9"]


def test_a_scout_is_trusted_for_a_moment_then_others_are_asked() -> None:
    search = seek()
    search.scouting_since = 5.0
    assert search.next(5.0 + SCOUT_STALE_S / 2, "a:1", ()) == []
    found = search.next(5.0 + SCOUT_STALE_S, "a:1", ())
    assert found
    assert found != ["a:1"]


def test_failures_back_off_with_full_jitter_under_a_cap__G4() -> None:
    delays: list[float] = []
    for seed in range(200):
        search = Seek(["a:1"], random.Random(seed))
        for _ in range(8):
            search.failed("a:1", "refused", None, 0.0, scouting=False)
        delay = 0.0
        while not search.next(delay, "", ()):
            delay += 0.001
        delays.append(delay)
    assert max(delays) <= BACKOFF_MAX_S + 0.001
    # Spread over the whole range, not around its end.
    assert min(delays) < 0.1 * BACKOFF_MAX_S
    assert 0.35 * BACKOFF_MAX_S < sum(delays) / len(delays) < 0.65 * BACKOFF_MAX_S


def test_a_kind_of_error_counts_when_it_is_everybodys() -> None:
    search = seek()
    for node in NODES:
        assert search.trouble("", False).kind is None
        search.failed(node, "no", AuthenticationError, 0.0, scouting=False)
    assert search.trouble("", False).kind is AuthenticationError
    assert all(node in search.trouble("", False).text for node in NODES)


def test_a_crowd_finds_the_new_leader_without_a_stampede__G4() -> None:
    async def tell(world: World) -> None:
        crowd = [world.another(f"c{n}") for n in range(100)]
        for one in crowd:
            assert await one.aio.acquire(f"job/{one!r}".replace("<", "").replace(">", "").replace(" ", "/"), lease_time=60)
        world.cluster.kill("n1:1")
        started = world.now
        mark = len(world.cluster.dialled)
        world.env.call_later(1.0, world.cluster.lead, "n3:1")
        await world.until(lambda: sum(conn.address == "n3:1" for conn in world.cluster.conns) >= 100)
        assert world.now - started < 1.2
        # 100 clients for a second: each has dialled a few times, spread over time.
        times = sorted(at - started for _, at in world.cluster.dialled[mark:])
        assert len(times) < 100 * 12
        first = [at for at in times if at < 0.003]
        assert len(first) < 40
        for one in crowd:
            await one.aio.close(limit=0)

    story(tell, leaks=False)
