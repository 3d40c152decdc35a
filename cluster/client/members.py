"""The raft group's members, for operators: list, add, remove.

Knows: what each verb returns and raises. Must not know: frames, connections, retries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from cluster.client import checks
from cluster.client.requests import Requests
from cluster.client.values import MemberInfo

CHANGE_TIMEOUT_S: Final = 60.0


class Members:
    """``coordinator.members``. Changes need the admin role; they go through the log, one member at a time."""

    def __init__(self, ask: Callable[..., Any], requests: Requests) -> None:
        self._ask = ask
        self._requests = requests

    def list(self, *, timeout: checks.Seconds | None = None) -> tuple[MemberInfo, ...]:
        """The members as the raft leader sees them, by node id; who is just joining or leaving too. Raises as ``Coordinator.state``."""
        found: tuple[MemberInfo, ...] = self._ask(self._requests.members, timeout)
        return found

    def add(self, node_id: str, *, timeout: checks.Seconds = CHANGE_TIMEOUT_S) -> None:
        """Add one node. Returns when it counts.

        Start it first, with an empty data directory and ``peers`` that name some of the members: it waits to be added. It gets the
        log, and becomes a member when it has caught up and its addition is committed by a majority of the members with it.

        Args:
            node_id: its advertised address.
            timeout: seconds, 0.001 to 1 day. A node with much to copy takes its time.

        Raises:
            UsageError: not an address, a member already, not the admin role. Nothing was changed.
            Unavailable: it is not reached, has not caught up, another change is under way, too few members answer. Nothing was changed.
            Indeterminate: no answer within ``timeout``; it may still be added.
        """
        self._ask(self._requests.change_members, True, node_id, timeout)

    def remove(self, node_id: str, *, timeout: checks.Seconds = CHANGE_TIMEOUT_S) -> None:
        """Remove one node, dead or alive, the raft leader too (another member leads then). Returns when it does not count any more.

        A node that runs is told and stops. To come back it needs an empty data directory.

        Raises:
            UsageError: not a member, the last one, not the admin role. Nothing was changed.
            Unavailable: the others would have no majority, another change is under way. Nothing was changed.
            Indeterminate: no answer within ``timeout``; it may still be removed.
        """
        self._ask(self._requests.change_members, False, node_id, timeout)


class AsyncMembers:
    """``Members``' verbs as coroutines."""

    def __init__(self, ask: Callable[..., Awaitable[Any]], requests: Requests) -> None:
        self._ask = ask
        self._requests = requests

    async def list(self, *, timeout: checks.Seconds | None = None) -> tuple[MemberInfo, ...]:
        """See ``Members.list``."""
        found: tuple[MemberInfo, ...] = await self._ask(self._requests.members, timeout)
        return found

    async def add(self, node_id: str, *, timeout: checks.Seconds = CHANGE_TIMEOUT_S) -> None:
        """See ``Members.add``."""
        await self._ask(self._requests.change_members, True, node_id, timeout)

    async def remove(self, node_id: str, *, timeout: checks.Seconds = CHANGE_TIMEOUT_S) -> None:
        """See ``Members.remove``."""
        await self._ask(self._requests.change_members, False, node_id, timeout)
