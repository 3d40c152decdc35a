"""Answers that are larger than any request may be: many holders with all the metadata that is allowed.

Knows: the public interface. Must not know: pages, frames.
"""

from __future__ import annotations

import pytest

from cluster.embedded import local
from cluster.limits import FRAME_MAX_BYTES, METADATA_MAX_BYTES

pytestmark = pytest.mark.fast

HOLDERS = FRAME_MAX_BYTES // METADATA_MAX_BYTES + 50
METADATA = {"text": "x" * (METADATA_MAX_BYTES - 50)}


def test_all_metadata_of_many_leases_of_one_name_and_of_many_can_be_read() -> None:
    with local() as coordinator:
        for _ in range(HOLDERS):
            assert coordinator.acquire("crowd", max_leaders=1024, lease_time=60, metadata=METADATA) is not None
        rows = list(coordinator.leases("crowd"))
        assert len(rows) == HOLDERS
        assert all(row.metadata == METADATA for row in rows)
        group = coordinator.group_state("crowd")
        assert len(group.leaders) == HOLDERS
        coordinator.close(limit=0.001)
