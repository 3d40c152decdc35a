"""Holders in trouble: stopped for longer than their lease, waiting for longer than it lasts.

Knows: processes and the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure
from tests.cli.support_cli import environ
from tests.support import eventually
from tests.support_cluster import NodeGroup

HOLDER = """
import json, sys, tenure
with tenure.connect(sys.argv[1]) as coordinator:
    lease = coordinator.acquire("job", lease_time=1.0, auto_extend=True)
    print(json.dumps({"token": lease.token}), flush=True)
    sys.stdin.readline()
    found = {"confidence": lease.confidence, "lost": lease.lost.is_set(), "remaining": lease.remaining()}
    try:
        lease.check()
    except tenure.LeaseLostError:
        found["check"] = "raised"
    found["released"] = lease.release()
    print(json.dumps(found), flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeGroup]:
    with NodeGroup(tmp_path_factory.mktemp("group")) as group:
        yield group


def test_a_holder_stopped_past_its_lease_finds_it_lost_and_changes_nothing__I4_I8(
    group: NodeGroup, tmp_path: Path
) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, group.endpoints],
        cwd=tmp_path,
        env=environ(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        first = json.loads(holder.stdout.readline())["token"]
        with tenure.connect(group.endpoints) as coordinator:
            os.kill(holder.pid, signal.SIGSTOP)
            mine = coordinator.acquire("job", lease_time=30.0, wait_time=10.0)
            assert mine is not None, "the stopped holder's lease ran out"
            assert mine.token > first
            os.kill(holder.pid, signal.SIGCONT)
            holder.stdin.write("look\n")
            holder.stdin.flush()
            found = json.loads(holder.stdout.readline())
            assert found["confidence"] == "lost"
            assert found["check"] == "raised"
            assert found["remaining"] == 0
            assert found["released"] is False
            mine.check()
            leader = coordinator.state("job", consistent=True).leader
            assert leader is not None
            assert leader.token == mine.token
            mine.release()
    finally:
        holder.kill()
        holder.communicate()


def test_a_contender_that_waited_longer_than_its_lease_can_use_it__I8(group: NodeGroup) -> None:
    with tenure.connect(group.endpoints) as one, tenure.connect(group.endpoints) as other:
        first = one.acquire("waited-for", lease_time=30.0)
        assert first is not None
        timer = threading.Timer(3.0, first.release)
        timer.start()
        lease = other.acquire("waited-for", lease_time=1.0, wait_time=20.0)
        timer.join()
        assert lease is not None
        assert lease.remaining() > 0.5, "it counts from the last ping, not from the request of three seconds ago"
        assert lease.confidence == "held"
        assert isinstance(lease.extend(5.0), tenure.Extended)
        lease.release()
        eventually(lambda: other.state("waited-for").leader is None, 2.0, "it is free again")
