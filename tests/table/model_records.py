"""The rules of records as they are written; a part of ``model.Model``.

Knows: RECORD_PUT and RECORD_DELETE of ``docs/protocol.md``. Must not know: leases, but for which tokens of a name are live.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from cluster import limits

OK, LIMIT, FENCED, VERSION_DIFFERS, FORGOTTEN = 0, 7, 9, 10, 11


@dataclass(frozen=True)
class Record:
    name: bytes
    version: int
    token: int
    value: bytes


@dataclass(frozen=True)
class Writer:
    """What a write carries besides the key and the value."""

    write_id: bytes
    name: bytes
    token: int
    expected: int | None
    known: int | None


class RecordRules(ABC):
    """Each rule has its own method, so that a test can break one."""

    next_token: int

    def __init__(
        self,
        *,
        records_max: int = limits.RECORDS_MAX,
        records_bytes_max: int = limits.RECORDS_MAX_BYTES,
        writes_max: int = limits.RECORD_WRITES_KEPT,
    ) -> None:
        self.records_max, self.records_bytes_max, self.writes_max = records_max, records_bytes_max, writes_max
        self.records: dict[bytes, Record] = {}
        self.writes: list[tuple[bytes, int, int]] = []  # (id, version, token), the oldest first
        self.forgotten = 0

    @abstractmethod
    def live_tokens(self, name: bytes) -> set[int]: ...
    @abstractmethod
    def new_token(self) -> int: ...

    def record_put(self, write_id: bytes, key: bytes, value: bytes, *writer: Any) -> list[Any]:
        by = Writer(write_id, *writer)
        answer = self.known_or_refused(key, by) or self.record_limit(key, value, by)
        if answer:
            return answer
        version = self.next_version(key)
        self.records[key] = Record(self.binding(key, by), version, by.token, value)
        return self.remember(by, version)

    def record_delete(self, write_id: bytes, key: bytes, *writer: Any) -> list[Any]:
        by = Writer(write_id, *writer)
        answer = self.known_or_refused(key, by)
        if answer:
            return answer
        if key not in self.records:
            return [OK, 0, 0]
        if self.next_token > limits.TOKEN_MAX:
            return [LIMIT, 3]
        del self.records[key]
        return self.remember(by, self.next_version(key))

    def known_or_refused(self, key: bytes, by: Writer) -> list[Any] | None:
        for write_id, version, token in self.writes:
            if write_id == by.write_id:
                return [OK, version, token]
        if by.known is not None and by.known < self.forgotten:
            return [FORGOTTEN]
        record = self.records.get(key)
        bound = record.name if record else b""
        if self.is_fenced(bound, by):
            return [FENCED, bound]
        version = record.version if record else 0
        return None if by.expected in (None, version) else [VERSION_DIFFERS, version]

    def is_fenced(self, bound: bytes, by: Writer) -> bool:
        if bound and bound != by.name:
            return True
        return bool(by.name) and by.token not in self.live_tokens(by.name)

    def record_limit(self, key: bytes, value: bytes, by: Writer) -> list[Any] | None:
        if self.next_token > limits.TOKEN_MAX:
            return [LIMIT, 3]
        if key not in self.records and len(self.records) >= self.records_max:
            return [LIMIT, 5]
        others = sum(len(k) + len(r.name) + len(r.value) for k, r in self.records.items() if k != key)
        return [LIMIT, 6] if others + len(key) + len(by.name) + len(value) > self.records_bytes_max else None

    def next_version(self, key: bytes) -> int:
        return self.new_token()

    def binding(self, key: bytes, by: Writer) -> bytes:
        """Whom the record is bound to once it is written."""
        return by.name

    def remember(self, by: Writer, version: int) -> list[Any]:
        self.writes.append((by.write_id, version, by.token))
        if len(self.writes) > self.writes_max:
            self.forgotten = self.writes.pop(0)[1]
        return [OK, version, by.token]

    def records_state(self) -> list[Any]:
        records = sorted(self.records.items(), key=lambda item: item[1].version)
        return [
            self.forgotten,
            [[key, r.name, r.version, r.token, r.value] for key, r in records],
            [list(write) for write in self.writes],
        ]

    def restore_records(self, forgotten: int, records: list[Any], writes: list[Any]) -> None:
        self.forgotten = forgotten
        self.records = {row[0]: Record(*row[1:]) for row in records}
        self.writes = [(row[0], row[1], row[2]) for row in writes]
