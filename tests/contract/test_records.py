"""Replicated records and the fence around them, for every coordinator and form: I10.

Knows: the public contract of ``coordinator.records``. Must not know: how a write travels.
"""

from __future__ import annotations

from typing import Any

import pytest

from tenure import FencedError, Record, UsageError, VersionConflictError
from tests.contract.conftest import Ways
from tests.contract.support_forms import Form
from tests.support import eventually


def test_what_one_wrote_the_other_reads__E16(ways: Ways, form: Form, name: str) -> None:
    assert form.record(ways.one, "get", name) is None
    written = form.record(ways.one, "put", name, b"first")
    assert (written.value, written.token) == (b"first", None)
    assert form.record(ways.other, "get", name) == written
    again = form.record(ways.other, "put", name, b"")
    assert again.version > written.version
    assert form.record(ways.one, "get", name) == again == Record(b"", again.version, None)
    assert form.record(ways.one, "delete", name) is True
    assert form.record(ways.other, "delete", name) is False
    assert form.record(ways.other, "get", name) is None


def test_the_first_write_with_a_lease_binds_the_record__I10(ways: Ways, form: Form, name: str) -> None:
    form.record(ways.one, "put", name, b"anybody's")
    lease = form.acquire(ways.one, name)
    mine = form.record(ways.one, "put", name, b"mine", lease=lease)
    assert (mine.token, mine.version > lease.token) == (lease.token, True)
    with pytest.raises(FencedError, match=r"bound to .* under no lease"):
        form.record(ways.other, "put", name, b"not yours")
    with pytest.raises(FencedError):
        form.record(ways.other, "delete", name)
    stranger = form.acquire(ways.other, f"{name}/other")
    with pytest.raises(FencedError, match=r"bound to .* under '.*/other'"):
        form.record(ways.other, "put", name, b"not yours", lease=stranger)
    assert form.record(ways.other, "get", name) == mine
    assert form.record(ways.one, "put", name, b"more", lease=lease).token == lease.token
    form.on(lease, "release")
    form.on(stranger, "release")


def test_who_lost_the_name_writes_nothing_and_the_successor_does__A2_I10(ways: Ways, form: Form, name: str) -> None:
    first = form.acquire(ways.one, name)
    form.record(ways.one, "put", name, b"first", lease=first)
    form.on(first, "release")
    with pytest.raises(FencedError, match=r"token \d+ is not a live one"):
        form.record(ways.one, "put", name, b"late", lease=first)
    second = form.acquire(ways.other, name)
    for write in ("put", "delete"):
        with pytest.raises(FencedError):
            form.record(ways.one, write, name, *([b"late"] if write == "put" else []), lease=first)
    with pytest.raises(FencedError):
        form.record(ways.one, "put", f"{name}/fresh", b"late", lease=first)
    assert form.record(ways.other, "get", name).value == b"first"
    assert form.record(ways.other, "put", name, b"second", lease=second).token == second.token
    assert form.record(ways.other, "delete", name, lease=second) is True
    # Deleted, it is bound to nothing.
    assert form.record(ways.one, "put", name, b"anybody's").token is None
    form.on(second, "release")


def test_a_lease_that_ran_out_writes_nothing__A2_I10(ways: Ways, form: Form, name: str) -> None:
    earlier = form.acquire(ways.one, name)
    form.record(ways.one, "put", name, b"in time", lease=earlier)
    form.on(earlier, "release")
    lease = form.acquire(ways.one, name, lease_time=0.1)
    eventually(lambda: form.is_free(ways.other, name), 10.0, "the lease has run out in the cluster")
    with pytest.raises(FencedError):
        form.record(ways.one, "put", name, b"late", lease=lease)
    assert form.record(ways.other, "get", name).value == b"in time"


def test_a_write_that_expects_another_version_changes_nothing__C2(ways: Ways, form: Form, name: str) -> None:
    with pytest.raises(VersionConflictError, match=r"version 5 was expected, and it does not exist"):
        form.record(ways.one, "put", name, b"x", expected_version=5)
    first = form.record(ways.one, "put", name, b"1", expected_version=0)
    with pytest.raises(VersionConflictError, match=r"expected not to exist, and it has version"):
        form.record(ways.other, "put", name, b"2", expected_version=0)
    second = form.record(ways.other, "put", name, b"2", expected_version=first.version)
    for write in ("put", "delete"):
        with pytest.raises(VersionConflictError):
            form.record(ways.one, write, name, *([b"3"] if write == "put" else []), expected_version=first.version)
    assert form.record(ways.one, "get", name) == second
    assert form.record(ways.one, "delete", name, expected_version=second.version) is True
    # A version never comes back: whoever still expects the old one is refused.
    form.record(ways.one, "put", name, b"1")
    with pytest.raises(VersionConflictError):
        form.record(ways.other, "put", name, b"4", expected_version=first.version)


def test_every_holder_of_a_group_writes__I10(ways: Ways, form: Form, name: str) -> None:
    leases = [form.acquire(way, name, max_leaders=2) for way in (ways.one, ways.other)]
    for way, lease in zip((ways.one, ways.other), leases, strict=True):
        assert form.record(way, "put", name, b"mine", lease=lease).token == lease.token
    form.on(leases[1], "release")
    with pytest.raises(FencedError):
        form.record(ways.other, "put", name, b"late", lease=leases[1])
    form.record(ways.one, "put", name, b"still mine", lease=leases[0])
    form.on(leases[0], "release")


def test_the_largest_value_and_one_byte_more(ways: Ways, form: Form, name: str) -> None:
    value = bytes(range(256)) * 256
    assert form.record(ways.one, "put", name, value).value == value
    assert form.record(ways.other, "get", name).value == value
    with pytest.raises(UsageError, match=r"65537 bytes.*at most 65536"):
        form.record(ways.one, "put", name, value + b"!")
    form.record(ways.one, "delete", name)


@pytest.mark.parametrize(
    ("verb", "args", "options", "message"),
    [
        ("get", ("",), {}, "key '' is not a valid name"),
        ("put", ("a" * 256, b""), {}, "key 'a"),
        ("put", ("key", "text"), {}, "value must be bytes, not str.*encode"),
        ("put", ("key", b""), {"lease": "lease"}, "lease must be one lease or None, not str"),
        ("put", ("key", b""), {"expected_version": -1}, "expected_version=-1 is no version"),
        ("delete", ("key",), {"expected_version": True}, "expected_version=True"),
        ("delete", ("key",), {"timeout": 0}, "timeout=0"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_sent__B6(
    ways: Ways, form: Form, verb: str, args: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        form.record(ways.one, verb, *args, **options)
