"""Is this operation readable? The check for what did not come by the hot path.

Knows: the types and lengths of each operation's arguments (docs/protocol.md). Must not know: ranges that the table judges, who sent it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from cluster.limits import (
    ACQUIRE_ALL_MAX_NAMES,
    CANDIDATE_INFO_MAX_BYTES,
    METADATA_MAX_BYTES,
    NODE_ID_MAX_BYTES,
    RECORD_VALUE_MAX_BYTES,
)
from cluster.opcodes import Op

_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_\-:./]{0,254}")
_U64_MAX = (1 << 64) - 1

Check = Callable[[Any], bool]


def is_name(value: Any) -> bool:
    return isinstance(value, bytes) and _NAME.fullmatch(value) is not None


def is_uint(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _U64_MAX


def is_id(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) == 16


def is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def is_prefix(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) <= 255


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and 1 <= len(value) <= ACQUIRE_ALL_MAX_NAMES and all(map(is_name, value))


def _bytes_up_to(limit: int) -> Check:
    return lambda value: isinstance(value, bytes) and len(value) <= limit


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and len(value.encode("utf-8", "replace")) <= NODE_ID_MAX_BYTES


def _is_uint_or_nil(value: Any) -> bool:
    return value is None or is_uint(value)


def _is_name_or_empty(value: Any) -> bool:
    return value == b"" or is_name(value)


_NODE_ID = _bytes_up_to(NODE_ID_MAX_BYTES)
_METADATA = _bytes_up_to(METADATA_MAX_BYTES)
_GRANT: tuple[tuple[str, Check], ...] = (
    ("lease_ms", is_uint),
    ("max_leaders", is_uint),
    ("min_ms", is_uint),
    ("session", is_uint),
    ("node_id", _NODE_ID),
    ("metadata", _METADATA),
)
_HOLDER: tuple[tuple[str, Check], ...] = (("acq_id", is_id), ("name", is_name))

_RECORD: tuple[tuple[str, Check], ...] = (("write_id", is_id), ("key", is_name))
_WRITER: tuple[tuple[str, Check], ...] = (
    ("name", _is_name_or_empty),
    ("token", is_uint),
    ("expected_version", _is_uint_or_nil),
    ("known", _is_uint_or_nil),
)
_CANDIDATE: tuple[tuple[str, Check], ...] = (("name", is_name), ("node_id", _NODE_ID))

SHAPES: dict[int, tuple[tuple[str, Check], ...]] = {
    Op.ACQUIRE: (*_HOLDER, *_GRANT),
    Op.ACQUIRE_ALL: (("acq_id", is_id), ("names", _is_names), *_GRANT),
    Op.EXTEND: (*_HOLDER, ("token", is_uint), ("lease_ms", is_uint)),
    Op.SESSION_RENEW: (("session", is_uint),),
    Op.RELEASE: (*_HOLDER, ("token", is_uint), ("outcome", is_uint)),
    Op.ABANDON: _HOLDER,
    Op.REVOKE: (("name", is_name), ("slot", _is_uint_or_nil), ("force", is_bool)),
    Op.SESSION_OPEN: (("lease_ms", is_uint), ("node_id", _NODE_ID)),
    Op.CHECK: (*_HOLDER, ("token", is_uint)),
    Op.RECORD_PUT: (*_RECORD, ("value", _bytes_up_to(RECORD_VALUE_MAX_BYTES)), *_WRITER),
    Op.RECORD_DELETE: (*_RECORD, *_WRITER),
    Op.CANDIDATE_REGISTER: (*_CANDIDATE, ("ttl_ms", is_uint), ("info", _bytes_up_to(CANDIDATE_INFO_MAX_BYTES))),
    Op.CANDIDATE_REFRESH: (*_CANDIDATE, ("ttl_ms", is_uint)),
    Op.CANDIDATE_UNREGISTER: _CANDIDATE,
    Op.ELECT: (*_HOLDER, *_GRANT, ("revision", is_uint), ("count", is_uint), ("place", is_uint), ("claim_ms", is_uint)),
    Op.PING: (),
    Op.STATE: (("name", is_name), ("consistent", is_bool)),
    Op.LEASES: (("prefix", is_prefix), ("after_name", is_prefix), ("after_slot", is_uint), ("limit", is_uint)),
    Op.STATUS: (),
    Op.WAIT: (("wait_ms", is_uint), ("operation", lambda value: isinstance(value, list))),
    Op.CANCEL: (("acq_id", is_id),),
    Op.CANDIDATES: (("name", is_name),),
    Op.WATCH: (("watch_id", is_id), ("prefix", is_prefix), ("after", _is_uint_or_nil), ("extended", is_bool)),
    Op.RECORD_GET: (("key", is_name),),
    Op.BACKUP: (("backup_id", is_prefix), ("offset", is_uint)),
    Op.TRANSFER: (("node_id", _is_address),),
    Op.MEMBER_ADD: (("node_id", _is_address), ("request", is_id)),
    Op.MEMBER_REMOVE: (("node_id", _is_address), ("request", is_id)),
    Op.MEMBERS: (),
}


def fault(operation: Any) -> str:
    """What is wrong with a decoded operation, for its sender; empty if it can be read."""
    if not isinstance(operation, list) or not operation or not is_uint(operation[0]):
        return "an operation is an array that begins with its code"
    code = operation[0]
    shape = SHAPES.get(code)
    if shape is None:
        return f"operation {code} is not known here or not for clients"
    if len(operation) != len(shape) + 1:
        return f"operation {code} takes {len(shape)} arguments, {len(operation) - 1} came"
    for (what, check), value in zip(shape, operation[1:], strict=True):
        if not check(value):
            return f"operation {code}: {what} has the wrong type or length"
    if code == Op.WAIT:
        inner = operation[2]
        if not inner or inner[0] not in (Op.ACQUIRE, Op.ACQUIRE_ALL):
            return "only acquisitions can wait"
        return fault(inner)
    return ""
