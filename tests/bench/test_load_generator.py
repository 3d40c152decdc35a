"""The load generator: what it sends, what it counts, and how it fails.

Knows: ``bench.build`` and the fake node. Must not know: speed; nothing here depends on how fast anything is.
"""

from __future__ import annotations

import pytest

from bench.build import NoLoadGenerator, Phase, load_generator, run_load
from bench.group import running_echo
from tests.bench.fake import FakeNode


@pytest.fixture(autouse=True)
def _built() -> None:
    try:
        load_generator()
    except NoLoadGenerator as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(("connections", "in_flight"), [(1, 1), (1, 16), (20, 1), (4, 100)])
def test_every_frame_is_well_formed_and_every_lease_is_given_back(connections: int, in_flight: int) -> None:
    with FakeNode(push=True) as node:
        phases = [("acquire", 100), ("renew", 100), ("release", 60_000)]
        acquire, renew, release = run_load(node.address, connections, in_flight, phases, warmup_ms=20)
    assert node.faults == []
    assert len(node.clients) == connections
    assert node.tokens == {}
    assert node.seen[1] == node.seen[5] > 0
    assert node.seen[3] > 0
    assert [phase.kind for phase in (acquire, renew, release)] == ["acquire", "renew", "release"]
    # The rest of each phase, warm-up and last requests in flight, is sent but not counted.
    assert 0 < acquire.ops <= node.seen[1]
    assert 0 < renew.ops <= node.seen[3]
    assert 0 < release.ops <= node.seen[5]
    assert release.held == 0
    assert release.pushes > 0


@pytest.mark.parametrize(("connections", "in_flight"), [(1, 1), (8, 32)])
def test_rate_time_and_latency_agree(connections: int, in_flight: int) -> None:
    """Little's law: what is in flight is the rate times the time each takes, whatever the machine."""
    with running_echo() as (address, _):
        (echo,) = run_load(address, connections, in_flight, [("echo", 300)], warmup_ms=50)
    assert echo.ops_per_s == pytest.approx(echo.ops / echo.seconds, rel=0.01)
    assert 0 < echo.p50_us <= echo.p99_us <= echo.max_us * 1.02
    assert echo.ops_per_s * echo.p50_us / 1e6 < 3 * connections * in_flight
    assert echo.ops_per_s * echo.max_us / 1e6 > 0.5 * connections * in_flight


def test_what_may_be_held_is_limited() -> None:
    with FakeNode() as node:
        options = ["--held-max", "50"]
        acquire, release = run_load(
            node.address, 2, 8, [("acquire", 60_000), ("release", 60_000)], warmup_ms=0, options=options
        )
    assert (node.seen[1], node.seen[5]) == (50, 50)
    assert isinstance(acquire, Phase)
    assert release.held == 0


@pytest.mark.parametrize(
    ("leading", "status", "says"),
    [
        (False, 0, "not the raft leader"),
        (True, 32, "acquire answered with status 32"),
        (True, 1, "acquire answered with status 1"),
    ],
)
def test_anything_but_success_ends_the_run(leading: bool, status: int, says: str) -> None:
    with FakeNode(leading=leading, status=status) as node, pytest.raises(RuntimeError, match=says):
        run_load(node.address, 2, 2, [("acquire", 100)])


def test_nobody_listens() -> None:
    with FakeNode() as node:
        address = node.address
    with pytest.raises(RuntimeError, match="refused"):
        run_load(address, 1, 1, [("acquire", 100)])


@pytest.mark.parametrize(
    "phases", [[], [("echo", 0)], [("sing", 1)], [("echo", 1), ("acquire", 1)], [("echo", 1)] * 17]
)
def test_a_command_line_that_makes_no_sense_is_refused(phases: list[tuple[str, int]]) -> None:
    with pytest.raises(RuntimeError, match="loadgen: "):
        run_load("127.0.0.1:1", 1, 1, phases)
