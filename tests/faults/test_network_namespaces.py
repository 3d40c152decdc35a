"""The raft leader's link is taken down, in the kernel: nobody is told, packets are just gone.

Knows: network namespaces, the public interface. Must not know: the product's inside.
"""

from __future__ import annotations

from pathlib import Path

import tenure
from tests.faults.support_group import NamespaceGroup, follows, leads, said, wait
from tests.faults.support_netns import inside, network
from tests.support import eventually

ELECTION_S = 1.2


def test_the_leaders_link_is_taken_down_and_up_again__E2_E3_A4(tmp_path: Path) -> None:
    options = ("--durability", "process", "--election-timeout", str(ELECTION_S))
    with (
        network(3) as net,
        inside(net.hub),
        NamespaceGroup(tmp_path, net, options) as group,
        tenure.connect(group.endpoints, timeout=20.0) as coordinator,
    ):
        lease = coordinator.acquire("job", lease_time=60.0)
        assert lease is not None
        old = group.leader()
        machine = old.address.rpartition(":")[0]
        net.unplug(machine)
        others = [node for node in group.nodes if node is not old]
        eventually(lambda: any(leads(node) for node in others), 20.0, f"another leads\n{group.logs()}")
        # The client's connection to the old leader is dead, and nobody said so: it finds the new one nevertheless.
        other = coordinator.acquire("other", lease_time=60.0)
        assert other is not None
        assert other.token > lease.token
        assert lease.confidence == "held"
        new = next(node for node in others if leads(node))
        term = said(new).term
        net.plug(machine)
        eventually(lambda: follows(old), 30.0, f"the old leader is back\n{group.logs()}")
        wait(2 * ELECTION_S)
        assert [said(node).term for node in group.nodes] == [term] * 3, "who returns topples nobody"
        assert leads(new)
        assert coordinator.acquire("job") is None
        assert other.release()
        assert lease.release()
