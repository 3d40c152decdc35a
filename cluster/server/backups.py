"""A backup of this node's state, made for an operator and handed out in pieces.

Knows: when a backup is made, and how long it is kept. Must not know: its format, who may ask, what is done with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from cluster.backup import ID_BYTES, Backup, encode
from cluster.codec import pack
from cluster.limits import BACKUP_PIECE_BYTES
from cluster.opcodes import Status
from cluster.ports import Env, Handle
from cluster.server import answers

logger = logging.getLogger(__name__)

KEPT_S: Final = 10.0
"""A backup that nobody fetches any more is forgotten after this."""

IDLE_S: Final = 1.0
"""Another may be made in its place after this."""

Reply = Callable[[bytes], None]


class Backups:
    """At most one at a time, since each takes as much memory as the state.

    Args:
        freeze: a copy of the state, to be called for its bytes on any thread.
        describe: the log's view at this moment: node id, applied index, term, members.
    """

    def __init__(self, env: Env, freeze: Callable[[], Callable[[], bytes]], describe: Callable[[], dict[str, Any]]) -> None:
        self._env = env
        self._freeze = freeze
        self._describe = describe
        self._id = b""
        self._data: bytes | None = None
        self._timer: Handle | None = None
        self._fetched_at = 0.0
        self._waiting: Reply | None = None

    def ask(self, backup_id: bytes, offset: int, reply: Reply) -> None:
        """Answer with a piece of the backup of this id, or with the first piece of a new one if there is none of this id (any more)."""
        if backup_id and backup_id == self._id and self._data is not None:
            reply(self._piece(offset))
        elif self._waiting is not None or (self._id and self._env.clock() - self._fetched_at < IDLE_S):
            reply(answers.overloaded("BACKUPS_MAX"))
        else:
            self._make(reply)

    def _make(self, reply: Reply) -> None:
        # The one before may still be kept: its end must not be this one's.
        self._forget()
        said = self._describe()
        frozen = self._freeze()
        self._id = backup_id = self._env.entropy(ID_BYTES)
        self._data, self._waiting = None, reply
        # Who joins or leaves is shown beside the members, and is none.
        members = tuple(
            sorted(str(member["node_id"]) for member in said["members"] if member["role"] in ("leader", "follower", "candidate"))
        )
        made: list[bytes] = []

        def work() -> None:
            made.append(
                encode(Backup(backup_id, made_ms, said["node_id"], said["applied_index"], said["term"], members, frozen()))
            )

        made_ms = int(self._env.wall() * 1000)
        self._env.on_work_thread(work, lambda error: self._made(made, error))

    def _made(self, made: list[bytes], error: BaseException | None) -> None:
        reply, self._waiting = self._waiting, None
        if reply is None:
            return
        if error is not None:
            logger.error("backup.failed error=%s", error)
            self._forget()
            reply(answers.overloaded("the memory of this node"))
            return
        self._data = made[0]
        logger.info("backup.made bytes=%d", len(self._data))
        reply(self._piece(0))

    def _piece(self, offset: int) -> bytes:
        assert self._data is not None
        self._stop_timer()
        self._fetched_at = self._env.clock()
        self._timer = self._env.call_later(KEPT_S, self._forget)
        piece = self._data[offset : offset + BACKUP_PIECE_BYTES]
        return pack([int(Status.OK), self._id, len(self._data), offset, piece])

    def _forget(self) -> None:
        self._stop_timer()
        self._id, self._data = b"", None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def close(self) -> None:
        """Who waits for one is told that there will be none."""
        reply, self._waiting = self._waiting, None
        self._forget()
        if reply is not None:
            reply(answers.CLOSING)
