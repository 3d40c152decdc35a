"""The adapter without one of its pieces, and what the released library does in its place.

Knows: how the adapter is put together, the hazards. Must not know: which schedule shows them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from cluster.errors import CoordinationError
from cluster.raft import snapshot
from cluster.raft.adapter import Adapter
from cluster.raft.commit import Commit
from cluster.raft.core import Core
from cluster.raft.following import Following
from cluster.raft.leading import Leading
from cluster.raft.listing import Members
from cluster.raft.members import Configuration
from cluster.raft.peer import Peer
from cluster.raft.snapinstall import Identity, SnapInstall
from cluster.raft.timers import Timers
from tests.raft.ledger import ListMachine

logger = logging.getLogger(__name__)


def variant(pieces: dict[type, type | None]) -> Any:
    """The adapter with each key of ``pieces`` left out, or replaced by its value."""
    missing = set(pieces) - set(Adapter.__bases__)
    assert not missing, f"not pieces of the adapter: {missing}"
    bases = [pieces.get(base, base) for base in Adapter.__bases__]
    name = "without" + "".join(piece.__name__ for piece in pieces)
    return type(name, tuple(base for base in bases if base is not None), {})


class CutsAfterPrev(Following):
    """In place of ``Trim``: everything after ``prev`` is cut off, whether it agrees or not."""

    def _reconcile(self, prev: int, prev_term: int, entries: Sequence[Any]) -> int | None:
        log, first = self._log, self._first
        if prev < first or prev > log[-1][1] or log[prev - first][2] != prev_term:
            return None
        log.deleteEntriesFrom(prev + 1 - first)
        for offset, (term, command) in enumerate(entries):
            log.add(command, prev + 1 + offset, term)
        return prev + len(entries)


class NextGoesBack(Leading):
    """In place of ``Forward``: an answer sets the next entry to send, whatever is under way."""

    def _took(self, peer: Peer, index: int) -> None:
        self._note_match(peer, index)
        peer.next = index + 1


class StepByStep(Leading, Following):
    """In place of ``Backtrack``: one back for a conflict, forward to the end for a gap, at every refusal."""

    def _resume_after(self, term: int, prev: int) -> int:
        last = int(self._log[-1][1])
        return last if prev > last else prev - 1

    def _is_old_refusal(self, peer: Peer, sent: float) -> bool:
        return False


class CommitsToItsEnd(Commit):
    """In place of ``SnapCommit``: the leader's commit index holds for the own log, compared or not."""

    def _committed_here(self, leader_commit: int, verified: int) -> int:
        return min(leader_commit, int(self._log[-1][1]))


class ClearsLog(SnapInstall):
    """In place of ``SnapKeep``: every snapshot is installed, and replaces the whole log."""

    def _is_superfluous(self, index: int) -> bool:
        return False

    def _fit_log(self, index: int, term: int) -> None:
        self._log.reset([(b"", index, term)])


class TakesEveryPiece(SnapInstall):
    """In place of ``SnapSeq``: a piece is put behind what has arrived, whatever that is."""

    def _collect(self, identity: Identity, offset: int, data: bytes) -> None:
        self._arrived += data


class SwallowsBadSnapshots(SnapInstall):
    """In place of ``FailStop``: what cannot be loaded is logged, and acknowledged."""

    def _load(self, identity: Identity, data: bytes) -> bool:
        try:
            content = snapshot.decode(data)
            self._machine.restore(content.state)
            self._snapshot_says = Members(content.index, tuple(content.members))
        except ValueError as error:
            logger.warning("failed to load full dump: %s", error)
        return True


class StartsEmpty(Core):
    """In place of ``Startup``: a snapshot that cannot be read is ignored, and the log is cleared unless it begins with the snapshot."""

    def _begin_from_disk(self) -> int:
        newest = self._storage.snapshots.latest()
        if newest is None:
            return 1
        index, term, data = newest
        try:
            self._machine.restore(snapshot.decode(data).state)
        except ValueError as error:
            logger.warning("failed to load full dump: %s", error)
        if not len(self._log) or self._log[0][1] != index:
            self._log.reset([(b"", index, term)])
        return index


class TakesTheListItIsTold(Configuration):
    """In place of ``KeepsMembers``: at the start the members are those that the node is told, whatever its log says."""

    def _lists_from_disk(self) -> list[Members]:
        return [Members(0, self._config.members)]


class TriesForEver(Commit):
    """In place of ``Poison``: what fails is logged, and tried again when something else happens."""

    def _hand_over(self, index: int, term: int, command: bytes) -> None:
        self._machine.apply(index, term, command)

    def _guard(self, call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except RuntimeError as error:
            logger.warning("failed _onTick: %s", error)


class PassesOver(Commit):
    """In place of ``Poison``: a command of a version that the machine does not know is logged, and the next one applied."""

    def _hand_over(self, index: int, term: int, command: bytes) -> None:
        try:
            self._machine.apply(index, term, command)
        except CoordinationError as error:
            logger.warning("skipped: %s", error)


class NeverLate(Timers):
    """In place of ``LateTimers``: what a timer says holds, however late it fires."""

    def _is_late(self, lateness_s: float) -> bool:
        return False


def commands(machine: ListMachine) -> list[str]:
    return [command.decode().rstrip(".") for command in machine.commands]
