"""The pytest plugin ``tenure``: fixtures for ``tenure.local``, for a coordinator under a test's control, and for a real raft group.

Knows: pytest, how long each fixture lives. Must not know: how anything is done. A module of its own beside the packages, so that a test run
that uses no fixture imports nothing of ``tenure``; ``-p no:tenure`` switches it off.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tenure import Coordinator
    from tenure.testing import FakeCoordinator, NodeGroup

_GROUP: pytest.StashKey[NodeGroup] = pytest.StashKey()


@pytest.fixture
def tenure_local() -> Iterator[Coordinator]:
    """``tenure.local()``: a coordinator of this process alone. Time passes by itself."""
    import tenure

    coordinator = tenure.local()
    yield coordinator
    coordinator.close(limit=0)


@pytest.fixture
def tenure_fake() -> Iterator[FakeCoordinator]:
    """A ``tenure.testing.FakeCoordinator``: its ``clock`` stands still until the test moves it, its leases are lost on command."""
    from tenure.testing import FakeCoordinator

    coordinator = FakeCoordinator()
    yield coordinator
    coordinator.close(limit=0)


@pytest.fixture(scope="session")
def tenure_group(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeGroup]:
    """A real raft group of three node processes on this machine, one for the whole session: use a name of its own in each test."""
    from tenure.testing import NodeGroup

    with NodeGroup(tmp_path_factory.mktemp("tenure")) as group:
        request.config.stash[_GROUP] = group
        yield group


@pytest.fixture
def tenure_coordinator(tenure_group: NodeGroup) -> Iterator[Coordinator]:
    """A client of ``tenure_group``, all of whose nodes run and serve. What a test before has killed or frozen is running again."""
    import tenure

    tenure_group.start()
    coordinator = tenure.connect(tenure_group.endpoints)
    yield coordinator
    coordinator.close(limit=0)


# The older kind of wrapper: every pytest from 7 on knows it.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """A test that used the raft group and failed shows the end of each node's log."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    group = item.config.stash.get(_GROUP, None)
    if report.failed and group is not None and "tenure_group" in getattr(item, "fixturenames", ()):
        report.sections.append(("Raft group", group.logs()))
