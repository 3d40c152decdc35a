"""An application keeps the interpreter's lock for seconds, in a process that is the raft leader (D6).

Knows: a call that keeps the lock, as a C extension may. Must not know: how a node notices.
"""

from __future__ import annotations

import ctypes
import logging
from pathlib import Path

import pytest

import cluster.client
import tenure
from tests.support import eventually
from tests.support_cluster import NodeGroup

HELD_S = 2.0


def keep_the_interpreters_lock(seconds: float) -> None:
    # Unlike CDLL, a PyDLL does not give up the lock around its calls.
    ctypes.PyDLL(None).usleep(ctypes.c_uint(round(seconds * 1e6)))


def test_an_embedded_leader_whose_process_cannot_breathe__D6(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    group = NodeGroup(tmp_path)
    here, *there = group.nodes
    try:
        for node in there:
            node.start()
        with (
            tenure.join(here.address, group.endpoints.split(","), ephemeral=True) as embedded,
            tenure.connect([node.address for node in there]) as client,
        ):
            with cluster.client.connect(group.endpoints, role="admin") as operator:
                operator.transfer_leadership(here.address)
            eventually(lambda: embedded.status().leader == here.address, 20, "this process leads")
            term = embedded.status().term
            lease = client.acquire("job", lease_time=60)
            assert lease is not None
            with caplog.at_level(logging.WARNING):
                keep_the_interpreters_lock(HELD_S)
                # The others have elected one of them, and this node follows it.
                eventually(lambda: embedded.status().term > term, 20, "the raft group went on without it")
                eventually(lambda: embedded.status().leader in [node.address for node in there], 20)
            # What was granted before is held, by who held it, and by nobody else.
            lease.check()
            assert embedded.acquire("job") is None
            state = embedded.state("job", consistent=True)
            assert state.leader is not None
            assert state.leader.token == lease.token
            assert lease.release() is True
    finally:
        for node in there:
            node.kill()
    said = [record.message for record in caplog.records if record.message.startswith("raft.stood_still")]
    assert said
    assert f"node={here.address}" in said[0]
