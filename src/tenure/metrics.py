"""Metrics of electors: what is counted and measured, and where it goes.

Knows: the metrics and their labels, the outside package ``prometheus_client``. Must not know: how a run goes, on which thread a metric is
called (``_observers``).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal, Protocol, get_args, runtime_checkable

from cluster.errors import UsageError

__all__ = ["COUNTERS", "HISTOGRAMS", "MemoryMetrics", "Metrics", "Observed", "PrometheusMetrics"]

# What is counted, with its labels and what they mean.
COUNTERS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "elections": (("name", "result"), "Attempts to lead, by result: elected, skipped, unavailable, given_up."),
    "runs": (("name", "result"), "Led runs that ended: completed, failed, lost, cancelled, not_started."),
    "lost": (
        ("name", "reason"),
        "Leases that ended against their holder's will: expired, revoked, not_held, closing, cluster_changed.",
    ),
    "nearly_over": (("name",), "Warnings that a lease without auto_extend had passed 80 % of its time under its work."),
    "unled": (("name",), "Runs without a lease, by failure_mode run_anyway."),
    "listener_errors": (("name",), "Calls of listeners that raised."),
}
# What is measured, in seconds.
HISTOGRAMS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "wait_seconds": (
        ("name", "result"),
        "From the call to the grant, or to its end without one: elected, skipped, unavailable, given_up.",
    ),
    "held_seconds": (("name",), "From the grant to the end of the work."),
}
# The longest holds are of latches.
BUCKETS: Final = (
    0.001,
    0.005,
    0.01,
    0.05,
    0.1,
    0.5,
    1.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
    3600.0,
    21600.0,
    86400.0,
)


@runtime_checkable
class Metrics(Protocol):
    """Where metrics go. Called on one thread of its own, soon after; what it raises is logged and harms no run."""

    def count(self, metric: str, labels: Mapping[str, str], amount: int) -> None:
        """Add to one of ``COUNTERS``."""

    def observe(self, metric: str, labels: Mapping[str, str], seconds: float) -> None:
        """One more value of one of ``HISTOGRAMS``."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Values of one histogram. ``largest`` is 0.0 where there are none."""

    count: int
    total: float
    largest: float


class MemoryMetrics:
    """Metrics in memory, for tests and for small programs. One entry for each combination of labels.

    >>> import tenure
    >>> from tenure.listeners import flush
    >>> from tenure.metrics import MemoryMetrics
    >>> metrics = MemoryMetrics()
    >>> with tenure.local() as coordinator:
    ...     tenure.LeaderElector(coordinator, metrics=metrics).run_if_leader("report", lambda: "done")
    'done'
    >>> flush(), metrics.counted("elections", result="elected"), metrics.observed("held_seconds").count
    (True, 1, 1)
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._counts: dict[tuple[str, frozenset[tuple[str, str]]], int] = {}
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], Observed] = {}

    def count(self, metric: str, labels: Mapping[str, str], amount: int) -> None:
        key = metric, frozenset(labels.items())
        with self._guard:
            self._counts[key] = self._counts.get(key, 0) + amount

    def observe(self, metric: str, labels: Mapping[str, str], seconds: float) -> None:
        key = metric, frozenset(labels.items())
        with self._guard:
            old = self._values.get(key, Observed(0, 0.0, 0.0))
            self._values[key] = Observed(old.count + 1, old.total + seconds, max(old.largest, seconds))

    def counted(self, metric: str, **labels: str) -> int:
        """The sum over all entries of a counter that have these labels. Raises UsageError for another metric or label."""
        _known(metric, labels, COUNTERS)
        wanted = labels.items()
        with self._guard:
            return sum(n for (kind, has), n in self._counts.items() if kind == metric and wanted <= has)

    def observed(self, metric: str, **labels: str) -> Observed:
        """All values of a histogram that have these labels. Raises UsageError for another metric or label."""
        _known(metric, labels, HISTOGRAMS)
        wanted = labels.items()
        with self._guard:
            found = [value for (kind, has), value in self._values.items() if kind == metric and wanted <= has]
        return Observed(
            sum(value.count for value in found),
            sum(value.total for value in found),
            max((value.largest for value in found), default=0.0),
        )


def _known(metric: str, labels: Iterable[str], kinds: Mapping[str, tuple[tuple[str, ...], str]]) -> None:
    if metric not in kinds:
        raise UsageError(f"{metric!r} is no such metric", f"there are {', '.join(kinds)}")
    for label in labels:
        if label not in kinds[metric][0]:
            raise UsageError(f"{metric} has no label {label!r}", f"there are {', '.join(kinds[metric][0])}")


Names = Literal["omit", "hash", "all"]
# In the place of a name that is not among those asked for: no name can be it by chance, since none has a blank in it.
OTHER: Final = "(other names)"


def _checked(names: object) -> str | frozenset[str]:
    if isinstance(names, str):
        if names in get_args(Names):
            return names
    elif isinstance(names, Collection) and all(isinstance(name, str) for name in names):
        return frozenset(names)
    raise UsageError(f"names={names!r} is not known", 'give "omit", "hash", "all" or a collection of names')


class PrometheusMetrics:
    """Metrics for Prometheus, by the package ``prometheus_client`` (``pip install tenure[prometheus]``). All begin with ``tenure_``.

    Args:
        registry: a ``CollectorRegistry``; None: the package's own, which its HTTP server shows. One object of this class for each.
        names: what the label ``name`` says. Every series stays for good, and names may have users' data in them. ``"omit"``: there is no
            such label. A collection of names, as they are stored: these, and ``(other names)`` for all else. ``"hash"``: eight hexadecimal
            digits in the place of each; who can guess a name can check the guess. ``"all"``: the names themselves.

    Raises:
        UsageError: the package is missing, or an argument is something else.
        ValueError: the registry has such metrics already.
    """

    def __init__(self, registry: Any = None, *, names: Names | Collection[str] = "omit") -> None:
        try:
            import prometheus_client as outside
        except ImportError as error:
            raise UsageError(
                "PrometheusMetrics needs the package prometheus_client", "pip install 'tenure[prometheus]'"
            ) from error
        if registry is not None and not isinstance(registry, outside.CollectorRegistry):
            shown = f"the class {registry.__name__}" if isinstance(registry, type) else type(registry).__name__
            raise UsageError(f"registry is {shown}", "give a prometheus_client.CollectorRegistry()")
        self._names = _checked(names)
        self._registry = outside.REGISTRY if registry is None else registry
        self._text = outside.generate_latest
        self._counters = {
            metric: outside.Counter(f"tenure_{metric}", says, self._kept(labels), registry=self._registry)
            for metric, (labels, says) in COUNTERS.items()
        }
        self._histograms = {
            metric: outside.Histogram(
                f"tenure_{metric}", says, self._kept(labels), registry=self._registry, buckets=BUCKETS
            )
            for metric, (labels, says) in HISTOGRAMS.items()
        }

    def _kept(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        return labels if self._names != "omit" else tuple(label for label in labels if label != "name")

    def _said(self, label: str, value: str) -> str:
        if label != "name" or self._names == "all":
            return value
        if self._names == "hash":
            return blake2b(value.encode(), digest_size=4).hexdigest()
        return value if value in self._names else OTHER

    def count(self, metric: str, labels: Mapping[str, str], amount: int) -> None:
        counter = self._counters[metric]
        kept = {label: self._said(label, labels[label]) for label in self._kept(COUNTERS[metric][0])}
        (counter.labels(**kept) if kept else counter).inc(amount)

    def observe(self, metric: str, labels: Mapping[str, str], seconds: float) -> None:
        histogram = self._histograms[metric]
        kept = {label: self._said(label, labels[label]) for label in self._kept(HISTOGRAMS[metric][0])}
        (histogram.labels(**kept) if kept else histogram).observe(seconds)

    def text(self) -> bytes:
        """Everything in the registry, in Prometheus's text format."""
        return self._text(self._registry)
