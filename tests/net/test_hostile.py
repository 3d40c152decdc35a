"""A real raft group under hostile input: no code runs, memory stays bounded, whoever is honest is served (G5, G6).

Knows: processes, what the system counts of them. Must not know: the product's inside.
"""

from __future__ import annotations

import functools
import os
import random
import resource
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tenure
from cluster.env import boot_clock
from cluster.limits import UNAUTHENTICATED_MAX
from cluster.sockets import allow_descriptors
from tests.net.attackers import babble, call, deaf, half_open, messages, refusal_of, say_and_listen, unfinished
from tests.net.counted import Processor, peak_kb, processor_of, sockets_of
from tests.net.siege import Siege
from tests.support import eventually
from tests.support_cluster import NodeGroup

RSS_MAX_KB = 300 * 1024
# Besides what the machine keeps it waiting for a processor.
GRANT_MAX_S = 1.0
GRANTS = 20
GRANTS_WITHIN_S = 60.0
# Where a busy machine keeps somebody waiting.
PATIENCE_S = 60.0
# Of the time in which it could run: who waits longer shows nothing of a siege.
STARVED = 0.9
# More than are closed for being silent, a thousand in HANDSHAKE_TIMEOUT_S: so the oldest go for the newest, and as many always stand.
SILENT_PER_S = 300
SPARE = 200
# At every look: what is closed for a newer one is seen to be gone a moment before that one is seen.
STANDING = UNAUTHENTICATED_MAX * 9 // 10
DRIPS = 200
GARBAGE_PER_S = 100
DEAF = 40
HALF_OPEN = 20
LEASES = 250
DESCRIPTORS = 3 * (UNAUTHENTICATED_MAX + SPARE + DRIPS + GARBAGE_PER_S + 2 * DEAF + HALF_OPEN) + 500
CAME_LEAST = {
    "silent": UNAUTHENTICATED_MAX,
    "drip": DRIPS,
    "garbage": 100,
    "deaf": DEAF * 3 // 4,
    "unfinished": DEAF * 3 // 4,
    "half open": HALF_OPEN,
}


def test_what_strangers_say_first_is_refused_and_runs_nothing__G6(tmp_path: Path) -> None:
    bomb = tmp_path / "the bomb went off"
    with NodeGroup(tmp_path, size=1) as group:
        (node,) = group.nodes
        codes = [
            refusal_of(say_and_listen(node.address, said))
            for said in messages(bomb, random.Random(6))
            if len(said) >= 4
        ]
        assert set(codes) <= {"protocol", "member", "identity", "tls", ""}
        assert codes.count("protocol") + codes.count("tls") > len(codes) * 3 // 4
        with tenure.connect(node.address) as coordinator:
            assert coordinator.acquire("after") is not None
        assert "Traceback" not in node.log()
    assert not bomb.exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")
@pytest.mark.timeout(600)
def test_a_group_under_siege_grants_within_a_second_and_stays_small__G5(tmp_path: Path) -> None:
    """Per node a thousand silent connections that stand while grants are timed; then besides two hundred slow ones, a flood of pickles,
    random bytes and 4 GiB headers, forty known clients that ask and do not read, forty that never finish a frame, and half-open ones."""
    allow_descriptors(DESCRIPTORS)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < DESCRIPTORS:
        pytest.skip(f"the siege needs {DESCRIPTORS} file descriptors, and this process may have {limit}")
    bomb = tmp_path / "the bomb went off"
    with NodeGroup(tmp_path) as group, tenure.connect(group.endpoints, timeout=PATIENCE_S) as coordinator:
        text = {"text": "x" * 4000}
        held: list[Any] = [
            coordinator.acquire(f"held/{number}", metadata=text, lease_time=600) for number in range(LEASES)
        ]
        assert all(held)
        siege = Siege()
        honest = Honest(group, coordinator, siege)
        excuse = ""
        try:
            with siege.laid():
                _endure(honest, group, siege, bomb)
        except (AssertionError, tenure.CoordinationError) as error:
            excuse = honest.excuse()
            if not excuse:
                raise AssertionError(
                    f"{error}\n{siege.came}, turned away {siege.turned_away}, faults {siege.faults}"
                ) from error
        peaks = {node.address: peak_kb(node.pid) for node in group.nodes}
        assert max(peaks.values()) < RSS_MAX_KB, peaks
        assert not [node.address for node in group.nodes if "Traceback" in node.log()], group.logs()
        assert not bomb.exists()
        if excuse:
            pytest.skip(excuse)
        assert all(lease.release() for lease in held[:5]), "what was held is held"


def _endure(honest: Honest, group: NodeGroup, siege: Siege, bomb: Path) -> None:
    for node in group.nodes:
        siege.flood("silent", [functools.partial(call, node.address)], SILENT_PER_S, UNAUTHENTICATED_MAX + SPARE)
    took = honest.grants("silent")
    for number, node in enumerate(group.nodes):
        _besiege(siege, node.address, number, bomb)
    took += honest.grants("all")
    siege.wait()
    leader = group.leader(PATIENCE_S)
    eventually(lambda: "budget.exceeded what=unread answers" in leader.log(), PATIENCE_S, "who does not read is closed")
    took += honest.grants("afterwards")
    assert max(grant.own_s for grant in took) < GRANT_MAX_S, sorted(took, key=lambda grant: -grant.own_s)[:5]
    assert not siege.faults
    for what, least in CAME_LEAST.items():
        assert siege.came[what] >= least * len(group.nodes), what


def _besiege(siege: Siege, address: str, number: int, bomb: Path) -> None:
    said = messages(bomb, random.Random(number))
    siege.flood("garbage", [functools.partial(babble, address, text) for text in said], GARBAGE_PER_S, GARBAGE_PER_S)
    siege.drip(address, DRIPS)
    for index in range(DEAF):
        client = 1_000 * number + index
        siege.lead("deaf", functools.partial(deaf, address, client, 12))
        siege.lead("unfinished", functools.partial(unfinished, address, 500 + client))
    for _ in range(HALF_OPEN):
        siege.lead("half open", functools.partial(half_open, address))


class Grant(NamedTuple):
    """``took_s``: of which the nodes and the client waited ``waited_s`` for a processor, one after the other or at the same time."""

    name: str
    took_s: float
    waited_s: float

    @property
    def own_s(self) -> float:
        return self.took_s - self.waited_s


class Honest:
    """Who is served while the strangers stand. To be made before they come."""

    def __init__(self, group: NodeGroup, coordinator: tenure.Coordinator, siege: Siege) -> None:
        self._group = group
        self._coordinator = coordinator
        self._siege = siege
        self._began = self._processor()
        self._before = {node.address: sockets_of(node.pid) for node in group.nodes}

    def stand(self) -> bool:
        """Whether each node has as many strangers as it takes."""
        return all(sockets_of(node.pid) - self._before[node.address] >= STANDING for node in self._group.nodes)

    def grants(self, name: str) -> list[Grant]:
        """Some grants, of which GRANTS began and ended while the strangers stood; every other one to a client that has just come."""
        took: list[Grant] = []
        counted = 0
        until = boot_clock() + GRANTS_WITHIN_S
        while counted < GRANTS:
            assert boot_clock() < until, f"only {counted} of {len(took)} grants were made while the strangers stood"
            stood = self.stand()
            took.append(self._grant(f"{name}/{len(took)}", new=len(took) % 2 == 1))
            counted += stood and self.stand()
        return took

    def excuse(self) -> str:
        """Whether the machine has kept the nodes and their client from running, so that no time shows anything; empty: it has not."""
        had = self._processor().since(self._began)
        if had.waited_s < STARVED * (had.ran_s + had.waited_s):
            return ""
        return f"others have the processors: what is besieged ran for {had.ran_s:.1f} s and waited for {had.waited_s:.1f} s"

    def _grant(self, name: str, new: bool) -> Grant:
        at, before = boot_clock(), self._processor()
        with self._client(new) as client:
            lease = client.acquire(name)
            grant = Grant(name, boot_clock() - at, self._processor().since(before).waited_s)
            assert lease is not None
            assert lease.release()
        return grant

    def _client(self, new: bool) -> AbstractContextManager[tenure.Coordinator]:
        return tenure.connect(self._group.endpoints, timeout=PATIENCE_S) if new else nullcontext(self._coordinator)

    def _processor(self) -> Processor:
        """Of the nodes and this process, without the attackers."""
        parts = [
            processor_of(os.getpid(), self._siege.threads()),
            *(processor_of(node.pid) for node in self._group.nodes),
        ]
        return Processor(sum(part.ran_s for part in parts), sum(part.waited_s for part in parts))
