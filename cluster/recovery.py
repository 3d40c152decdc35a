"""Data directories for a group that begins with a state from before: of a backup, or of what a surviving node has.

Knows: how a state, a log and a directory fit together. Must not know: networks, options, who asked.

The nodes of such a group form it as new ones do, when all of them are there (``cluster/raft/membership.py``), and only with nodes that
begin with the very same state: the id of the new group says so from the beginning.
"""

from __future__ import annotations

from dataclasses import dataclass

from cluster._table import LEVEL, LeaseTable
from cluster.backup import ID_BYTES, Backup, Beginning
from cluster.errors import CoordinationError, UsageError
from cluster.ports import Env
from cluster.raft import snapshot
from cluster.raft.config import SNAPSHOT_MAX_BYTES
from cluster.raft.listing import names_members, read_members
from cluster.server.batcher import header_of
from cluster.storage import StorageDamaged
from cluster.storage.meta import State
from cluster.storage.offline import Remains, begin_directory, read_directory
from cluster.storage.storage import INCARNATION_BYTES


def begin(env: Env, directory: str, beginning: Beginning) -> None:
    """Make an empty directory that of a member of the new group, a new incarnation.

    Raises:
        UsageError: it is not empty, a node runs on it, or it cannot be used. Nothing was changed.
        CoordinationError: the disk failed or is full; what was written there is to be removed.
    """
    data = snapshot.encode(beginning.index, beginning.term, beginning.members, beginning.state)
    if len(data) > SNAPSHOT_MAX_BYTES:
        raise UsageError(f"the state has {len(data)} bytes, more than SNAPSHOT_MAX_BYTES", "It cannot be sent to other nodes")
    state = State(
        term=beginning.term,
        incarnation=env.entropy(INCARNATION_BYTES),
        cluster_id=beginning.cluster_id,
        formed=dict.fromkeys(beginning.members, b""),
    )
    begin_directory(env, directory, state, (beginning.index, beginning.term, data))


@dataclass(frozen=True, slots=True)
class Survivor:
    """What a surviving node's directory holds, as a backup; and what its operator must know.

    Attributes:
        backup: the state after the whole log, and the members as this node knew them.
        last_term: the term of the last entry: of several survivors, the one with the greatest (``last_term``, index) has the most.
        covered: up to this index it is known that a majority had the log; what comes after may never have been acknowledged.
    """

    backup: Backup
    last_term: int
    covered: int


def survey(env: Env, directory: str, node_id: str) -> Survivor:
    """Read what a node that does not run has in its directory, which is not changed.

    Raises:
        UsageError: a node runs on it, it cannot be used, or no node of a group has used it.
        StorageDamaged: what is in it is not what was written.
        CoordinationError: the disk failed, or the log is of a newer release.
    """
    remains = read_directory(env, directory)
    table, members, covered = _begin_state(remains, directory)
    last, last_term = covered, remains.snapshot[1] if remains.snapshot else 0
    for command, index, term in remains.entries:
        if index > covered:
            if names_members(command):
                members = _read_members(index, command, directory)
            else:
                _apply(table, command, directory)
            last, last_term = index, term
    backup = Backup(
        env.entropy(ID_BYTES), int(env.wall() * 1000), node_id, last, remains.state.term, members, table.snapshot()
    )
    return Survivor(backup, last_term, covered)


def _begin_state(remains: Remains, directory: str) -> tuple[LeaseTable, tuple[str, ...], int]:
    """The state of the snapshot, who the members are, and the snapshot's index."""
    table, members = LeaseTable(), tuple(sorted(remains.state.formed))
    if remains.snapshot is None:
        return table, members, 0
    index, _, data = remains.snapshot
    try:
        content = snapshot.decode(data)
        table.restore(content.state)
    except ValueError as error:
        raise StorageDamaged(f"snapshot of index {index}", 0, str(error)).within(directory) from None
    return table, tuple(sorted(content.members)), index


def _read_members(index: int, command: bytes, directory: str) -> tuple[str, ...]:
    try:
        return read_members(index, command).names
    except ValueError as error:
        raise CoordinationError(f"the log in {directory!r}: {error}", "Use the release that the node ran, or a newer one") from None


def _apply(table: LeaseTable, command: bytes, directory: str) -> None:
    # The engine's own entries are one byte, or none where a snapshot took an entry's place.
    if len(command) < 2:
        return
    level = max(header_of(command)[0], table.level)
    if level > LEVEL:
        raise CoordinationError(
            f"the log in {directory!r} has batches of format level {level}, this release knows {LEVEL}",
            "Use the release that the node ran, or a newer one",
        )
    table.apply(command)
