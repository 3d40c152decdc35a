"""Tables, durations and plain data.

Knows: text. Must not know: the commands.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

import pytest

from cluster.cli import logs
from cluster.cli.output import duration, plain, printable, table

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
