"""``--weight`` among real node processes: leadership moves to the heaviest node that could lead, and no lease pays for it.

Knows: processes, signals, the command line's options. Must not know: how leadership is handed over.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tenure
from cluster.raft.preferring import PREFERENCE_ROUNDS
from tests.support import eventually
from tests.support_cluster import READY_WITHIN_S, NodeGroup

ELECTION_S = 0.15
PATIENCE_S = PREFERENCE_ROUNDS * 2 * ELECTION_S
# Elections and processes that start take their time on a busy machine; then the patience begins anew.
WITHIN_S = 5 * PATIENCE_S + READY_WITHIN_S


@pytest.mark.timeout(240)
def test_the_heaviest_node_leads_and_others_when_it_is_dead(tmp_path: Path) -> None:
    group = NodeGroup(tmp_path, options=("--durability", "process", "--election-timeout", str(ELECTION_S)))
    heavy = group.nodes[2]
    heavy.options = (*heavy.options, "--weight", "9")
    with group, tenure.connect(group.endpoints, timeout=READY_WITHIN_S) as coordinator:
        lease = coordinator.acquire("held", lease_time=10.0, auto_extend=True)
        assert lease is not None
        eventually(lambda: coordinator.status().leader == heavy.address, WITHIN_S, "the heaviest leads")
        weights = {member.node_id: member.weight for member in coordinator.members.list()}
        assert weights == {node.address: 9 if node is heavy else 1 for node in group.nodes}
        heavy.kill()
        assert group.leader() is not heavy
        heavy.start()
        lease.check()
        eventually(lambda: coordinator.status().leader == heavy.address, WITHIN_S, "it leads again")
        lease.check()
        other = coordinator.acquire("other")
        assert other is not None
        assert other.token > lease.token
