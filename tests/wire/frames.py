"""Client frames and operations, well-formed and not, for the tests of ``cluster._wire``.

Knows: docs/protocol.md. Must not know: the module under test.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import msgpack
from hypothesis import strategies as st

from cluster.limits import (
    LEASE_MAX_MS,
    LEASE_MIN_MS,
    MAX_LEADERS_MAX,
    METADATA_MAX_BYTES,
    NAME_MAX_BYTES,
    NODE_ID_MAX_BYTES,
)

ID = bytes(range(16))
EPOCH = 7

Operation = list[Any]


def frame(payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + payload


def payload(rid: int, operation: object, epoch: int = EPOCH) -> bytes:
    return bytes(msgpack.packb([rid, epoch, operation]))


def request(rid: int, operation: object, epoch: int = EPOCH) -> bytes:
    return frame(payload(rid, operation, epoch))


def acquire(
    name: bytes = b"job",
    *,
    acq_id: object = ID,
    lease_ms: object = 60_000,
    max_leaders: object = 1,
    min_ms: object = 0,
    session: object = 0,
    node_id: object = b"host:1",
    metadata: object = b"",
) -> Operation:
    return [1, acq_id, name, lease_ms, max_leaders, min_ms, session, node_id, metadata]


def renew(session: int = 5) -> Operation:
    return [4, session]


def release(name: bytes = b"job", token: int = 9, outcome: int = 1) -> Operation:
    return [5, ID, name, token, outcome]


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """``data`` in pieces, cut at the given places."""
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def uint_in_width(value: int, width: int) -> bytes:
    """An unsigned integer in 1, 2, 4 or 8 bytes, or a fixint where it fits (width 0)."""
    if width == 0 and value < 128:
        return bytes([value])
    width = next(w for w in (1, 2, 4, 8) if w >= width and value < 1 << (8 * w))
    return bytes([{1: 0xCC, 2: 0xCD, 4: 0xCE, 8: 0xCF}[width]]) + value.to_bytes(width, "big")


_widths = (0, 1, 4, 5, 127, 128, 255, 256, 65535, 65536, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
_limits = (LEASE_MIN_MS - 1, LEASE_MIN_MS, LEASE_MAX_MS, LEASE_MAX_MS + 1, MAX_LEADERS_MAX, MAX_LEADERS_MAX + 1)
_edge_uints = st.sampled_from([*_widths, *_limits])
_names = st.one_of(
    st.from_regex(rb"\A[A-Za-z0-9][A-Za-z0-9_\-:./]{0,20}\Z"),
    st.sampled_from(
        [b"a", b"job", b"", b".a", b"a b", b"a\x00", b"\xff", b"A" * NAME_MAX_BYTES, b"A" * (NAME_MAX_BYTES + 1)]
    ),
)
_ids = st.one_of(st.just(ID), st.binary(min_size=15, max_size=17))
_node_ids = st.sampled_from([b"", b"host:1", b"n" * NODE_ID_MAX_BYTES, b"n" * (NODE_ID_MAX_BYTES + 1)])
_metadata = st.sampled_from([b"", b"{}", b"m" * 300, b"m" * METADATA_MAX_BYTES, b"m" * (METADATA_MAX_BYTES + 1)])
_lease_ms = st.one_of(st.just(60_000), _edge_uints)
_odd = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3), st.floats(), st.just([]), st.just({})
)

# Mostly operations that are right in all arguments but perhaps one.
operations: st.SearchStrategy[Operation] = st.one_of(
    st.tuples(
        st.just(1),
        _ids,
        _names,
        _lease_ms,
        st.one_of(st.just(1), _edge_uints),
        st.one_of(st.just(0), _edge_uints),
        _edge_uints,
        _node_ids,
        _metadata,
    ),
    st.tuples(st.just(3), _ids, _names, _edge_uints, _lease_ms),
    st.tuples(st.just(4), _edge_uints),
    st.tuples(st.just(5), _ids, _names, _edge_uints, st.integers(0, 6)),
    st.tuples(st.just(6), _ids, _names),
    st.tuples(st.just(12), _lease_ms, _node_ids),
    st.tuples(st.just(13), _ids, _names, _edge_uints),
    st.tuples(st.integers(0, 70), _odd),
).map(list)


@st.composite
def encoded_operations(draw: st.DrawFn) -> bytes:
    """An operation's bytes, with integers in any width, sometimes an argument too many, too few, or of another kind."""
    operation = draw(operations)
    change = draw(st.integers(0, 9))
    if change == 0:
        operation = operation[:-1]
    elif change == 1:
        operation = [*operation, draw(_odd)]
    elif change == 2:
        operation[draw(st.integers(0, len(operation) - 1))] = draw(_odd)
    head = bytes([0x90 | len(operation)])
    return head + b"".join(
        uint_in_width(item, draw(st.sampled_from([0, 0, 0, 1, 2, 4, 8])))
        if type(item) is int and item >= 0
        else msgpack.packb(item)
        for item in operation
    )


def encoded_request(rid: int, epoch: int, operation: bytes) -> bytes:
    return frame(b"\x93" + msgpack.packb(rid) + msgpack.packb(epoch) + operation)
