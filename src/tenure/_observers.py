"""What listeners and metrics are told of a run, and when.

Knows: which step of a run is which call. Must not know: how a run goes (it is told, by ``_engine``), what listeners and metrics do with it.

A run only puts calls into queues (``_feed``): what it tells it tells on its own thread, or, of a loss, on the client's I/O thread, and what
is told is called elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from cluster.client import Coordinator, clock_of
from cluster.env import boot_clock
from cluster.errors import LeaseLostError, UsageError
from cluster.opcodes import Outcome
from tenure._engine import Held, Run, Watching
from tenure._feed import Feed, feed_of
from tenure._history import History
from tenure.listeners import ElectionEvent, ElectionListener, checked
from tenure.metrics import Metrics

log = logging.getLogger(__name__)

Observers = tuple[Callable[[], Watching], ...]
Calls = Feed[Callable[[], object]]


def observers(
    coordinator: Coordinator, listeners: Iterable[ElectionListener], history: History | None, metrics: Metrics | None
) -> Observers:
    """What makes the hooks of each run. Raises UsageError for arguments that are something else."""
    if history is not None and not isinstance(history, History):
        raise UsageError(f"history is {type(history).__name__}", "give a tenure.history.History of sinks")
    if metrics is not None and (isinstance(metrics, type) or not isinstance(metrics, Metrics)):
        raise UsageError(f"metrics is {type(metrics).__name__}", "give MemoryMetrics(), PrometheusMetrics(), …")
    found: list[Callable[[], Watching]] = []
    # A stand-in for a coordinator may have no clock.
    clock = clock_of(coordinator) if isinstance(coordinator, Coordinator) else boot_clock
    meter = None if metrics is None else Meter(metrics, clock)
    if history is not None:
        found.append(history.watch)
    if meter is not None:
        found.append(meter.watch)
    heard = [(listener, feed_of(listener, "listener")) for listener in checked(listeners)]
    if heard:
        audience = Audience(heard, meter)
        found.append(lambda: Telling(audience))
    return tuple(found)


class Audience:
    """The listeners of one elector."""

    def __init__(self, heard: list[tuple[ElectionListener, Calls]], meter: Meter | None) -> None:
        self._heard = heard
        self._meter = meter

    def tell(self, method: str, event: ElectionEvent) -> None:
        for listener, calls in self._heard:
            calls.put(_Call(listener, method, event, self._meter))


class _Call:
    """One call of one listener."""

    __slots__ = ("_event", "_listener", "_meter", "_method")

    def __init__(self, listener: ElectionListener, method: str, event: ElectionEvent, meter: Meter | None) -> None:
        self._listener = listener
        self._method = method
        self._event = event
        self._meter = meter

    def __call__(self) -> None:
        try:
            getattr(self._listener, self._method)(self._event)
        except BaseException:
            # Also SystemExit: it would end nothing but a thread of ours.
            shown, event = type(self._listener).__name__, self._event
            log.exception(
                "listener.failed listener=%s call=%s name=%s token=%s", shown, self._method, event.name, event.token
            )
            if self._meter is not None:
                self._meter.count("listener_errors", name=event.name)


class Telling(Watching):
    """What listeners are told of one run."""

    def __init__(self, audience: Audience) -> None:
        self._audience = audience
        self._event: ElectionEvent | None = None
        # Who takes what is in here says how the lease ended: the thread that hears of a loss, or the run's own.
        self._unended: deque[None] = deque()
        self._disarm: Callable[[], None] | None = None

    def acquired(self, run: Run[Any], lease: Held) -> None:
        event = self._event = ElectionEvent(run.name, "", lease.node_id, lease.slot, lease.token)
        self._unended.append(None)
        self._audience.tell("on_elected", event)
        self._disarm = lease.lost.on_set(lambda: self._end("on_lost", event, lease.lost.reason))

    def _end(self, method: str, event: ElectionEvent, reason: str) -> None:
        try:
            self._unended.pop()
        except IndexError:
            return
        self._audience.tell(method, replace(event, reason=reason))

    def ended(self, run: Run[Any], outcome: Outcome) -> None:
        if self._event is None or run.lease is None:
            return
        if self._disarm is not None:
            self._disarm()
        error = run.refused or run.error
        if run.lost and isinstance(error, (LeaseLostError, asyncio.CancelledError)):
            # How the work was told, and no error of its own.
            error = None
        if isinstance(error, Exception):
            self._audience.tell("on_action_failed", replace(self._event, reason=type(error).__qualname__, error=error))
        if run.lost:
            self._end("on_lost", self._event, run.lease.lost.reason)
        else:
            self._end("on_released", self._event, outcome.name.lower())

    def skipped(self, run: Run[Any]) -> None:
        self._audience.tell("on_skipped", ElectionEvent(run.name, "not_elected" if run.elective else "held"))

    def left_out(self, name: str, outage: BaseException) -> None:
        self._audience.tell("on_skipped", ElectionEvent(name, "unavailable", error=outage))


class Meter:
    """The metrics of one elector. ``clock``: what they measure with."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self.clock = clock
        self._calls = feed_of(metrics, "metrics")

    def watch(self) -> Watching:
        return Measuring(self)

    def count(self, metric: str, amount: int = 1, **labels: str) -> None:
        self._calls.put(lambda: self._guarded(self._metrics.count, metric, labels, amount))

    def observe(self, metric: str, seconds: float, **labels: str) -> None:
        self._calls.put(lambda: self._guarded(self._metrics.observe, metric, labels, seconds))

    def _guarded(self, call: Callable[..., object], *args: object) -> None:
        try:
            call(*args)
        except BaseException:
            # Also SystemExit, as of listeners.
            log.exception("metrics.failed metrics=%s", type(self._metrics).__name__)


class Measuring(Watching):
    """What metrics are told of one run, which begins now."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._since = meter.clock()
        self._held = False

    def _settled(self, name: str, result: str) -> None:
        now = self._meter.clock()
        self._meter.count("elections", name=name, result=result)
        self._meter.observe("wait_seconds", now - self._since, name=name, result=result)
        self._since = now

    def acquired(self, run: Run[Any], lease: Held) -> None:
        self._held = True
        self._settled(run.name, "elected")

    def skipped(self, run: Run[Any]) -> None:
        self._settled(run.name, "skipped")

    def unanswered(self, run: Run[Any]) -> None:
        self._settled(run.name, "unavailable")

    def given_up(self, run: Run[Any]) -> None:
        self._settled(run.name, "given_up")

    def ended(self, run: Run[Any], outcome: Outcome) -> None:
        lease = run.lease
        if not self._held or lease is None:
            return
        self._meter.count("runs", name=run.name, result=outcome.name.lower())
        self._meter.observe("held_seconds", self._meter.clock() - self._since, name=run.name)
        if run.lost:
            self._meter.count("lost", name=run.name, reason=lease.lost.reason)
        if lease.warnings:
            self._meter.count("nearly_over", lease.warnings, name=run.name)

    def unled(self, name: str) -> None:
        self._meter.count("unled", name=name)
