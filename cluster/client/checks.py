"""Which arguments callers may give: every one is checked before anything is sent.

Knows: ranges, units, the alphabet of names. Must not know: how an operation travels. Every refusal is a ``UsageError`` that names the
field, the value and the unit.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from cluster.address import Address
from cluster.errors import UsageError
from cluster.limits import (
    ACQUIRE_ALL_MAX_NAMES,
    LEASE_MAX_MS,
    LEASE_MIN_MS,
    MAX_LEADERS_MAX,
    METADATA_MAX_BYTES,
    NODE_ID_MAX_BYTES,
    RECORD_VALUE_MAX_BYTES,
    TOKEN_MAX,
    WAIT_MAX_S,
    WORKER_VERSION_MAX_BYTES,
)

Seconds = float | timedelta

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-:./]{0,254}")
_PREFIX = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_\-:./]{0,254})?")
_NAME_RULE: Final = "use 1 to 255 characters of A-Z a-z 0-9 _ - : . / and begin with a letter or digit"

WAIT_MAX_MS: Final = WAIT_MAX_S * 1000
TIMEOUT_MIN_S: Final = 0.001
TIMEOUT_MAX_S: Final = 24 * 3600.0


class AcquireSpec(NamedTuple):
    """A checked acquisition. Times in milliseconds; ``names`` has one entry for ``acquire``."""

    names: tuple[bytes, ...]
    lease_ms: int
    wait_ms: int
    max_leaders: int
    min_ms: int
    auto_extend: bool
    metadata: bytes
    node_id: bytes


def name(value: object, field: str = "name") -> bytes:
    if not isinstance(value, str):
        raise UsageError(f"{field} must be a str, not {type(value).__name__}", _NAME_RULE)
    if _NAME.fullmatch(value) is None:
        raise UsageError(f"{field} {_short(value)} is not a valid name", _NAME_RULE)
    return value.encode("ascii")


def member(value: object) -> str:
    """A node's id: its advertised address, in its one form."""
    if not isinstance(value, str):
        raise UsageError(f"a node is named by its address, a str, not {type(value).__name__}", "give host:port")
    return str(Address.parse(value, what="node"))


def names(values: Iterable[str]) -> tuple[bytes, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"names must be a sequence of names, not {type(values).__name__}", "write acquire_all([name, …])")
    checked = tuple(name(value, "name") for value in values)
    if not 1 <= len(checked) <= ACQUIRE_ALL_MAX_NAMES:
        raise UsageError(f"names has {len(checked)} entries", f"give 1 to {ACQUIRE_ALL_MAX_NAMES} names")
    if len(set(checked)) != len(checked):
        raise UsageError("names has the same name twice", "give each name once")
    return checked


def prefix(value: object) -> bytes:
    if not isinstance(value, str):
        raise UsageError(f"prefix must be a str, not {type(value).__name__}", "an empty prefix means every name")
    if _PREFIX.fullmatch(value) is None:
        raise UsageError(f"prefix {_short(value)} is the beginning of no name", _NAME_RULE)
    return value.encode("ascii")


def _number(value: object, field: str) -> float:
    """Seconds of a number or timedelta; bool is no number here, since True would silently mean one second."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{field} must be seconds (a float or a timedelta), not {type(value).__name__}", "for example 2.5")
    try:
        seconds = float(value)
    except OverflowError:
        raise UsageError(f"{field} is too large to be seconds", "give a number of seconds") from None
    if not math.isfinite(seconds):
        raise UsageError(f"{field}={seconds} s is not a finite number of seconds", "give a number of seconds")
    return seconds


def duration_ms(value: object, field: str, low_ms: int, high_ms: int) -> int:
    """A duration in milliseconds. Anything above zero is at least one millisecond."""
    # The usual case costs little; whatever is not in it, NaN too, is looked at more closely below.
    if (type(value) is float or type(value) is int) and low_ms <= value * 1000 <= high_ms:
        return (round(value * 1000) or 1) if value else 0
    seconds = _number(value, field)
    # Compared in seconds, so that nothing outside is rounded into the range.
    if not low_ms / 1000 <= seconds <= high_ms / 1000:
        raise UsageError(f"{field}={seconds:.10g} s is out of range", f"give {low_ms / 1000:g} to {high_ms / 1000:.10g} seconds")
    milliseconds = round(seconds * 1000)
    return milliseconds if milliseconds or not seconds else 1


def lease_ms(value: object, field: str = "lease_time") -> int:
    return duration_ms(value, field, LEASE_MIN_MS, LEASE_MAX_MS)


def timeout_s(value: object, field: str = "timeout") -> float:
    seconds = _number(value, field)
    if not TIMEOUT_MIN_S <= seconds <= TIMEOUT_MAX_S:
        raise UsageError(f"{field}={seconds:g} s is out of range", f"give {TIMEOUT_MIN_S:g} to {TIMEOUT_MAX_S:g} seconds")
    return seconds


def limit_s(value: object, field: str) -> float:
    """A patience: zero or more seconds."""
    seconds = _number(value, field)
    if not 0 <= seconds <= TIMEOUT_MAX_S:
        raise UsageError(f"{field}={seconds:g} s is out of range", f"give 0 to {TIMEOUT_MAX_S:g} seconds")
    return seconds


def max_leaders(value: object) -> int:
    if type(value) is int and 1 <= value <= MAX_LEADERS_MAX:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"max_leaders must be an int, not {type(value).__name__}", f"give 1 to {MAX_LEADERS_MAX} leaders")
    if not 1 <= value <= MAX_LEADERS_MAX:
        raise UsageError(f"max_leaders={value} leaders is out of range", f"give 1 to {MAX_LEADERS_MAX} leaders")
    return value


def slot(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_LEADERS_MAX:
        raise UsageError(f"slot={value!r} is no slot", f"give 0 to {MAX_LEADERS_MAX - 1}, or None for every slot")
    return value


def sequence(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise UsageError(
            f"after={value!r} is no event's number",
            "give the sequence of the last event that was seen, or None for now",
        )
    return value


def flag(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{field} must be True or False, not {type(value).__name__}", f"write {field}=True")
    return value


def node_id(value: object) -> bytes:
    if not isinstance(value, str):
        raise UsageError(f"node_id must be a str, not {type(value).__name__}", "leave it out for hostname:pid")
    data = value.encode("utf-8", "replace")
    if not 1 <= len(data) <= NODE_ID_MAX_BYTES or not value.isprintable():
        raise UsageError(f"node_id {_short(value)} is not valid", f"use 1 to {NODE_ID_MAX_BYTES} bytes of printable text")
    return data


def worker_version(value: object) -> str:
    """Which release of the program asks, for people."""
    if not isinstance(value, str):
        raise UsageError(f"worker_version must be a str, not {type(value).__name__}", 'for example "1.4.2"')
    if not 1 <= len(value.encode("utf-8", "replace")) <= WORKER_VERSION_MAX_BYTES or not value.isprintable():
        raise UsageError(
            f"worker_version {_short(value)} is not valid", f"use 1 to {WORKER_VERSION_MAX_BYTES} bytes of printable text"
        )
    return value


def record_value(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise UsageError(f"value must be bytes, not {type(value).__name__}", "encode it, for example as JSON")
    if len(value) > RECORD_VALUE_MAX_BYTES:
        raise UsageError(f"value has {len(value)} bytes", f"give at most {RECORD_VALUE_MAX_BYTES} bytes, and keep what is larger elsewhere")
    return value


def expected_version(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= TOKEN_MAX:
        raise UsageError(f"expected_version={value!r} is no version", "give record.version, or 0 for a record that must not exist")
    return value


def metadata(value: object) -> bytes:
    """Compact JSON of a mapping, or nothing."""
    if value is None:
        return b""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UsageError("metadata must be a mapping with str keys", "values may be anything that JSON can say")
    try:
        text = json.dumps(dict(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        data = text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"metadata cannot be written as JSON: {error}", "use text, finite numbers, lists and mappings") from None
    if len(data) > METADATA_MAX_BYTES:
        raise UsageError(f"metadata has {len(data)} bytes as JSON", f"keep it within {METADATA_MAX_BYTES} bytes")
    return data


def read_metadata(data: bytes) -> dict[str, Any]:
    """What ``metadata`` wrote; bytes of another writer that are no JSON mapping read as empty."""
    if not data:
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def acquire_spec(
    checked_names: tuple[bytes, ...],
    lease_time: object,
    wait_time: object,
    leaders: object,
    min_lease_time: object,
    auto_extend: object,
    meta: object,
    node: bytes,
) -> AcquireSpec:
    lease = lease_ms(lease_time)
    minimum = duration_ms(min_lease_time, "min_lease_time", 0, LEASE_MAX_MS)
    if minimum > lease:
        raise UsageError(
            f"min_lease_time={minimum / 1000:g} s is longer than lease_time={lease / 1000:g} s",
            "give at most the lease_time, in seconds",
        )
    return AcquireSpec(
        checked_names,
        lease,
        duration_ms(wait_time, "wait_time", 0, WAIT_MAX_MS),
        max_leaders(leaders),
        minimum,
        flag(auto_extend, "auto_extend"),
        metadata(meta),
        node,
    )


def shown(value: object) -> str:
    """A bad value in a message, where it may be of any type and length."""
    try:
        return _short(value) if isinstance(value, str) else repr(value)[:60]
    except ValueError:
        # Python does not write integers of thousands of digits.
        return f"an {type(value).__name__} of thousands of digits"


def _short(value: str) -> str:
    return repr(value) if len(value) <= 60 else f"{value[:60]!r}… ({len(value)} characters)"
