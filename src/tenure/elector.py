"""The blocking forms: the action runs in the calling thread.

Knows: the order acquire, run, release, and that a signal may raise between any two instructions. Must not know: what an ending means
(``_engine``), names and options (``_asking``), how a lease travels (the coordinator).
"""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable
from typing import Any, Generic, Literal, ParamSpec, TypeVar, overload

from cluster.client import Lease
from cluster.errors import CoordinationError, UsageError
from cluster.opcodes import Outcome
from tenure import context
from tenure._actions import check_sync, refuse_late
from tenure._asking import Asking, Many, One, Opt, holder_of
from tenure._engine import HOLDER_TIMEOUT_S, Run, lost_error, not_granted
from tenure.options import ElectionOptions, GroupElectionOptions
from tenure.results import RunResult

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
L = TypeVar("L", bound="Lease | None")


class Body(Asking[Opt]):
    """What every form has that is used from plain threads: ``leading``, for a body in the calling thread."""

    @overload
    def leading(self, name: str, *, optional: Literal[False] = False) -> Leading[Lease]: ...
    @overload
    def leading(self, name: str, *, optional: bool) -> Leading[Lease | None]: ...
    def leading(self, name: str, *, optional: bool = False) -> Leading[Lease] | Leading[Lease | None]:
        """A context manager whose body runs in the calling thread while ``name`` is held.

        The lease is released on every way out of the body, also when the generator around it is closed. The body's own
        exception wins; a body that ends by itself after its lease was lost ends in ``LeaseLostError``.

        Args:
            name: what to lead.
            optional: yield None when the name is not granted, instead of raising.

        Raises:
            NotLeaderError: on entry, when not granted within ``wait_time`` and not ``optional``.
            Unavailable, Indeterminate, UsageError: on entry.
            LeaseLostError: on exit.
        """
        return Leading(self, name, optional)

    def _attempt(self, stored: str) -> Callable[[str], Lease | None]:
        # A ``partial``, which is no Python frame: see ``_run``.
        return functools.partial(self._coordinator.acquire, **self._request())


class Blocking(Body[Opt]):
    """The blocking form, for one leader or a group."""

    def run_if_leader(self, name: str, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Run ``action(*args, **kwargs)`` if this caller is granted ``name`` within ``wait_time``.

        Args:
            name: what to lead.
            action: a function whose work is done when it returns. One that returns a coroutine, a generator or a future is refused.

        Returns:
            What the action returned, or None when the name was not granted (the action did not run).

        Raises:
            LeaseLostError: the lease was lost while the action ran; what the action raised is its ``__cause__``.
            Unavailable: no raft leader with a majority; the action did not run.
            Indeterminate: it could not be settled in time whether the name was granted; the action did not run.
            UsageError: a bad name or action. What an action returned that would run later was called off.
            BaseException: what the action raised, unchanged, after the release.
        """
        return self._run(name, action, args, kwargs).value()

    def run_if_leader_result(
        self, name: str, action: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> RunResult[T]:
        """Like ``run_if_leader``, with the ending as a value: ``Elected``, ``Skipped``, ``ActionFailed`` or ``LeaseLost``.

        Raises:
            Unavailable, Indeterminate, UsageError: as ``run_if_leader``.
            BaseException: what the action raised that is no ``Exception``, such as ``KeyboardInterrupt``, after the release.
        """
        run = self._run(name, action, args, kwargs)
        if run.lease is None:
            run.holder = self._holder(run.name)
        return run.result()

    def _holder(self, stored: str) -> str | None:
        try:
            return holder_of(self._coordinator.state(stored, timeout=HOLDER_TIMEOUT_S))
        except CoordinationError:
            # The run was skipped either way; who holds the name is for people to read.
            return None

    def _run(self, name: str, action: Callable[..., T], args: tuple[object, ...], kwargs: dict[str, object]) -> Run[T]:
        check_sync(action)
        run: Run[T] = self._new_run(name)
        granted: list[Lease | None] = []
        # Ctrl-C may raise between any two instructions. The grant is stored by ``extend`` itself, with no instruction of ours
        # between the coordinator's return and the list; and the release stands in two nested ``finally`` blocks, of which one
        # interrupt can cut short only one.
        try:
            try:
                acquire = self._attempt(run.name)
                granted.extend(map(acquire, (run.name,)))
                lease = granted[0]
                if lease is None:
                    run.passed_over()
                else:
                    run.granted(lease)
                    if run.may_begin():
                        context.push(lease)
                        value = action(*args, **kwargs)
                        run.refused = refuse_late(action, value)
                        run.completed(value)
            except BaseException as error:
                run.failed(error)
                if not granted:
                    run.unanswered(error)
                if not run.begun or not isinstance(error, Exception):
                    raise
            finally:
                _release(run, granted)
        finally:
            _release(run, granted)
        return run


class LeaderElector(One, Blocking[ElectionOptions]):
    """Run a plain function only where its name is granted, in the calling thread.

    One elector may be used by many threads. It is not reentrant: a nested call for the same name is an ordinary contender.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect`` or ``tenure.local``.
        options: see ``ElectionOptions``. A running function cannot be cancelled, so ``on_lost="cancel"`` is refused.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.

    Raises:
        UsageError: options that a blocking elector cannot honour.

    >>> import tenure
    >>> with tenure.local() as coordinator:
    ...     elector = tenure.LeaderElector(coordinator)
    ...     elector.run_if_leader("nightly-report", lambda: "done")
    'done'
    """


class LeaderGroupElector(Many, Blocking[GroupElectionOptions]):
    """``LeaderElector`` for up to ``max_leaders`` at once: each leads a slot of its own, under a token of its own.

    Args:
        coordinator: from ``tenure.join``, ``tenure.connect`` or ``tenure.local``.
        options: see ``GroupElectionOptions``. ``on_lost="cancel"`` is refused.
        listeners: who is told what becomes of runs; see ``tenure.ElectionListener``.
        history: who keeps a record of every run; see ``tenure.history.History``.
        metrics: where runs are counted and measured; see ``tenure.metrics``.

    Raises:
        UsageError: options that a blocking elector cannot honour.

    >>> import tenure
    >>> with tenure.local() as coordinator:
    ...     elector = tenure.LeaderGroupElector(coordinator, tenure.GroupElectionOptions(2))
    ...     elector.run_if_leader("resize-images", lambda: tenure.current_lease().slot)
    0
    """


class Leading(Generic[L]):
    """What ``leading`` of a blocking elector returns; good for one ``with``."""

    def __init__(self, elector: Body[Any], name: str, optional: bool) -> None:
        self._elector = elector
        self._optional = optional
        self._run: Run[None] = elector._new_run(name)
        self._granted: list[Lease | None] = []
        # An interrupt before the first instruction of ``__exit__`` leaves no other chance than this object's end.
        self._last_chance = weakref.finalize(self, _abandon, self._run, self._granted)
        self._last_chance.atexit = False

    def __enter__(self) -> L:
        if self._granted:
            raise UsageError(f"leading({self._run.name!r}) was entered twice", "call leading(name) for each with block")
        try:
            acquire = self._elector._attempt(self._run.name)
            self._granted.extend(map(acquire, (self._run.name,)))
            lease: Any = self._granted[0]
            if lease is not None:
                self._run.granted(lease)
                if not self._run.may_begin():
                    raise lost_error(self._run.name, lease.token)
                context.push(lease)
            else:
                self._run.passed_over()
                if not self._optional:
                    raise not_granted(self._run.name)
            entered: L = lease
            return entered
        except BaseException as error:
            if not self._granted:
                self._run.unanswered(error)
            _release(self._run, self._granted)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._run.completed(None)
            else:
                self._run.failed(error)
            _release(self._run, self._granted)
        finally:
            _release(self._run, self._granted)
        self._last_chance.detach()
        if error is None:
            self._run.value()


def _abandon(run: Run[None], granted: list[Lease | None]) -> None:
    """The ``with`` was left and its exit did not run."""
    lease = granted[0] if granted else None
    if lease is not None and not run.released:
        context.remove(lease)
        lease.release_soon(run.outcome())


def _release(run: Run[T], granted: list[Lease | None]) -> None:
    """Give back what was granted, once; called twice in a row, so that an interrupt of the first call is made good by the second."""
    lease = granted[0] if granted else None
    if lease is None or run.released:
        return
    run.granted(lease)
    context.remove(lease)
    try:
        _give_back(lease, run.outcome())
    except CoordinationError as error:
        # The work is done and its ending is the caller's; the lease runs out by itself.
        log.warning("release.unconfirmed name=%s token=%d error=%s", run.name, lease.token, error)
    run.released = True


def _give_back(lease: Lease, outcome: Outcome) -> None:
    try:
        lease.release(outcome)
    except UsageError:
        # A generator may be collected, and its ``with`` left, on a thread that must not block.
        lease.release_soon(outcome)
