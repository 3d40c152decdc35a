"""What every elector has: whom it asks, for which names, with which options.

Knows: the coordinator, the options, tenants' names. Must not know: actions, threads, loops, endings. So names and options mean the same
in every form.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Final, Generic, TypeVar

from cluster.client import Coordinator, LeaderGroupState, LeaderState, checks
from cluster.client.values import WORKER_VERSION
from cluster.errors import UsageError
from tenure._engine import Run, Watching
from tenure._history import History
from tenure._observers import Observers, observers
from tenure.listeners import ElectionListener
from tenure.metrics import Metrics
from tenure.options import AnyOptions, ElectionOptions, GroupElectionOptions

Self = TypeVar("Self", bound="Asking[Any]")
Opt = TypeVar("Opt", bound=AnyOptions)

_TENANT_RULE: Final = "use a text as for a name, without ':'"


class Asking(Generic[Opt]):
    """The part of an elector that its forms share.

    Attributes:
        options: as given, or the defaults.
        tenant: whose elector this is; None: nobody's.
    """

    options: Opt
    tenant: str | None = None
    # Whether there is a way to cancel this form's action.
    _cancellable: ClassVar[bool] = False

    def __init__(self, coordinator: Coordinator, options: Opt, observers: Observers = ()) -> None:
        if not callable(getattr(coordinator, "acquire", None)):
            raise UsageError(
                f"an elector needs a coordinator, not {type(coordinator).__name__}",
                "give what tenure.join, tenure.connect or tenure.local returned",
            )
        if options.on_lost == "cancel" and not self._cancellable:
            raise UsageError(
                'on_lost is "cancel", and a function in a thread cannot be cancelled',
                "leave it out and watch current_lease().lost in the action, or use AsyncLeaderElector",
            )
        self.options = options
        self._coordinator = coordinator
        self._observers = observers

    def for_tenant(self: Self, tenant_id: str) -> Self:
        """The same elector with names of its own: ``name`` is stored as ``tenant:<tenant_id>:<name>``.

        A tenant is a name space, not a security boundary. In the action the lease has its stored name.

        Args:
            tenant_id: text as for a name, without ``:``. The whole stored name obeys the limit of names, 255 characters.

        Raises:
            UsageError: a bad tenant id, or this is a tenant's elector already.
        """
        if self.tenant is not None:
            raise UsageError(
                f"this elector is tenant {self.tenant!r}'s already", "call for_tenant on the elector that has no tenant"
            )
        _without_colon(tenant_id, "tenant_id")
        twin = copy.copy(self)
        twin.tenant = tenant_id
        return twin

    @property
    def _cancels(self) -> bool:
        return self._cancellable and self.options.on_lost != "signal"

    def _stored(self, name: str) -> str:
        """The name as it is stored. Checked here, so that no name means another one."""
        if self.tenant is None:
            checks.name(name)
            return name
        _without_colon(name, "name")
        stored = f"tenant:{self.tenant}:{name}"
        checks.name(stored, "the tenant's full name")
        return stored

    def _new_run(self, name: str) -> Run[Any]:
        """The record of a run that begins now. Raises UsageError for a bad name."""
        return Run(self._stored(name), self._watching())

    def _watching(self) -> list[Watching]:
        """Who is told what becomes of one run."""
        return [watch() for watch in self._observers]

    def _request(self) -> dict[str, Any]:
        """The options of one attempt. Calls the caller's own ``node_id`` function, whatever that raises."""
        options = self.options
        return {
            "lease_time": options.lease_time,
            "wait_time": options.wait_time,
            "max_leaders": max_leaders(options),
            "min_lease_time": options.min_lease_time,
            "auto_extend": options.auto_extend,
            "node_id": self._as_whom(),
            "metadata": None if options.worker_version is None else {WORKER_VERSION: options.worker_version},
        }

    def _as_whom(self) -> str | None:
        node_id = self.options.node_id
        return node_id() if callable(node_id) else node_id

    def _shown(self, name: str, state: LeaderState) -> LeaderState:
        return replace(state, name=name)

    def _shown_group(self, name: str, state: LeaderGroupState) -> LeaderGroupState:
        """As the elector's caller means it: a name that nobody holds has all slots free."""
        limit = max_leaders(self.options)
        found = state.max_leaders if state.max_leaders is not None else limit
        free = state.available_slots if state.available_slots is not None else limit
        return replace(state, name=name, max_leaders=found, available_slots=free)


def max_leaders(options: AnyOptions) -> int:
    return options.max_leaders if isinstance(options, GroupElectionOptions) else 1


class OneLeader(Asking[ElectionOptions]):
    """An elector of one leader."""

    def __init__(
        self,
        coordinator: Coordinator,
        options: ElectionOptions | None = None,
        *,
        listeners: Iterable[ElectionListener] = (),
        history: History | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        options = ElectionOptions() if options is None else options
        if not isinstance(options, ElectionOptions):
            raise UsageError(f"options are {type(options).__name__}", "give ElectionOptions(…), or use a group elector")
        super().__init__(coordinator, options, observers(coordinator, listeners, history, metrics))


class ManyLeaders(Asking[GroupElectionOptions]):
    """A group elector."""

    def __init__(
        self,
        coordinator: Coordinator,
        options: GroupElectionOptions | None = None,
        *,
        listeners: Iterable[ElectionListener] = (),
        history: History | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        options = GroupElectionOptions() if options is None else options
        if not isinstance(options, GroupElectionOptions):
            raise UsageError(f"options are {type(options).__name__}", "give GroupElectionOptions(max_leaders=…, …)")
        super().__init__(coordinator, options, observers(coordinator, listeners, history, metrics))


class One(OneLeader):
    """The state of one leader, for threads."""

    def state(self, name: str, *, consistent: bool = False) -> LeaderState:
        """Who leads ``name`` now: a snapshot for people, never for deciding to run.

        Args:
            name: as in ``run_if_leader``; a tenant's elector shows it as ``name``, and as ``full_name`` what is stored.
            consistent: see everything that was acknowledged before this call, at the price of a round through the log.

        Raises:
            UsageError, Unavailable.
        """
        return self._shown(name, self._coordinator.state(self._stored(name), consistent=consistent))


class Many(ManyLeaders):
    """The state of a leader group, for threads."""

    def group_state(self, name: str, *, consistent: bool = False) -> LeaderGroupState:
        """Who leads the slots of ``name`` now, and how many are free: a snapshot for people, never for deciding to run.

        While nobody leads, ``max_leaders`` is this elector's own. Arguments and errors are those of ``LeaderElector.state``.
        """
        return self._shown_group(name, self._coordinator.group_state(self._stored(name), consistent=consistent))


def _without_colon(value: str, field: str) -> None:
    checks.name(value, field)
    if ":" in value:
        raise UsageError(f"{field} {value!r} has a ':'", f"it would mean another tenant's name; {_TENANT_RULE}")


def holder_of(state: LeaderState) -> str | None:
    return None if state.leader is None else state.leader.node_id
