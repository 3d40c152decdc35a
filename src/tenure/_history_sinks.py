"""Where records of runs are kept: in memory, in the log, in an SQLite file.

Knows: records and what a sink is. Must not know: queues, threads of sinks, runs. Memory and file can be read from any thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sqlite3
import threading
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import Final

from cluster.client import checks
from cluster.errors import UsageError
from tenure._history import RunRecord

KEEP: Final = 100_000
_KEEP_MAX: Final = 1 << 31
_KEEP_FOR_MAX_MS: Final = 3660 * 24 * 3600 * 1000
_BUSY_S: Final = 5.0
_FIELDS: Final = [field.name for field in dataclasses.fields(RunRecord)]
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS tenure_runs (
    run_id TEXT PRIMARY KEY, name TEXT NOT NULL, status TEXT NOT NULL, began_at REAL NOT NULL, ended_at REAL,
    node_id TEXT, slot INTEGER, token INTEGER, error_type TEXT, message TEXT
);
CREATE INDEX IF NOT EXISTS tenure_runs_by_time ON tenure_runs (began_at);
"""
_UPSERT: Final = f"INSERT OR REPLACE INTO tenure_runs ({', '.join(_FIELDS)}) VALUES ({', '.join('?' * len(_FIELDS))})"
_SELECT: Final = f"SELECT {', '.join(_FIELDS)} FROM tenure_runs WHERE ? IS NULL OR name = ? ORDER BY began_at, run_id"
_TRIM: Final = """DELETE FROM tenure_runs WHERE run_id IN
(SELECT run_id FROM tenure_runs ORDER BY began_at DESC, run_id LIMIT -1 OFFSET ?)"""


class MemorySink:
    """Keeps the newest records in memory.

    Args:
        keep: how many, 1 to 2^31.
    """

    def __init__(self, keep: int = KEEP) -> None:
        self._keep = _checked(keep)
        self._guard = threading.Lock()
        self._records: dict[str, RunRecord] = {}

    def write(self, records: Sequence[RunRecord]) -> None:
        with self._guard:
            for record in records:
                self._records[record.run_id] = record
            for old in list(self._records)[: max(0, len(self._records) - self._keep)]:
                del self._records[old]

    def close(self) -> None:
        """Nothing to do: what is kept can be read on."""

    def runs(self, name: str | None = None) -> list[RunRecord]:
        """The runs, in the order in which they began; of one name (as it is stored), or of all."""
        with self._guard:
            return [record for record in self._records.values() if name is None or record.name == name]


class LoggingSink:
    """Writes each record to a logger: ``run.completed name=… token=…``.

    Args:
        logger: its name.
        level: of the lines; failed, lost and unled runs are warnings at least.
    """

    def __init__(self, logger: str = "tenure.runs", level: int = logging.INFO) -> None:
        self._log = logging.getLogger(logger)
        self._level = level

    def write(self, records: Sequence[RunRecord]) -> None:
        for record in records:
            level = max(self._level, logging.WARNING) if record.status in ("failed", "lost", "unled") else self._level
            self._log.log(
                level,
                "run.%s name=%s slot=%s token=%s node_id=%s run_id=%s error=%s message=%r",
                record.status,
                record.name,
                record.slot,
                record.token,
                record.node_id,
                record.run_id,
                record.error_type,
                record.message,
            )

    def close(self) -> None:
        """Nothing to do."""


class SQLiteSink:
    """Keeps the newest records in an SQLite file, table ``tenure_runs``, that several processes of one machine may share.

    Args:
        path: of the file; made if it is missing.
        keep: how many records, 1 to 2^31.
        keep_for: how long, in seconds, 1 s to 10 years, by the wall clock; None: only ``keep`` counts.

    Raises:
        UsageError: a bad argument. A file that cannot be used is logged and counted when records come, see ``History.failed``.
    """

    def __init__(self, path: str, *, keep: int = KEEP, keep_for: float | timedelta | None = None) -> None:
        if not isinstance(path, str) or not path or path == ":memory:":
            raise UsageError(f"path={path!r} is no file", "give the path of a file, or use MemorySink")
        self._path = path
        self._keep = _checked(keep)
        self._keep_s: float | None = None
        if keep_for is not None:
            self._keep_s = checks.duration_ms(keep_for, "keep_for", 1000, _KEEP_FOR_MAX_MS) / 1000

    def write(self, records: Sequence[RunRecord]) -> None:
        with contextlib.closing(self._connect()) as connection, connection:
            connection.executemany(_UPSERT, [dataclasses.astuple(record) for record in records])
            connection.execute(_TRIM, (self._keep,))
            if self._keep_s is not None:
                oldest = datetime.now(timezone.utc).timestamp() - self._keep_s
                connection.execute("DELETE FROM tenure_runs WHERE began_at < ?", (oldest,))

    def close(self) -> None:
        """Nothing to do: the file is closed after each write."""

    def runs(self, name: str | None = None) -> list[RunRecord]:
        """The runs, in the order in which they began; of one name (as it is stored), or of all.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        with contextlib.closing(self._connect()) as connection:
            return [RunRecord(*row) for row in connection.execute(_SELECT, (name, name))]

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY_S)
        try:
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection


def _checked(keep: object) -> int:
    if isinstance(keep, bool) or not isinstance(keep, int) or not 1 <= keep <= _KEEP_MAX:
        raise UsageError(f"keep={keep!r} is no number of records", f"give 1 to {_KEEP_MAX}")
    return keep
