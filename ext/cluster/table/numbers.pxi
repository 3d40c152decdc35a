# Every number of format level 1: limits, operations, statuses, events, flags. Included by _table.pyx.
#
# Changing one changes what ``apply`` answers, and so needs a new format level. The limits stand again in ``cluster/limits.py``; a test
# compares the two.

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    FORMAT_LEVEL = 1
    NAME_MAX_BYTES = 255
    NODE_ID_MAX_BYTES = 255
    METADATA_MAX_BYTES = 4096
    ACQUIRE_ALL_MAX_NAMES = 64
    LEASE_MIN_MS = 100
    LEASE_MAX_MS = 604800000
    MAX_LEADERS_MAX = 1024
    SWEEP_MAX_PER_BATCH = 1024
    LEASES_MAX = 16777216
    SESSIONS_MAX = 1048576
    RECORD_VALUE_MAX_BYTES = 65536
    RECORDS_MAX = 1048576
    RECORDS_MAX_BYTES = 67108864  # keys, bound names and values of all records together
    RECORD_WRITES_KEPT = 65536
    CANDIDATE_INFO_MAX_BYTES = 4096
    CANDIDATES_PER_NAME_MAX = 1024
    CANDIDATES_MAX = 65536
    CANDIDATES_MAX_BYTES = 67108864  # names, node ids and infos of all candidates together

cdef extern from *:
    """
    /* An enumerator of C holds an int, which these do not fit. */
    static const uint64_t LEASES_TEXT_MAX_BYTES = (uint64_t)1 << 31;
    static const int64_t STAMP_MAX_MS = (int64_t)1 << 53;
    static const uint64_t TOKEN_MAX = ((uint64_t)1 << 53) - 1;
    static const uint64_t EVENT_MAX = (uint64_t)1 << 62;
    static const uint64_t WALL_MAX_MS = ((uint64_t)1 << 32) * 1000 - 1;
    """
    const uint64_t LEASES_TEXT_MAX_BYTES  # names, node ids and metadata of all leases together
    const int64_t STAMP_MAX_MS   # a stamp above it is ignored, so that no sum of a time and a lease can overflow
    const uint64_t TOKEN_MAX     # 53 bits, so that every language can hold a token
    const uint64_t EVENT_MAX     # more than will ever happen: a number above it is no number of an event
    const uint64_t WALL_MAX_MS   # the last moment whose token floor fits in 53 bits

cdef enum:
    ID_BYTES = 16
    HEADER_BYTES = 24
    TOKENS_PER_SECOND_BITS = 21

cdef enum:  # operations
    ACQUIRE = 1
    ACQUIRE_ALL = 2
    EXTEND = 3
    SESSION_RENEW = 4
    RELEASE = 5
    ABANDON = 6
    REVOKE = 7
    EPOCH = 8
    RAISE_LEVEL = 9
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
    RESTORE = 31  # the last code there is

cdef enum:  # statuses
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

cdef enum:  # what LIMIT names
    LIMIT_LEASES = 1
    LIMIT_SESSIONS = 2
    LIMIT_TOKENS = 3
    LIMIT_TEXT = 4
    LIMIT_RECORDS = 5
    LIMIT_RECORD_BYTES = 6
    LIMIT_CANDIDATES = 7
    LIMIT_CANDIDATE_BYTES = 8
    LIMIT_CANDIDATES_PER_NAME = 9

cdef enum:  # events
    EVENT_GRANTED = 1
    EVENT_RELEASED = 2
    EVENT_EXPIRED = 3
    EVENT_REVOKED = 4
    EVENT_FREED = 5
    EVENT_VACATED = 6
    EVENT_ABANDONED = 7
    EVENT_EXTENDED = 8

cdef enum:  # flags of a lease, as rows and snapshots show them
    FLAG_REVOKED = 1  # an operator ended it: it lives to its deadline and cannot be extended
    FLAG_DEAD = 2     # ended early: it only occupies its slot

cdef enum:
    OUTCOME_NEVER_STARTED = 0
    OUTCOME_COMPLETED = 1
    OUTCOME_FAILED = 2
    OUTCOME_LOST = 3
    OUTCOME_MAX = 4
