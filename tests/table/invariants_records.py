"""A witness of I10: follows the operations of each batch, and says when a record was written that must not have been.

Knows: the operations' arrays and answers, which leases were live before. Must not know: the model, how answers are found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OK, FENCED, VERSION_DIFFERS = 0, 9, 10
ACQUIRE, ACQUIRE_ALL, RELEASE, ABANDON, REVOKE = 1, 2, 5, 6, 7
SESSION_OPEN, PUT, DELETE, ELECT, RESTORE = 12, 14, 15, 19, 31


@dataclass(frozen=True)
class Holder:
    name: bytes
    acq_id: bytes
    slot: int


@dataclass(frozen=True)
class Write:
    write_id: bytes
    key: bytes
    value: bytes | None  # None: a deletion
    name: bytes
    token: int
    expected: int | None
    known: int | None


def write_of(operation: list[Any]) -> Write:
    write_id, key, *rest = operation[1:]
    value = rest.pop(0) if operation[0] == PUT else None
    return Write(write_id, key, value, *rest)


class RecordWitness:
    """Knows every write that was ever applied, so that it notices one that comes twice."""

    def __init__(self) -> None:
        self._applied: dict[bytes, int] = {}  # id -> the version it got last

    def saw(self, before: Any, after: Any, happened: list[tuple[list[Any], list[Any]]]) -> None:
        """``before`` and ``after``: states; ``happened``: the readable operations with their answers, in order."""
        if after.epoch != before.epoch:
            return
        self._records: dict[bytes, tuple[bytes, int, int, bytes]] = dict(before.records)
        self._remembered = {write_id: (version, token) for write_id, version, token in before.writes}
        self._newest = before.next_token - 1
        self._forgotten = after.forgotten
        self._live = {
            lease.token: Holder(lease.name, lease.acq_id, lease.slot)
            for lease in before.leases.values()
            if before.ends(lease) > after.now and not lease.dead
        }
        for operation, answer in happened:
            self._follow(operation, answer)
        assert self._records == after.records, "I10: records are not what was written"

    def _follow(self, operation: list[Any], answer: list[Any]) -> None:
        code = operation[0]
        if answer[0] not in (OK, FENCED):
            return
        if code in (PUT, DELETE):
            self._follow_write(write_of(operation), answer)
        elif answer[0] == OK and code in (ACQUIRE, ELECT):
            self._granted(answer[1:], operation[2], operation[1])
        elif answer[0] == OK and code == ACQUIRE_ALL:
            for name, grant in zip(operation[2], answer[1], strict=True):
                self._granted(grant, name, operation[1])
        elif answer[0] == OK and code == RELEASE:
            self._live.pop(operation[3], None)
        elif code == ABANDON and answer[0] == OK:
            self._end(lambda holder: (holder.name, holder.acq_id) == (operation[2], operation[1]))
        elif code == REVOKE and answer[0] == OK and operation[3]:
            self._end(lambda holder: holder.name == operation[1] and operation[2] in (None, holder.slot))
        elif code == RESTORE:
            self._live.clear()
        if answer[0] == OK and code == SESSION_OPEN:
            self._newest = max(self._newest, answer[1])

    def _granted(self, grant: list[Any], name: bytes, acq_id: bytes) -> None:
        self._live[grant[0]] = Holder(name, acq_id, grant[1])
        self._newest = max(self._newest, grant[0])

    def _end(self, ended: Any) -> None:
        self._live = {token: holder for token, holder in self._live.items() if not ended(holder)}

    def _follow_write(self, write: Write, answer: list[Any]) -> None:
        bound, current = b"", 0
        if write.key in self._records:
            bound, current = self._records[write.key][:2]
        holder = self._live.get(write.token)
        is_live = holder is not None and holder.name == write.name
        if answer[0] == FENCED:
            allowed = bound in (b"", write.name) and (is_live or not write.name)
            assert not allowed, "I10: a live holder was refused"
        if answer[0] != OK:
            return
        if write.write_id in self._remembered:
            if tuple(answer[1:]) == self._remembered[write.write_id]:
                return
            fell_out = self._remembered[write.write_id][0] <= self._forgotten
            assert fell_out, "I10: a write was applied again"
        if answer[1] == 0:
            assert write.value is None, "I10: a write without a version"
            assert write.key not in self._records, "I10: a record that exists was not there to be deleted"
            return
        first = self._applied.get(write.write_id)
        honest = write.known is not None and first is not None and write.known < first
        assert not honest, "I10: a write was applied again"
        assert bound in (b"", write.name), "I10: written under another name"
        assert is_live or not write.name, "I10: written with a token that is not live"
        assert write.expected in (None, current), "I10: written over another version"
        self._written(write, answer[1])

    def _written(self, write: Write, version: int) -> None:
        assert version > self._newest, "I2: a version that is not new"
        self._newest = version
        self._applied[write.write_id] = version
        self._remembered[write.write_id] = (version, write.token)
        if write.value is None:
            del self._records[write.key]
        else:
            self._records[write.key] = (write.name, version, write.token, write.value)
