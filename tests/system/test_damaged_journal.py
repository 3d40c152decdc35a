"""One of three nodes finds its journal damaged: it says where and does not start; with an empty directory it comes back as a new node does.

Knows: what an operator does, how files are named. Must not know: what is in them, but that a name which was granted is somewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tenure as api
from tests.cli.support_cli import is_one_line, tenure
from tests.faults.support_group import caught_up
from tests.support import eventually
from tests.support_cluster import READY_WITHIN_S, NodeGroup, NodeProcess

BEFORE = 60
# Whatever one acquisition at a time writes is shorter than this.
RECORD_MAX_BYTES = 1_000


def _flip(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x04]) + data[at + 1 :]


def _cut(data: bytes, at: int) -> bytes:
    return data[:at]


def _kill(node: NodeProcess) -> None:
    node.kill()


def _stop(node: NodeProcess) -> None:
    assert node.stop() == 0


@pytest.mark.parametrize(
    ("leads", "end", "damage"),
    [(False, _kill, _flip), (True, _stop, _cut)],
    ids=["a follower's, a bit is wrong", "the leader's, cut short"],
)
def test_a_node_with_a_damaged_journal_is_replaced_by_itself__I2_I9(
    tmp_path: Path, leads: bool, end: Callable[[NodeProcess], None], damage: Callable[[bytes, int], bytes]
) -> None:
    with (
        NodeGroup(tmp_path, options=("--durability", "fsync")) as group,
        api.connect(group.endpoints, timeout=READY_WITHIN_S) as coordinator,
    ):
        granted: dict[str, int] = {}

        def grant(count: int) -> None:
            for number in range(len(granted), len(granted) + count):
                lease = coordinator.acquire(f"held/{number}.", lease_time=3600.0)
                assert lease is not None
                assert lease.token > max(granted.values(), default=0), "tokens rise"
                granted[lease.name] = lease.token

        grant(BEFORE)
        hurt = group.leader() if leads else group.followers()[0]
        others = [node for node in group.nodes if node is not hurt]
        eventually(lambda: caught_up(group, hurt), READY_WITHIN_S, "it has what is going to be damaged")
        end(hurt)
        file, at = _place_of(hurt.data_dir, f"held/{BEFORE // 2}.".encode())
        file.write_bytes(damage(file.read_bytes(), at))
        before = _contents(hurt.data_dir)

        grant(10)
        refused = tenure([*hurt.command(), "--log-level", "error"], tmp_path)
        assert refused.returncode == 1
        assert is_one_line(refused.stderr), refused.stderr
        found = re.search(r"(\S+) is damaged at offset (\d+): ", refused.stderr)
        assert found is not None, refused.stderr
        assert Path(found[1]) == file
        assert at - RECORD_MAX_BYTES < int(found[2]) <= at
        assert "give the node an empty one" in refused.stderr
        assert _contents(hurt.data_dir) == before, "what is damaged is left for inspection"

        hurt.data_dir.rename(hurt.data_dir.with_suffix(".damaged"))
        hurt.start()
        eventually(lambda: caught_up(group, hurt), READY_WITHIN_S, "it has copied everything")
        eventually(
            lambda: f"raft.joined node={hurt.address} " in hurt.log(), READY_WITHIN_S, "it joins as a new incarnation"
        )
        grant(10)
        # Without one of those that were never hurt nothing is decided unless it counts again.
        others[0].kill()
        group.wait_ready()
        grant(10)
        others[0].start()
        eventually(lambda: caught_up(group, others[0]), READY_WITHIN_S, "that one is back")
        others[1].kill()
        group.wait_ready()
        grant(10)
        assert {lease.name: lease.token for lease in coordinator.leases("held/")} == granted


def _place_of(directory: Path, name: bytes) -> tuple[Path, int]:
    """The journal's file, and where in it a name stands that was granted."""
    for file in sorted(directory.glob("journal-*")):
        at = file.read_bytes().find(name)
        if at >= 0:
            return file, at
    raise AssertionError(f"{name!r} is in no journal of {directory}")


def _contents(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.name != "lock"}
