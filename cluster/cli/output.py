"""Tables, durations and JSON for people and scripts; a stderr that nothing waits for.

Knows: text and terminals. Must not know: where the data comes from.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

LINES_MAX: Final = 1000


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Lay out rows in columns as wide as their widest cell; numbers go to the right. Ends with a newline."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max([len(title), *(len(row[column]) for row in cells)]) for column, title in enumerate(head)]
    right = [
        bool(rows) and all(isinstance(row[column], (int, float, type(None))) for row in rows)
        for column in range(len(head))
    ]
    lines = []
    for row in [list(head), *cells]:
        parts = [cell.rjust(widths[i]) if right[i] else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        lines.append("  ".join(parts).rstrip() + "\n")
    return "".join(lines)


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else printable(str(value))


def printable(text: str) -> str:
    """Replace what a terminal would act on: node ids and metadata come from others."""
    return "".join(character if character.isprintable() else "?" for character in text)


def duration(seconds: float | None) -> str:
    """A duration as people write it: ``850 ms``, ``12.3 s``, ``4 m 10 s``, ``2 h 5 m``."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} m"


def yes_no(value: object) -> str:
    return "-" if value is None else "yes" if value else "no"


class Voice:
    """Stderr for who has more urgent things to do than to be heard: nothing is raised, and nobody waits for its reader.

    A thread of its own writes, since the pipe or the terminal is shared with others, and cannot be made non-blocking for one. What does
    not find room is not said, but for how many that were: at most ``LINES_MAX`` texts wait.
    """

    def __init__(self) -> None:
        self._texts: deque[tuple[int, bytes]] = deque()
        self._changed = threading.Condition()
        self._writer: threading.Thread | None = None
        self._unsaid = 0

    def write(self, text: str) -> None:
        stream = sys.stderr
        try:
            number = stream.fileno()
        except (AttributeError, OSError, ValueError):
            # Closed from the start, or replaced by something in memory.
            if stream is not None and not stream.closed:
                stream.write(text)
            return
        with self._changed:
            if len(self._texts) >= LINES_MAX:
                self._unsaid += 1
                return
            if self._unsaid:
                self._texts.append((number, b"tenure: %d lines before this one are missing: nobody read them\n" % self._unsaid))
                self._unsaid = 0
            self._texts.append((number, text.encode("utf-8", "backslashreplace")))
            self._changed.notify_all()
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_all, name="tenure-stderr", daemon=True)
                try:
                    self._writer.start()
                except RuntimeError:
                    # There is no thread to be had.
                    self._writer = None

    def flush(self) -> None:
        """As a stream has it: there is nothing to wait for."""

    def finish(self, patience_s: float) -> bool:
        """Wait at most ``patience_s`` seconds until all is written. Returns whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._texts, patience_s)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._texts)
                number, rest = self._texts[0]
            try:
                while rest:
                    rest = rest[os.write(number, rest) :]
            except OSError:
                # Its reader has gone; the next text may be luckier.
                rest = b""
            with self._changed:
                self._texts.popleft()
                self._changed.notify_all()


voice: Final = Voice()


def emit(text: str) -> None:
    """Write text to stdout at once, so that a reader at the other end of a pipe is never behind."""
    sys.stdout.write(text)
    sys.stdout.flush()


def emit_json(value: Any) -> None:
    """Write one JSON object and a newline to stdout."""
    emit(json.dumps(value, ensure_ascii=False, default=str) + "\n")


def plain(value: Any) -> Any:
    """Turn what the client returns into what JSON can say: dataclasses and named fields into objects, bytes into hex."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value
