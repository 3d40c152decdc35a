"""What the model accepts as an operation, and which argument it calls out of range.

Knows: the table of operations in ``docs/protocol.md`` and its ranges. Must not know: what an operation does.
"""

from __future__ import annotations

import re
from typing import Any

from cluster import limits

NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9_\-:./]{0,254}")

# What each operation's arguments are: u unsigned integer, b bytes, l list of bytes, s slot (an unsigned integer or nil), t truth value.
SHAPES = {
    1: "bbuuuubb", 2: "bluuuubb", 3: "bbuu", 4: "u", 5: "bbuu", 6: "bb", 7: "bst", 8: "", 9: "u", 10: "", 11: "bu", 12: "ub", 13: "bbu",
    31: "u",
    14: "bbbbuss", 15: "bbbuss",
    16: "bbub", 17: "bbu", 18: "bb", 19: "bbuuuubbuuuu",
}  # fmt: skip


def has_shape(operation: list[Any]) -> bool:
    code, *arguments = operation
    if type(code) is not int or code not in SHAPES or len(arguments) != len(SHAPES[code]):
        return False
    return all(is_of_kind(argument, kind) for argument, kind in zip(arguments, SHAPES[code], strict=True))


def is_of_kind(argument: Any, kind: str) -> bool:
    if kind == "l":
        return isinstance(argument, list) and all(isinstance(item, bytes) for item in argument)
    if kind == "s" and argument is None:
        return True
    return type(argument) is {"u": int, "s": int, "b": bytes, "t": bool}[kind]


def bad_argument(code: int, arguments: list[Any]) -> int:
    """The place of the first argument that is out of its range; 0: none is."""
    for place, (argument, in_range) in enumerate(zip(arguments, ranges(code, arguments), strict=True), 1):
        if not in_range(argument):
            return place
    return 0


def ranges(code: int, arguments: list[Any]) -> list[Any]:
    def anything(_: Any) -> bool:
        return True

    def acq_id(value: bytes) -> bool:
        return len(value) == 16

    def name(value: bytes) -> bool:
        return NAME.fullmatch(value) is not None

    def names(value: list[bytes]) -> bool:
        return (
            1 <= len(value) <= limits.ACQUIRE_ALL_MAX_NAMES and len(set(value)) == len(value) and all(map(name, value))
        )

    def lease_ms(value: int) -> bool:
        return limits.LEASE_MIN_MS <= value <= limits.LEASE_MAX_MS

    def node_id(value: bytes) -> bool:
        return len(value) <= limits.NODE_ID_MAX_BYTES

    def value(data: bytes) -> bool:
        return len(data) <= limits.RECORD_VALUE_MAX_BYTES

    def no_name_or_name(data: bytes) -> bool:
        return not data or name(data)

    def token_of_the_name(token: int) -> bool:
        return bool(token) == bool(arguments[-4])

    def some_node_id(value: bytes) -> bool:
        return 1 <= len(value) <= limits.NODE_ID_MAX_BYTES

    claim = [lambda place: place < limits.CANDIDATES_PER_NAME_MAX, lambda claim_ms: claim_ms <= limits.LEASE_MAX_MS]
    writer = [no_name_or_name, token_of_the_name, anything, anything]
    terms = [
        lease_ms, lambda value: 1 <= value <= limits.MAX_LEADERS_MAX, lambda value: value <= arguments[2],
        anything, node_id, lambda value: len(value) <= limits.METADATA_MAX_BYTES,
    ]  # fmt: skip
    table: dict[int, list[Any]] = {
        1: [acq_id, name, *terms],
        2: [acq_id, names, *terms],
        3: [acq_id, name, anything, lease_ms],
        4: [anything],
        5: [acq_id, name, anything, lambda value: value <= 4],
        6: [acq_id, name],
        7: [name, lambda value: value is None or value < limits.MAX_LEADERS_MAX, anything],
        9: [lambda value: 1 <= value <= 255],
        10: [],
        11: [acq_id, lambda value: value <= limits.WALL_MAX_MS],
        12: [lease_ms, node_id],
        13: [acq_id, name, anything],
        31: [lambda value: value <= limits.LEASE_MAX_MS],
        14: [acq_id, name, value, *writer],
        15: [acq_id, name, *writer],
        16: [name, some_node_id, lease_ms, lambda value: len(value) <= limits.CANDIDATE_INFO_MAX_BYTES],
        17: [name, some_node_id, lease_ms],
        18: [name, some_node_id],
        19: [acq_id, name, *terms, anything, anything, *claim],
    }
    return table[code]
