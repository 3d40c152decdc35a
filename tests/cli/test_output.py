"""Tables, durations and plain data.

Knows: text. Must not know: the commands.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

from cluster.cli import logs
from cluster.cli.main import complain
from cluster.cli.output import LINES_MAX, Voice, duration, plain, printable, table, voice
from tests.cli.support_cli import fill

pytestmark = pytest.mark.fast


def test_columns_are_as_wide_as_needed_and_numbers_stand_right() -> None:
    text = table(("name", "token"), [("a", 5), ("longer", 12345)])
    assert text == "name    token\na           5\nlonger  12345\n"


def test_an_empty_table_is_its_head() -> None:
    assert table(("name", "token"), []) == "name  token\n"


def test_nothing_reaches_the_terminal_that_it_would_act_on() -> None:
    assert printable("a\x1b[2Jb\n") == "a?[2Jb?"
    assert "\x1b" not in table(("x",), [("\x1b[31m",)])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.0304, "30 ms"), (12.34, "12.3 s"), (250, "4 m 10 s"), (7500, "2 h 5 m")],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@dataclass
class _Thing:
    id: bytes
    parts: tuple[int, ...]


def test_plain_data_is_what_json_can_say() -> None:
    assert json.loads(json.dumps(plain({"a": _Thing(b"\x01\xff", (1, 2))}))) == {"a": {"id": "01ff", "parts": [1, 2]}}


def test_a_json_log_record_is_one_object_with_its_event() -> None:
    record = logging.LogRecord("cluster.x", logging.INFO, __file__, 1, "raft.leader term=%d", (3,), None)
    entry = json.loads(logs._Json().format(record))
    assert (entry["event"], entry["detail"], entry["level"]) == ("raft.leader", "term=3", "info")
    assert "raft.leader term=3" in logs._Text().format(record)


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """Stderr is a pipe."""
    read, write = os.pipe()
    with os.fdopen(read, "rb"), os.fdopen(write, "w") as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        yield read, write
        # Whatever was still being written to it has been given up.
        os.set_blocking(read, False)
        while not voice.finish(0.01):
            with suppress(BlockingIOError):
                os.read(read, 1 << 20)


def test_a_complaint_is_heard() -> None:
    with pipe() as (read, _):
        assert complain(ValueError("one\ntwo"), 7) == 7
        assert voice.finish(10.0)
        assert os.read(read, 100) == b"tenure: one two\n"


def test_a_complaint_that_nobody_reads_is_not_waited_for_and_heard_later() -> None:
    with pipe() as (read, write):
        fill(write)
        complain(ValueError("late"), 1)
        assert not voice.finish(0.02)
        heard = b""
        while not heard.endswith(b"tenure: late\n"):
            heard += os.read(read, 1 << 16)


def test_no_complaint_raises_where_nobody_can_hear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        complain(ValueError("the reader is gone"), 1)
        assert voice.finish(10.0), "given up"
    complain(ValueError("closed"), 1)
    monkeypatch.setattr(sys, "stderr", None)
    complain(ValueError("never was"), 1)
    assert voice.finish(10.0)


def test_what_waits_to_be_said_is_bounded() -> None:
    with pipe() as (read, write):
        fill(write)
        own = Voice()
        for number in range(LINES_MAX + 1):
            own.write(f"<{number}>")
        heard = b""
        while not heard.endswith(f"<{LINES_MAX - 1}>".encode()):
            heard += os.read(read, 1 << 16)
        assert own.finish(10.0)
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)


def test_how_much_was_not_said_is_said() -> None:
    with pipe() as (read, write):
        fill(write)
        own = Voice()
        for number in range(LINES_MAX + 3):
            own.write(f"<{number}>\n")
        heard = b""
        while not heard.endswith(f"<{LINES_MAX - 1}>\n".encode()):
            heard += os.read(read, 1 << 16)
        assert own.finish(10.0)
        own.write("<again>\n")
        while not heard.endswith(b"<again>\n"):
            heard += os.read(read, 1 << 16)
        assert heard.splitlines()[-2] == b"tenure: 3 lines before this one are missing: nobody read them"
