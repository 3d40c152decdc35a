"""Every argument is checked, and refused by name, value and unit, before anything is sent (B6, F6).

Knows: ranges and alphabets. Must not know: what a good call does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.client import checks
from cluster.client.door import parse_endpoints
from cluster.errors import UsageError
from cluster.limits import METADATA_MAX_BYTES
from cluster.secrets import Secrets

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", ["a", "A-1_b:c./d", "0", "x" * 255, "job/1", "job-1", "a:b"])
def test_good_names(name: str) -> None:
    assert checks.name(name) == name.encode()


@pytest.mark.parametrize(
    "name", ["", "-a", "/a", ".a", "_a", ":a", "a b", "a\n", "a\0", "ä", "a\u0661", "x" * 256, "a\\b", None, 1, b"a", ["a"], True]
)
def test_bad_names(name: Any) -> None:
    with pytest.raises(UsageError, match="name"):
        checks.name(name)


@given(st.text(max_size=260))
@settings(max_examples=200)
def test_a_name_is_matched_whole(text: str) -> None:
    try:
        data = checks.name(text)
    except UsageError:
        return
    assert data.decode() == text
    assert 1 <= len(data) <= 255
    assert data[:1].isalnum()
    assert all(chr(byte) in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-:./" for byte in data)


@pytest.mark.parametrize(
    ("seconds", "milliseconds"),
    [(0.1, 100), (1, 1000), (1.0005, 1000), (timedelta(seconds=2), 2000), (7 * 24 * 3600, 604_800_000), (0.29, 290)],
)
def test_good_lease_times(seconds: Any, milliseconds: int) -> None:
    assert checks.lease_ms(seconds) == milliseconds


@pytest.mark.parametrize(
    "seconds",
    [0, -1, 0.0999, 7 * 24 * 3600 + 0.001, math.nan, math.inf, -math.inf, 10**400, True, "1", None, timedelta(0), timedelta(days=8), 1j],
)
def test_bad_lease_times_name_the_field_and_the_unit__B6(seconds: Any) -> None:
    with pytest.raises(UsageError, match=r"lease_time.*second"):
        checks.lease_ms(seconds)


def test_a_wait_that_is_not_zero_is_not_rounded_to_zero__B6() -> None:
    assert checks.duration_ms(0, "wait_time", 0, checks.WAIT_MAX_MS) == 0
    assert checks.duration_ms(0.0001, "wait_time", 0, checks.WAIT_MAX_MS) == 1
    assert checks.duration_ms(-0.0, "wait_time", 0, checks.WAIT_MAX_MS) == 0


def spec(**changes: Any) -> checks.AcquireSpec:
    given: dict[str, Any] = {
        "lease_time": 1,
        "wait_time": 0,
        "leaders": 1,
        "min_lease_time": 0,
        "auto_extend": False,
        "meta": None,
        "node": b"me",
    }
    return checks.acquire_spec((b"job",), **{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"wait_time": -1}, "wait_time"),
        ({"wait_time": math.nan}, "wait_time"),
        ({"wait_time": 31 * 24 * 3600}, "wait_time"),
        ({"min_lease_time": 1.5}, "min_lease_time=1.5 s is longer than lease_time=1 s"),
        ({"min_lease_time": -1}, "min_lease_time"),
        ({"leaders": 0}, "max_leaders"),
        ({"leaders": 1025}, "max_leaders"),
        ({"leaders": True}, "max_leaders"),
        ({"leaders": 2.0}, "max_leaders"),
        ({"auto_extend": 1}, "auto_extend"),
        ({"meta": [1]}, "metadata"),
        ({"meta": {1: 2}}, "metadata"),
        ({"meta": {"a": math.nan}}, "metadata"),
        ({"meta": {"a": object()}}, "metadata"),
        ({"meta": {"a": "\ud800"}}, "metadata"),
        ({"meta": {"a": "x" * METADATA_MAX_BYTES}}, "metadata has"),
    ],
)
def test_bad_acquisitions_name_the_field__B6(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError, match=field):
        spec(**changes)


def test_metadata_is_compact_json_and_comes_back() -> None:
    data = {"host": "ä", "n": 1.5, "list": [1, None, {"deep": True}]}
    assert checks.metadata(data) == '{"host":"ä","n":1.5,"list":[1,null,{"deep":true}]}'.encode()
    assert checks.read_metadata(checks.metadata(data)) == data
    assert checks.metadata(None) == b""
    for foreign in (b"", b"\xff", b"[1]", b"{", b"1"):
        assert checks.read_metadata(foreign) == {}


@pytest.mark.parametrize("node_id", ["", "x" * 256, "ä" * 128, "a\nb", "\x1b[1m", None, 5, b"x"])
def test_bad_node_ids(node_id: Any) -> None:
    with pytest.raises(UsageError, match="node_id"):
        checks.node_id(node_id)


@pytest.mark.parametrize(
    ("check", "bad"),
    [
        (checks.timeout_s, [0, -1, math.inf, True, "x", 100_000]),
        (lambda value: checks.limit_s(value, "limit"), [-1, math.nan, None]),
        (checks.slot, [-1, 1024, True, "0", 1.0]),
        (checks.prefix, ["-a", "a b", None, "x" * 256]),
        (checks.names, ["ab", b"ab", [], ["a", "a"], ["a", ""], [f"n{i}" for i in range(65)], 5, None]),
        (lambda value: checks.flag(value, "force"), [0, None, "yes"]),
    ],
)
def test_bad_values(check: Callable[[Any], object], bad: list[Any]) -> None:
    for value in bad:
        with pytest.raises(UsageError):
            check(value)


def test_good_values() -> None:
    assert checks.prefix("") == b""
    assert checks.slot(None) is None
    assert checks.slot(0) == 0
    assert checks.names(iter(["b", "a"])) == (b"b", b"a")
    assert checks.timeout_s(timedelta(seconds=1.5)) == 1.5


@pytest.mark.parametrize(
    ("endpoints", "found"),
    [
        ("127.0.0.1:7101", ["127.0.0.1:7101"]),
        (" a:1 , b:2,", ["a:1", "b:2"]),
        (["a:1", "b:2", "a:1"], ["a:1", "b:2"]),
        ("[::1]:7101", ["[::1]:7101"]),
        ("unix:/run/x.sock", ["unix:/run/x.sock"]),
    ],
)
def test_good_endpoints__E13(endpoints: Any, found: list[str]) -> None:
    assert parse_endpoints(endpoints) == found


@pytest.mark.parametrize(
    "endpoints",
    ["", ",", [], "a", "a:x", "::1:7101", "a:0", ["a:1", 2], 5, None, b"a:1", [f"h{i}:1" for i in range(65)]],
)
def test_bad_endpoints__E13(endpoints: Any) -> None:
    with pytest.raises(UsageError, match="endpoint"):
        parse_endpoints(endpoints)


def test_a_secret_is_never_in_the_text_of_its_refusal__G3() -> None:
    for secret in ("", b"", 12345678, ["hunter2"], {"admin": 12345678}, {"peer": ""}, {"hunter3": "hunter2"}, {}):
        with pytest.raises(UsageError) as caught:
            Secrets.of(secret)
        assert "hunter2" not in str(caught.value)
        assert "12345678" not in str(caught.value)
