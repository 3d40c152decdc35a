"""What would block an event loop, as coroutines.

Knows: which functions have a twin. Must not know: anything else. What is returned is the same ``Coordinator``; its verbs for tasks are
under ``coordinator.aio``, and ``async with coordinator`` closes it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, ParamSpec

from cluster.client import Coordinator, ExtendOutcome, connect_async
from cluster.client.checks import Seconds
from cluster.embedded import off_loop
from cluster.secrets import Secret
from cluster.tls import Tls
from tenure import doors
from tenure.context import assert_leader_async as assert_leader
from tenure.context import for_tasks

__all__ = ["assert_leader", "connect", "extend_lease", "join", "join_or_connect"]

P = ParamSpec("P")


async def connect(
    endpoints: str | Iterable[str],
    *,
    secret: Secret = None,
    tls: Tls | None = None,
    timeout: Seconds = 5.0,
    role: str = "client",
) -> Coordinator:
    """``tenure.connect``, without blocking the loop."""
    return await connect_async(endpoints, secret=secret, tls=tls, timeout=timeout, role=role)


def _twin(make: Callable[P, Coordinator]) -> Callable[P, Coroutine[Any, Any, Coordinator]]:
    @functools.wraps(make)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> Coordinator:
        return await off_loop(lambda: make(*args, **kwargs))

    return twin


join = _twin(doors.join)
"""``tenure.join``, without blocking the loop. A caller that is cancelled meanwhile leaves no node behind."""

join_or_connect = _twin(doors.join_or_connect)
"""``tenure.join_or_connect``, in the same way."""


async def extend_lease(lease_time: Seconds, name: str | None = None) -> ExtendOutcome:
    """``tenure.extend_lease`` for the action of an ``AsyncLeaderElector``."""
    return await for_tasks(await assert_leader(name), "tenure.extend_lease").extend(lease_time)
