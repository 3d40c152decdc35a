"""How log records look on stderr: text for people, or one JSON object a line.

Knows: ``logging``. Must not know: who logs what. Only the command line configures logging; the library never does.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, TextIO

from cluster.cli.output import Voice


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = f"{_stamp(record)} {record.levelname:<7} {record.name} {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        event, _, detail = message.partition(" ")
        entry = {"time": _stamp(record), "level": record.levelname.lower(), "logger": record.name, "event": event}
        if detail:
            entry["detail"] = detail
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def _stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def configure(level: str, form: str, stream: TextIO | Voice) -> None:
    """Send the records of this process to a stream.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        form: ``text`` or ``json``.
        stream: stderr, or the voice of who must not wait for it.
    """
    handler: logging.StreamHandler[Any] = logging.StreamHandler(stream)
    handler.setFormatter(_Json() if form == "json" else _Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
