"""For tests of programs that use tenure: a clock that a test moves, leases that are lost on command, real raft groups.

Knows: which names are public. Must not know: pytest (``pytest_tenure``, the plugin, does).

>>> from tenure.testing import FakeCoordinator
>>> with FakeCoordinator() as coordinator:
...     lease = coordinator.acquire("nightly-report", lease_time=60)
...     coordinator.clock.advance(61)
...     lease.lost.is_set()
True
"""

from tenure.testing._clock import ManualClock
from tenure.testing._fake import FakeCoordinator
from tenure.testing._group import NodeGroup
from tenure.testing._process import NodeProcess, free_ports
from tenure.testing._waiting import eventually

__all__ = ["FakeCoordinator", "ManualClock", "NodeGroup", "NodeProcess", "eventually", "free_ports"]
