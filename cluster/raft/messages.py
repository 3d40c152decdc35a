"""What raft nodes say to each other: msgpack arrays, one per frame, the first element tells the kind.

Knows: the kinds and their fields; their types are checked where they are read (``ext/cluster/_peer.pyx``). Must not know: what they mean
for the log.

Every message carries its sender's term. ``sent`` is the leader's own clock when it sent an append or a piece, and the answer echoes it: so
freshness counts from the sending, and what crossed a broken connection is told from what did not.
"""

from __future__ import annotations

from typing import Any, Final

from cluster._peer import ack_frame, append_frame, decode
from cluster.codec import pack

__all__ = ["ack_frame", "append_frame", "decode", "encode", "from_engine"]

APPEND: Final = 1
"""``[1, term, sent, prev_index, prev_term, commit, [[term, command], …]]``, of the leader."""
ACK: Final = 2
"""``[2, term, sent, index, agreed, voter]``. Agreed: the log is the leader's up to ``index``, durably. Else: send all after ``index``."""
PIECE: Final = 3
"""``[3, term, sent, commit, index, index_term, size, crc, offset, data]``: a part of the snapshot that the four numbers identify.
Without data it asks how much of it is there."""
PIECE_ACK: Final = 4
"""``[4, term, sent, index, crc, have, voter]``: so many bytes of that snapshot have arrived."""
REQUEST_VOTE: Final = 5
"""``[5, term, last_index, last_term, forced]``. Forced: the leader itself asked this node to stand."""
VOTE: Final = 6
"""``[6, term]``"""
TIMEOUT_NOW: Final = 7
"""``[7, term]``: the leader asks this node to stand at once."""
PRE_VOTE: Final = 8
"""``[8, term, round, last_index, last_term]``: would you vote for me in a greater term than this?"""
PRE_GRANT: Final = 9
"""``[9, term, round]``: yes."""
ADMIT: Final = 10
"""``[10, term, index]``: you are a member once you hold what is committed up to ``index``."""

FROM_LEADER: Final = frozenset({APPEND, PIECE})
ANSWERS: Final = frozenset({ACK, PIECE_ACK})
SENT: Final = 2
"""Where ``sent`` stands in messages of these two sorts."""


def encode(*message: Any) -> bytes:
    return pack(message)


def from_engine(message: dict[str, Any], forced: bool) -> bytes | None:
    """A control message of pysyncobj's in our form. None for every kind that must not travel: commands to be forwarded, entries."""
    kind, term = message["type"], message.get("term", 0)
    if kind == "request_vote":
        return pack((REQUEST_VOTE, term, message["last_log_index"], message["last_log_term"], forced))
    if kind == "response_vote":
        return pack((VOTE, term))
    if kind == "timeout_now":
        return pack((TIMEOUT_NOW, term))
    return None
