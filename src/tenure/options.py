"""What an elector asks for, checked when it is written down.

Knows: the options and which of them fit together. Must not know: coordinators, leases, loops. The ranges are the client's own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from cluster.client import checks
from cluster.errors import UsageError
from cluster.limits import ELECTION_TIMEOUT_MAX_S, LEASE_MAX_MS

log = logging.getLogger(__name__)

OnLost = Literal["cancel", "signal"]
NodeId = str | Callable[[], str]

# A lease that is shorter may run out during one change of raft leader, however healthy its holder is.
_LEASE_ADVISED_S: Final = 5 * ELECTION_TIMEOUT_MAX_S


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """Options of an elector. Durations are seconds, as a number or a ``timedelta``; they are kept as float seconds.

    Args:
        wait_time: how long a caller waits for its turn, 0 s to 30 days. 0 is exactly one attempt.
        lease_time: how long the name is held without a renewal, counted from the grant, 0.1 s to 7 days. Below five
            election timeouts (3 s) a warning is logged, since one change of raft leader may outlast it.
        node_id: what people see as the holder, 1 to 255 bytes of printable text; or a function that says it, called at every
            attempt (see ``tenure.identity``). None: the coordinator's, by default ``hostname:pid``. It is no ownership: two
            electors with one node id are two contenders.
        min_lease_time: after an early end the name stays occupied until the grant plus this long; 0 s to ``lease_time``.
        auto_extend: renew the lease for as long as the action runs.
        on_lost: what happens to a running action whose lease is lost. ``"cancel"``: it is cancelled (the default of the asyncio
            and future forms, refused by the others); ``"signal"``: only ``lease.lost`` is set. None: the elector's default.
        worker_version: which release of your program asks, 1 to 64 bytes of printable text: kept with the lease, and shown by
            ``coordinator.leases`` and the command ``leases``. Nothing is decided by it.

    Raises:
        UsageError: naming the field, the value and the unit.

    >>> ElectionOptions(wait_time=1, lease_time=timedelta(minutes=5)).lease_time
    300.0
    """

    wait_time: float | timedelta = 5.0
    lease_time: float | timedelta = 60.0
    node_id: NodeId | None = None
    min_lease_time: float | timedelta = 0.0
    auto_extend: bool = False
    on_lost: OnLost | None = None
    worker_version: str | None = None

    def __post_init__(self) -> None:
        _settle(self)


@dataclass(frozen=True, slots=True)
class GroupElectionOptions:
    """Options of a group elector: those of ``ElectionOptions``, and how many may lead.

    Args:
        max_leaders: how many may lead at once, one per slot, 1 to 1024. Where callers differ, the smallest counts.

    Raises:
        UsageError: naming the field, the value and the unit.

    >>> GroupElectionOptions(3, wait_time=0).max_leaders
    3
    """

    max_leaders: int = 2
    wait_time: float | timedelta = 5.0
    lease_time: float | timedelta = 60.0
    node_id: NodeId | None = None
    min_lease_time: float | timedelta = 0.0
    auto_extend: bool = False
    on_lost: OnLost | None = None
    worker_version: str | None = None

    def __post_init__(self) -> None:
        checks.max_leaders(self.max_leaders)
        _settle(self)


AnyOptions = ElectionOptions | GroupElectionOptions


def _settle(options: AnyOptions) -> None:
    """Check what both kinds share, and keep durations as float seconds."""
    checks.duration_ms(options.wait_time, "wait_time", 0, checks.WAIT_MAX_MS)
    checks.lease_ms(options.lease_time)
    checks.duration_ms(options.min_lease_time, "min_lease_time", 0, LEASE_MAX_MS)
    lease_s = _seconds(options.lease_time)
    minimum_s = _seconds(options.min_lease_time)
    if minimum_s > lease_s:
        raise UsageError(
            f"min_lease_time={minimum_s:g} s is longer than lease_time={lease_s:g} s",
            "give at most the lease_time, in seconds",
        )
    if options.node_id is not None and not callable(options.node_id):
        checks.node_id(options.node_id)
    if options.worker_version is not None:
        checks.worker_version(options.worker_version)
    checks.flag(options.auto_extend, "auto_extend")
    if options.on_lost not in (None, "cancel", "signal"):
        raise UsageError(f"on_lost={options.on_lost!r} is not known", 'give "cancel", "signal" or None')
    object.__setattr__(options, "wait_time", _seconds(options.wait_time))
    object.__setattr__(options, "lease_time", lease_s)
    object.__setattr__(options, "min_lease_time", minimum_s)
    if lease_s < _LEASE_ADVISED_S:
        log.warning(
            "options.lease-short lease_time_s=%g advised_s=%g: one change of raft leader may outlast such a lease",
            lease_s,
            _LEASE_ADVISED_S,
        )


def _seconds(value: float | timedelta) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)
