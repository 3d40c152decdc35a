"""What became of runs: one record for each, handed to sinks that can harm no run.

Knows: the record. Must not know: how a run goes (it is told, by ``_engine``), how records travel (``_feed``), where a sink keeps what it
gets (``_history_sinks``).

A run only puts its record into a queue. A sink that fails loses what it was given, one that hangs fills its queue; both are counted
and logged, and no run waits for either.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from types import TracebackType
from typing import Any, Final, Literal, Protocol, TypeVar, runtime_checkable

from cluster.client import checks
from cluster.env import entropy
from cluster.errors import LeaseLostError, UsageError
from cluster.opcodes import Outcome
from tenure._engine import Held, Run, Watching
from tenure._feed import Feed

log = logging.getLogger(__name__)

Self = TypeVar("Self", bound="History")
Status = Literal["acquired", "completed", "failed", "lost", "cancelled", "skipped", "unled"]

MESSAGE_MAX: Final = 500
CLOSE_LIMIT_S: Final = 5.0
_RUN_ID_BYTES: Final = 16
_STATUS: Final[dict[Outcome, Status]] = {
    Outcome.COMPLETED: "completed",
    Outcome.FAILED: "failed",
    Outcome.LOST: "lost",
    Outcome.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run. A sink gets it when the name is granted, and again, with the same ``run_id``, when the run has ended.

    Times are seconds since 1970 by the wall clock of the process that ran: for people; what came first is said by tokens.

    Attributes:
        run_id: 32 hexadecimal digits, new for every run.
        name: as it is stored.
        status: ``"acquired"`` while it runs, or when its process died; then ``"completed"``, ``"failed"``, ``"lost"`` or
            ``"cancelled"``. ``"skipped"``: not granted, or left out in an outage, whose
            error stands in ``error_type`` then. ``"unled"``: ran without a lease, whatever came of it.
        began_at: when the name was granted; for skipped runs when that was known.
        ended_at: None while it runs.
        node_id, slot, token: of the lease; None without one.
        error_type: the type of what the work raised, if it raised.
        message: what that says, at most 500 characters.
    """

    run_id: str
    name: str
    status: Status
    began_at: float
    ended_at: float | None = None
    node_id: str | None = None
    slot: int | None = None
    token: int | None = None
    error_type: str | None = None
    message: str | None = None


@runtime_checkable
class HistorySink(Protocol):
    """Where records go. Both methods are called on one thread of the sink's own; what they raise is logged and counted."""

    def write(self, records: Sequence[RunRecord]) -> None:
        """Take some records, oldest first. One whose ``run_id`` is known replaces that one."""

    def close(self) -> None:
        """Nothing will come any more."""


class Watch(Watching):
    """What one run tells: the hook of ``_engine``. Nothing in here raises or waits."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._record: RunRecord | None = None

    def acquired(self, run: Run[Any], lease: Held) -> None:
        self._record = RunRecord(
            _run_id(), run.name, "acquired", _now(), node_id=lease.node_id, slot=lease.slot, token=lease.token
        )
        self._history._put(self._record)

    def ended(self, run: Run[Any], outcome: Outcome) -> None:
        if self._record is not None:
            # What never began was lost before, or given up.
            status = _STATUS.get(outcome, "lost" if run.lost else "cancelled")
            cause = run.refused or run.error
            if status == "lost" and isinstance(cause, (LeaseLostError, asyncio.CancelledError)):
                # How the work was told, and no error of its own.
                cause = None
            self._end(self._record, status, cause)

    def skipped(self, run: Run[Any]) -> None:
        self.left_out(run.name, None)

    def left_out(self, name: str, outage: BaseException | None) -> None:
        """A run that did not come to be: others held the name, or nobody could be asked."""
        if self._history.records_skipped:
            self._end(RunRecord(_run_id(), name, "skipped", _now()), "skipped", outage)

    def unled(self, name: str) -> None:
        """A run without a lease begins."""
        self._record = RunRecord(_run_id(), name, "unled", _now())
        self._history._put(self._record)

    def unled_ended(self, error: BaseException | None) -> None:
        if self._record is not None:
            self._end(self._record, "unled", error)

    def _end(self, record: RunRecord, status: Status, error: BaseException | None) -> None:
        kind = None if error is None else type(error).__qualname__
        message = None if error is None else _said(error)
        self._history._put(replace(record, status=status, ended_at=_now(), error_type=kind, message=message))


class History:
    """Records of runs, for the electors that are given it as ``history=…``. Close it, or use it in a ``with``, so that sinks get all.

    Each sink has a daemon thread and a queue of 10,000 records of its own. A child that is forked makes a history of its own.

    Args:
        sinks: where the records go: one or several.
        skipped: record runs that were not granted their name, too.

    Attributes:
        dropped: how many records a full queue, a closed history or a forked child cost.
        failed: how many records sinks raised for.

    Raises:
        UsageError: no sinks, or one that is none.

    >>> import tenure
    >>> from tenure.history import History, MemorySink
    >>> memory = MemorySink()
    >>> with tenure.local() as coordinator, History(memory) as history:
    ...     tenure.LeaderElector(coordinator, history=history).run_if_leader("report", lambda: "done")
    'done'
    >>> [(run.name, run.status) for run in memory.runs()]
    [('report', 'completed')]
    """

    def __init__(self, *sinks: HistorySink, skipped: bool = False) -> None:
        if not sinks or not all(isinstance(sink, HistorySink) and not isinstance(sink, type) for sink in sinks):
            raise UsageError(
                "a history needs sinks, which have write and close", "give MemorySink(), SQLiteSink(path), …"
            )
        checks.flag(skipped, "skipped")
        self.records_skipped = skipped
        self._dropped = 0
        self._closed = False
        self._sinks = [_Sink(sink) for sink in sinks]
        self._feeds: list[Feed[RunRecord]] = [Feed("history", sink.take, sink.end) for sink in self._sinks]

    @property
    def dropped(self) -> int:
        return self._dropped + sum(feed.dropped for feed in self._feeds)

    @property
    def failed(self) -> int:
        return sum(sink.failed for sink in self._sinks)

    def watch(self) -> Watch:
        """The hook for one run."""
        return Watch(self)

    def _put(self, record: RunRecord) -> None:
        if self._closed:
            self._dropped += 1
            return
        for feed in self._feeds:
            feed.put(record)

    def flush(self, *, limit: checks.Seconds = CLOSE_LIMIT_S) -> bool:
        """Wait until the sinks have what was recorded so far, at most ``limit`` seconds for each. Returns whether they have."""
        limit_s = checks.limit_s(limit, "limit")
        flushed = [mark.wait(limit_s) for mark in [feed.mark() for feed in self._feeds]]
        return all(flushed)

    def close(self, *, limit: checks.Seconds = CLOSE_LIMIT_S) -> bool:
        """Close: idempotent. What is queued is written, and the sinks are closed, within ``limit`` seconds for each.

        Returns:
            Whether that was done in time.
        """
        limit_s = checks.limit_s(limit, "limit")
        self._closed = True
        closed = [feed.close(limit_s) for feed in self._feeds]
        return all(closed)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Sink:
    """What the thread of one sink calls."""

    def __init__(self, sink: HistorySink) -> None:
        self.failed = 0
        self._sink = sink

    def take(self, batch: list[RunRecord]) -> None:
        self._call(len(batch), self._sink.write, batch)

    def end(self) -> None:
        self._call(0, self._sink.close)

    def _call(self, count: int, call: Any, *args: Any) -> None:
        try:
            call(*args)
        except BaseException:
            # Also SystemExit: it would end nothing but a thread of ours, and what comes later with it.
            self.failed += count
            log.exception("history.failed sink=%s records=%d", type(self._sink).__name__, count)


def _run_id() -> str:
    return entropy(_RUN_ID_BYTES).hex()


def _now() -> float:
    return datetime.now(timezone.utc).timestamp()


def _said(error: BaseException) -> str:
    try:
        return str(error)[:MESSAGE_MAX]
    except Exception as wrong:
        return f"its text could not be made: {type(wrong).__qualname__}"
