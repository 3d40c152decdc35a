"""When a schedule's times are, and which of them is due.

Knows: intervals, cron expressions, the outside package ``cronsim``. Must not know: electors, records, what time it is. Times are integer
milliseconds since 1970, UTC.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Final, Literal, Protocol, get_args

from cluster.client import checks
from cluster.errors import UsageError
from cluster.limits import SCHEDULE_EVERY_MAX_MS, SCHEDULE_EVERY_MIN_MS, SCHEDULE_JITTER_MAX_MS

CatchUp = Literal["latest", "none", "all"]
# After a time at which nobody could be asked.
RETRY_MS: Final = 5_000
# While it is another's turn.
AGAIN_MIN_MS: Final = 100


class Ticks(Protocol):
    def after(self, at_ms: int) -> int:
        """The first time after ``at_ms``."""

    def newest(self, at_ms: int) -> int:
        """The last time that is not after ``at_ms``."""


class Every:
    """The multiples of an interval since 1970: the same for all processes, whenever each began."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms

    def after(self, at_ms: int) -> int:
        return self.newest(at_ms) + self._interval_ms

    def newest(self, at_ms: int) -> int:
        return at_ms // self._interval_ms * self._interval_ms


class Cron:
    """The times of a cron expression, in UTC."""

    def __init__(self, expression: object) -> None:
        try:
            import cronsim
        except ImportError as error:
            raise UsageError("cron= needs the package cronsim", "pip install 'tenure[cron]', or give every=") from error
        self._make: Any = cronsim.CronSim
        if not isinstance(expression, str):
            raise UsageError(f"cron is {type(expression).__name__}", 'give a text such as "30 4 * * *", in UTC')
        self._expression = expression
        try:
            self.after(0)
        except (cronsim.CronSimError, StopIteration) as error:
            raise UsageError(
                f"cron={expression!r} is no cron expression that ever comes: {error}",
                'write "minute hour day month weekday"',
            ) from None

    def after(self, at_ms: int) -> int:
        return _ms(next(self._make(self._expression, _moment(at_ms))))

    def newest(self, at_ms: int) -> int:
        return _ms(next(self._make(self._expression, _moment(at_ms + 1000), reverse=True)))


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, timezone.utc)


class Plan:
    """What one schedule does next. Written by one thread or task.

    Args:
        every, cron: one of the two, as in ``tenure.schedules.leader_scheduled``.

    Raises:
        UsageError: naming the field, the value and the unit.
    """

    def __init__(self, every: object, cron: object, jitter: object, catch_up: object) -> None:
        if (every is None) == (cron is None):
            raise UsageError("a schedule has one rhythm", "give every= in seconds, or cron=")
        if catch_up not in get_args(CatchUp):
            raise UsageError(f"catch_up={catch_up!r} is not known", 'give "latest", "none" or "all"')
        self._ticks: Ticks = (
            Every(checks.duration_ms(every, "every", SCHEDULE_EVERY_MIN_MS, SCHEDULE_EVERY_MAX_MS))
            if every is not None
            else Cron(cron)
        )
        self._jitter_ms = checks.duration_ms(jitter, "jitter", 0, SCHEDULE_JITTER_MAX_MS)
        self._catch_up = catch_up
        self._since = 0
        # When it last went to sleep or ended a run, and until when it sleeps.
        self._asleep = 0
        self._until = 0

    def begin(self, now_ms: int) -> None:
        """What came before now was missed by nobody, unless a mark says that others were at work then."""
        self._since = self._asleep = self._until = now_ms

    def due(self, last_ms: int | None, now_ms: int) -> int | None:
        """Which time to run for; ``last_ms`` is the last that was run for, by anyone."""
        after_ms = self._since if last_ms is None else last_ms
        if self._catch_up == "all":
            oldest = self._ticks.after(after_ms)
            return oldest if oldest <= now_ms else None
        if self._catch_up == "none":
            after_ms = max(after_ms, self._asleep)
        newest = self._ticks.newest(now_ms)
        return newest if newest > after_ms else None

    def sleep(self, now_ms: int, share: float, *, failed: bool) -> None:
        """Until the next time, and a ``share`` of the jitter; sooner after a failure that is made up for."""
        self._asleep = now_ms
        self._until = self._ticks.after(now_ms) + round(self._jitter_ms * share)
        if failed and self._catch_up != "none":
            self._until = min(self._until, now_ms + RETRY_MS)

    def again(self, now_ms: int, in_ms: int) -> None:
        """Ask for the same time again; nothing was missed yet."""
        self._until = min(self._ticks.after(now_ms), now_ms + min(max(in_ms, AGAIN_MIN_MS), RETRY_MS))

    def ran(self, now_ms: int) -> None:
        """A run has ended: what came while it went on was missed."""
        self._asleep = now_ms

    def left_ms(self, now_ms: int) -> int:
        """How long to sleep on."""
        return max(0, self._until - now_ms)
