"""Options are checked when they are written down."""

from __future__ import annotations

import dataclasses
import logging
import math
from datetime import timedelta
from typing import Any

import pytest

from cluster.errors import UsageError
from cluster.limits import WORKER_VERSION_MAX_BYTES
from tenure import AsyncLeaderElector, AsyncLeaderGroupElector, LeaderElector, LeaderGroupElector
from tenure.options import ElectionOptions

pytestmark = pytest.mark.fast


def test_the_defaults_are_the_contract() -> None:
    assert dataclasses.asdict(ElectionOptions()) == {
        "wait_time": 5.0,
        "lease_time": 60.0,
        "node_id": None,
        "min_lease_time": 0.0,
        "auto_extend": False,
        "on_lost": None,
        "worker_version": None,
    }


def test_durations_are_seconds_whatever_they_were_written_as() -> None:
    options = ElectionOptions(wait_time=0, lease_time=timedelta(minutes=1), min_lease_time=timedelta(milliseconds=1500))
    assert (options.wait_time, options.lease_time, options.min_lease_time) == (0.0, 60.0, 1.5)
    assert options == ElectionOptions(wait_time=0.0, lease_time=60, min_lease_time=1.5)
    assert hash(options) == hash(ElectionOptions(wait_time=0.0, lease_time=60, min_lease_time=1.5))


@pytest.mark.parametrize(
    ("field", "value", "shown"),
    [
        ("wait_time", -0.001, "wait_time=-0.001 s"),
        ("wait_time", math.nan, "nan s"),
        ("wait_time", math.inf, "inf s"),
        ("wait_time", True, "bool"),
        ("wait_time", "5", "str"),
        ("wait_time", None, "NoneType"),
        ("lease_time", 0, "lease_time=0 s"),
        ("lease_time", 0.099, "lease_time=0.099 s"),
        ("lease_time", 7 * 24 * 3600 + 1, "604801 s|6.*e.05 s"),
        ("lease_time", timedelta(days=8), "s is out of range"),
        ("lease_time", 10**400, "seconds"),
        ("lease_time", -math.inf, "-inf s"),
        ("min_lease_time", -1, "min_lease_time=-1 s"),
        ("min_lease_time", 61, "min_lease_time=61 s is longer than lease_time=60 s"),
        ("node_id", "", "node_id"),
        ("node_id", "x" * 256, "node_id"),
        ("node_id", "a\nb", "node_id"),
        ("node_id", 7, "node_id"),
        ("auto_extend", 1, "auto_extend"),
        ("on_lost", "ignore", "on_lost='ignore'"),
        ("worker_version", "", "worker_version"),
        ("worker_version", "x" * (WORKER_VERSION_MAX_BYTES + 1), "1 to 64 bytes"),
        ("worker_version", "1.4\n2", "worker_version"),
        ("worker_version", 1.4, "must be a str, not float"),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_field_and_unit__B6(field: str, value: Any, shown: str) -> None:
    with pytest.raises(UsageError, match=shown) as caught:
        ElectionOptions(**{field: value})
    assert field in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_the_ends_of_the_ranges_are_allowed() -> None:
    ElectionOptions(wait_time=0, lease_time=0.1, min_lease_time=0.1)
    ElectionOptions(lease_time=timedelta(days=7), min_lease_time=timedelta(days=7), node_id="x" * 255)
    ElectionOptions(worker_version="x" * WORKER_VERSION_MAX_BYTES)


def test_options_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ElectionOptions().wait_time = 1.0  # type: ignore[misc]


def test_a_short_lease_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ElectionOptions(lease_time=3)
        assert not caplog.records
        ElectionOptions(lease_time=2.9)
    assert [record.getMessage().split()[:3] for record in caplog.records] == [
        ["options.lease-short", "lease_time_s=2.9", "advised_s=3:"]
    ]


@pytest.mark.parametrize("elector", [LeaderElector, AsyncLeaderElector, LeaderGroupElector, AsyncLeaderGroupElector])
def test_an_elector_says_what_it_needs(elector: Any) -> None:
    wrong: list[Any] = [None, {}, "127.0.0.1:7101"]
    for nothing in wrong:
        with pytest.raises(UsageError, match="needs a coordinator, not"):
            elector(nothing)


def test_a_range_is_shown_in_whole_seconds() -> None:
    with pytest.raises(UsageError, match=r"wait_time=2592001 s is out of range\. give 0 to 2592000 seconds"):
        ElectionOptions(wait_time=2592001)
