"""Opening a client: endpoints in, a coordinator that has met a node out.

Knows: endpoints, the first contact and how its failure is told. Must not know: what is done with the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.client import checks
from cluster.client.coordinator import TIMEOUT_S, Coordinator
from cluster.client.door import TcpDoor, parse_endpoints
from cluster.client.handoff import LoopWaiter, ThreadWaiter
from cluster.errors import UsageError
from cluster.secrets import Secret, Secrets
from cluster.tls import Credentials, Tls


def _prepare(
    endpoints: str | Iterable[str], secret: Secret, tls: Tls | None, timeout: checks.Seconds, role: str
) -> tuple[Coordinator, list[str], float]:
    addresses = parse_endpoints(endpoints)
    if role not in ("client", "admin"):
        raise UsageError(f"role={role!r} is not known", 'give "client", or "admin" for verbs of operators')
    secrets = Secrets.of(secret)
    secrets.of_role(role)
    credentials = None if tls is None else Credentials(tls)
    timeout_s = checks.timeout_s(timeout)
    door = TcpDoor(addresses, secrets, timeout_s, credentials)
    return Coordinator(door, timeout=timeout_s, role=role), addresses, timeout_s


def connect(
    endpoints: str | Iterable[str],
    *,
    secret: Secret = None,
    tls: Tls | None = None,
    timeout: checks.Seconds = TIMEOUT_S,
    role: str = "client",
) -> Coordinator:
    """Become a client of nodes that run elsewhere.

    Args:
        endpoints: ``"host:port,host:port"``, ``"unix:/path"``, or a sequence of such: one is enough, more are safer.
        secret: the raft group's secret, if it has one; or a mapping from roles to secrets, of which that of ``role`` is used.
        tls: this client's certificate, its key and the authority that all certificates come from; None: no TLS.
        timeout: seconds, 0.001 to 1 day: for this first contact, and the coordinator's default.
        role: ``"client"``, or ``"admin"`` for operators' verbs.

    Returns:
        A coordinator, once one node has answered. That there is a raft leader is not asked.

    Raises:
        UsageError: bad endpoints, secret, TLS files or timeout. Nothing was opened.
        Unavailable: no node answered in time; the message has each address and its reason.
        AuthenticationError: every node refused this client.
        ProtocolError: what answers at every address is no node of this version.
    """
    coordinator, addresses, timeout_s = _prepare(endpoints, secret, tls, timeout, role)
    waiter = ThreadWaiter()
    try:
        coordinator._requests.begin(coordinator._requests.contact(waiter, addresses, timeout_s))
        coordinator._port.wait(waiter)
    except BaseException:
        coordinator.close(limit=0)
        raise
    return coordinator


async def connect_async(
    endpoints: str | Iterable[str],
    *,
    secret: Secret = None,
    tls: Tls | None = None,
    timeout: checks.Seconds = TIMEOUT_S,
    role: str = "client",
) -> Coordinator:
    """``connect`` without blocking the event loop. Its verbs for tasks are under ``.aio``."""
    coordinator, addresses, timeout_s = _prepare(endpoints, secret, tls, timeout, role)
    waiter = LoopWaiter()
    try:
        coordinator._requests.begin(coordinator._requests.contact(waiter, addresses, timeout_s))
        await waiter.future
    except BaseException as error:
        if isinstance(error, GeneratorExit):
            # What is being closed must not await.
            coordinator._port.close_soon(0.0)
        else:
            await coordinator.aio.close(limit=0)
        raise
    return coordinator
