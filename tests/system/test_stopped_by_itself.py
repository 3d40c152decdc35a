"""A node in this process has to stop by itself, while it begins or later: whoever called is told why, and at once.

Knows: the public interface, which call of a disk fails. Must not know: what a node does about it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tenure
from cluster.client import connect
from cluster.env import boot_clock
from cluster.storage.meta import Meta
from tests.support import eventually
from tests.support_cluster import free_ports

# Far below the time that was given for a raft leader to be found.
AT_ONCE_S = 15.0
READY_S = 60.0
Begin = Callable[..., tenure.Coordinator]


def join(directory: Path, listen: str, **more: Any) -> tenure.Coordinator:
    return tenure.join(listen, data_dir=str(directory / listen), ready_timeout=READY_S, **more)


def take_a_seat(directory: Path, listen: str, **more: Any) -> tenure.Coordinator:
    data = str(directory / listen)
    return tenure.join_or_connect(directory / f"{listen}.sock", listen, data_dir=data, ready_timeout=READY_S, **more)


def why_not(begin: Begin, directory: Path, listen: str, **more: Any) -> tenure.CoordinationError:
    """What it is told whose node has to stop while it begins."""
    begun = boot_clock()
    with pytest.raises(tenure.CoordinationError) as caught:
        begin(directory, listen, **more).close(limit=0)
    assert boot_clock() - begun < AT_ONCE_S
    assert not isinstance(caught.value, tenure.Unavailable), caught.value
    return caught.value


@pytest.mark.parametrize("begin", [join, take_a_seat])
def test_of_a_disk_that_is_full_whoever_begins_is_told(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = Meta.save

    def full(meta: Meta, **changed: Any) -> None:
        if "incarnation" not in changed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(meta, **changed)

    (port,) = free_ports(1)
    with monkeypatch.context() as patch:
        patch.setattr(Meta, "save", full)
        assert "No space left on device" in why_not(begin, tmp_path, f"127.0.0.1:{port}", single=True).detail
    with begin(tmp_path, f"127.0.0.1:{port}", single=True) as coordinator:
        assert coordinator.acquire("job") is not None, "there is space again, and nothing is locked"
        coordinator.close(limit=0)


@pytest.mark.parametrize("begin", [join, take_a_seat])
def test_a_member_that_was_removed_is_told_when_it_begins_again(begin: Begin, tmp_path: Path) -> None:
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    with join(tmp_path, first, single=True), connect(first, timeout=READY_S, role="admin") as operator, ThreadPoolExecutor(1) as other:
        newcomer = other.submit(begin, tmp_path, second, peers=[first])
        operator.members.add(second)
        with newcomer.result(READY_S) as member:
            operator.members.remove(second)
            member.close(limit=0)
        assert "was removed from its raft group" in why_not(begin, tmp_path, second, peers=[first]).detail


def test_a_node_that_stops_later_says_why_to_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with join(tmp_path, f"127.0.0.1:{port}", single=True) as coordinator:
        monkeypatch.setattr("cluster.env.RealFile.pwrite", full)

        def told() -> bool:
            with pytest.raises(tenure.CoordinationError) as caught:
                coordinator.acquire("job", timeout=0.5)
            return isinstance(caught.value, tenure.Unavailable) and "No space left on device" in caught.value.detail

        eventually(told, AT_ONCE_S)
        coordinator.close(limit=0)
