"""The numbers of the protocol: operations, control requests, answers, events, pushes.

Knows: docs/protocol.md. Must not know: how anything is encoded, sent or applied.
"""

from enum import IntEnum


class Op(IntEnum):
    """Operations of the log, and (from 64 on) control requests that never enter it."""

    ACQUIRE = 1
    ACQUIRE_ALL = 2
    EXTEND = 3
    SESSION_RENEW = 4
    RELEASE = 5
    ABANDON = 6
    REVOKE = 7
    EPOCH = 8
    FORMAT_LEVEL = 9
    TICK = 10
    INIT = 11
    SESSION_OPEN = 12
    CHECK = 13
    RECORD_PUT = 14
    RECORD_DELETE = 15
    CANDIDATE_REGISTER = 16
    CANDIDATE_REFRESH = 17
    CANDIDATE_UNREGISTER = 18
    ELECT = 19
    RESTORE = 31

    PING = 64
    STATE = 65
    LEASES = 66
    STATUS = 67
    WAIT = 68
    CANCEL = 69
    TRANSFER = 70
    MEMBER_ADD = 71
    MEMBER_REMOVE = 72
    MEMBERS = 73
    RECORD_GET = 80
    CANDIDATES = 81
    WATCH = 82
    BACKUP = 84


class Status(IntEnum):
    """First element of every answer: below 32 the table's, from 32 on a node's own."""

    OK = 0
    HELD = 1
    NOT_HELD = 2
    SESSION_ENDED = 3
    NOT_YET = 4
    WRONG_EPOCH = 5
    INVALID = 6
    LIMIT = 7
    REVOKED = 8
    FENCED = 9
    VERSION_DIFFERS = 10
    FORGOTTEN = 11
    NOT_YOUR_TURN = 12

    NOT_LEADER = 32
    OVERLOADED = 33
    BAD_REQUEST = 34
    STALE_EPOCH = 35
    CLOSING = 36
    CANCELLED = 37
    UNSURE = 38
    REFUSED = 39


class Outcome(IntEnum):
    """How the action under a lease ended, said with its release."""

    NOT_STARTED = 0
    COMPLETED = 1
    FAILED = 2
    LOST = 3
    CANCELLED = 4


class Event(IntEnum):
    GRANTED = 1
    RELEASED = 2
    EXPIRED = 3
    REVOKED = 4
    FREED = 5
    VACATED = 6
    ABANDONED = 7
    EXTENDED = 8


class Push(IntEnum):
    LEADER = 1
    REVOKED = 2
    MEMBERS = 3


class RowFlag(IntEnum):
    REVOKED = 1
    DEAD = 2
