"""A backup: the state of a raft group in one file, and the state that another group can begin with.

Knows: the file's format, what of a state must end before it is used again. Must not know: files, sockets, data directories.

A file is ``TENUREB\\n``, u16 version, u16 0, u32 size of the head, u64 size of the state, the head (msgpack), the state, and the SHA-256 of
all before it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cluster._table import LEVEL, LeaseTable
from cluster.codec import pack, unpack
from cluster.errors import CoordinationError, UsageError
from cluster.limits import LEASE_MAX_MS
from cluster.opcodes import Op
from cluster.server.batcher import batch_of

MAGIC: Final = b"TENUREB\n"
VERSION: Final = 1
ID_BYTES: Final = 16
_FRONT = struct.Struct("<8sHHIQ")
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
_NUMBER_MAX: Final = 1 << 53
"""Of a time in milliseconds, an index, a term: so much is never reached."""
_ANOTHER = "Take another backup; this one must not be restored"


class BackupDamaged(CoordinationError):
    """A file is not a backup, or not the whole of one. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Backup:
    """One backup.

    Attributes:
        backup_id: 16 bytes, different for every backup.
        made_ms: when, by the wall clock of ``node_id``, in milliseconds since 1970: for people.
        node_id: the node whose state it is.
        index, term: the last entry of the log that is in it, and the term in which it was made.
        members: of the group it was made of.
        state: of the lease table.
    """

    backup_id: bytes
    made_ms: int
    node_id: str
    index: int
    term: int
    members: tuple[str, ...]
    state: bytes


def encode(backup: Backup) -> bytes:
    head = pack(
        [backup.backup_id, backup.made_ms, backup.node_id, backup.index, backup.term, list(backup.members)]
    )
    front = _FRONT.pack(MAGIC, VERSION, 0, len(head), len(backup.state))
    digest = hashlib.sha256(front)
    digest.update(head)
    digest.update(backup.state)
    return b"".join((front, head, backup.state, digest.digest()))


def decode(data: bytes, name: str) -> Backup:
    """Read and verify a whole backup; its state is loaded once to see that it can be.

    Args:
        name: what to call it in an error.

    Raises:
        BackupDamaged: these are not the bytes that ``encode`` made.
        UsageError: it is of a newer release.
    """
    if len(data) < _FRONT.size or data[: len(MAGIC)] != MAGIC:
        what = "it is empty" if not data else "it does not begin like one" if data[:8] != MAGIC[: len(data)] else "it is cut short"
        raise BackupDamaged(f"{name} is not a backup: {what}", "Name a file that 'snapshot save' has written")
    _, version, _, head_bytes, state_bytes = _FRONT.unpack_from(data)
    if version != VERSION:
        raise _newer(f"{name} has format {version}, this release reads {VERSION}")
    expected = _FRONT.size + head_bytes + state_bytes + _DIGEST_BYTES
    if len(data) != expected:
        raise BackupDamaged(f"{name} is damaged: it has {len(data)} bytes of {expected}", _ANOTHER)
    if hashlib.sha256(memoryview(data)[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise BackupDamaged(f"{name} is damaged: its checksum is wrong", _ANOTHER)
    try:
        backup_id, made_ms, node_id, index, term, members = _read_head(data[_FRONT.size : _FRONT.size + head_bytes])
    except ValueError as error:
        raise BackupDamaged(f"{name} is damaged: its head cannot be read ({error})", _ANOTHER) from None
    state = data[_FRONT.size + head_bytes : -_DIGEST_BYTES]
    found = Backup(backup_id, made_ms, node_id, index, term, tuple(members), state)
    load(found.state, name)
    return found


def _read_head(head: bytes) -> list[Any]:
    """The fields of a head. The checksum proves no origin: raises ValueError for what ``encode`` does not make."""
    fields = unpack(head)
    if type(fields) is not list or tuple(map(type, fields)) != (bytes, int, str, int, int, list):
        raise ValueError("it has other fields")
    backup_id, made_ms, node_id, index, term, members = fields
    if len(backup_id) != ID_BYTES or not all(0 <= number <= _NUMBER_MAX for number in (made_ms, index, term)):
        raise ValueError("a field is out of range")
    if not all(type(name) is str and name.isprintable() for name in (node_id, *members)):
        raise ValueError("a node id is no text")
    return fields


def load(state: bytes, name: str) -> LeaseTable:
    """The table of a state. Raises UsageError if it is of a newer format level, BackupDamaged if it cannot be loaded."""
    table = LeaseTable()
    try:
        table.restore(state)
    except ValueError as error:
        raise BackupDamaged(f"{name}: its state cannot be loaded: {error}", "It may be of a newer release: use that one") from None
    if table.level > LEVEL:
        raise _newer(f"{name} has a state of format level {table.level}, this release knows {LEVEL}")
    return table


def _newer(text: str) -> UsageError:
    return UsageError(text, "Use the release that made it, or a newer one")


def describe(backup: Backup, size: int) -> dict[str, Any]:
    """What people want to know of a backup; durations in seconds. ``size``: of the file, in bytes."""
    table = load(backup.state, "the backup")
    return {
        "backup_id": backup.backup_id.hex(),
        "made_at": backup.made_ms / 1000,
        "node_id": backup.node_id,
        "cluster_id": table.cluster_id.hex(),
        "members": list(backup.members),
        "index": backup.index,
        "term": backup.term,
        "cluster_time": table.time_ms / 1000,
        "format_level": table.level,
        "leases": table.lease_count,
        "sessions": table.session_count,
        "records": table.record_count,
        "record_bytes": table.record_bytes,
        "longest_lease": table.longest_ms / 1000,
        "next_token": table.next_token,
        "size": size,
    }


@dataclass(frozen=True, slots=True)
class Beginning:
    """What every member of a new group begins with; equal for equal backups, members and ``longest_ms``, wherever it is worked out.

    Attributes:
        cluster_id: of the new group: nobody but nodes with this very beginning has it, so nodes of the old group are refused.
        state: without leases, sessions and cluster id.
        index, term: of the entry that the state stands for.
        members: sorted.
        wait_ms: nothing is granted for so long.
    """

    cluster_id: bytes
    state: bytes
    index: int
    term: int
    members: tuple[str, ...]
    wait_ms: int


def begin_anew(backup: Backup, members: Sequence[str], longest_ms: int = 0) -> Beginning:
    """Make of a backup what a new group begins with.

    Args:
        members: addresses of all members of the new group.
        longest_ms: the longest lease time in use since the backup was made, if it is longer than the longest that the backup knows.

    Raises:
        UsageError: ``longest_ms`` is out of range.
    """
    if not 0 <= longest_ms <= LEASE_MAX_MS:
        raise UsageError(f"the longest lease time {longest_ms} ms is out of range", f"give at most {LEASE_MAX_MS} ms")
    table = load(backup.state, "the backup")
    table.apply(batch_of(pack([int(Op.RESTORE), longest_ms]), table.epoch, 0))
    told = tuple(sorted(members))
    digest = hashlib.sha256(b"tenure group\n")
    digest.update(pack([backup.backup_id, list(told), longest_ms]))
    digest.update(hashlib.sha256(backup.state).digest())
    # The engine's own first entry has index 1 and term 0, and nothing is compared with it: a state must not stand there.
    index, term = max(backup.index, 2), max(backup.term, 1)
    return Beginning(digest.digest()[:ID_BYTES], table.snapshot(), index, term, told, table.grants_from - table.time_ms)
