# cython: auto_pickle=False, autotestdict=False
"""Client frames on the hot path: from a socket's bytes into the next batch, and from a batch's answers to each socket's bytes.

Knows: the frames, the hot operations and the batch header of docs/protocol.md, and which connection waits for which answer. Must not
know: what an operation means, which node leads, sockets, time. No Python object is made for an operation that stays on this path.

Bytes come from strangers. Two rules keep them harmless: what enters a batch is well-formed and within the limits of the format, so that
the lease table can read every operation of a batch; anything else leaves as a whole payload, for Python to answer. A length is compared
with its limit before memory is taken for it, and memory is taken for bytes that came, never for bytes that were announced.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove, memset

from cluster._cursor cimport NESTING_MAX, Cursor, left, load_u32, read_array, read_bin, read_uint, skip_nested, skip_value

# Limits of format level 1; cluster/limits.py has the same numbers, and a test compares them by behaviour.
cdef enum:
    NAME_MAX_BYTES = 255
    NODE_ID_MAX_BYTES = 255
    METADATA_MAX_BYTES = 4096
    LEASE_MIN_MS = 100
    LEASE_MAX_MS = 604_800_000
    MAX_LEADERS_MAX = 1024
    OUTCOME_MAX = 4

cdef enum:
    HEADER_SIZE = 24
    AVERAGE_OP_BYTES = 256         # queue_max times this bounds the queue's memory, whatever the operations' sizes
    PART_KEPT_BYTES = 16 * 1024    # a bigger buffer for a partial frame is given back once the frame is complete
    QUEUE_KEPT_BYTES = 4 << 20     # a bigger queue buffer is given back once the queue is empty
    QUEUE_KEPT_ENTRIES = 1 << 16

# What an Entry is.
cdef enum:
    HOT = 0
    SLOW = 1
    DEAD = 2

# What an operation is to the queue.
cdef enum:
    OTHER = 0   # not for the hot path
    NEW = 1     # asks for something that nobody has yet: the first to be turned away
    NAMED = 2   # as NEW, and stands behind those who wait for its name
    KEEP = 3    # renews, ends or asks about something that exists: losing these would lose leases

cdef uint64_t TOKEN_MAX = <uint64_t>-1 >> 1

# 1: may stand in a name; 2: may begin one.
cdef uint8_t NAME_CHARS[256]


cdef void _fill_name_chars() noexcept:
    cdef int c
    memset(NAME_CHARS, 0, sizeof(NAME_CHARS))
    for c in b"_-:./":
        NAME_CHARS[c] = 1
    for c in b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz":
        NAME_CHARS[c] = 3


_fill_name_chars()


class WireError(ValueError):
    """The bytes of a connection cannot be split into frames: nothing after them can be trusted, close it."""


def check_value(bytes data not None):
    """Raise ValueError unless the bytes are exactly one whole msgpack value, nested at most ``NESTING_MAX`` deep.

    For what a general decoder is to read: some take memory for every element that is announced, on every level, before one has come.
    """
    cdef Cursor c
    c.at = <const uint8_t *>PyBytes_AS_STRING(data)
    c.end = c.at + PyBytes_GET_SIZE(data)
    cdef int found = skip_nested(&c)
    if found < 0:
        raise ValueError(f"nested deeper than {NESTING_MAX}")
    if not found or c.at != c.end:
        raise ValueError("not exactly one whole msgpack value")


cdef inline bint _read_id(Cursor *c) noexcept nogil:
    cdef const uint8_t *data
    cdef uint32_t size
    return read_bin(c, &data, &size) and size == 16


cdef inline bint _read_name(Cursor *c, const uint8_t **name, uint32_t *size) noexcept nogil:
    cdef uint32_t i
    if not read_bin(c, name, size) or size[0] == 0 or size[0] > NAME_MAX_BYTES:
        return False
    if not NAME_CHARS[name[0][0]] & 2:
        return False
    for i in range(1, size[0]):
        if not NAME_CHARS[name[0][i]]:
            return False
    return True


cdef inline bint _read_within(Cursor *c, uint64_t low, uint64_t high, uint64_t *value) noexcept nogil:
    return read_uint(c, value) and low <= value[0] <= high


cdef inline bint _read_bin_within(Cursor *c, uint32_t high) noexcept nogil:
    cdef const uint8_t *data
    cdef uint32_t size
    return read_bin(c, &data, &size) and size <= high


cdef int _classify(Cursor *c, const uint8_t **name, uint32_t *name_size) noexcept nogil:
    """Say what the operation that fills the cursor is to the queue; OTHER unless the lease table could read it and it is within limits."""
    cdef uint32_t arity
    cdef uint64_t op, lease_ms, number
    cdef int kind = OTHER
    if not read_array(c, &arity) or not read_uint(c, &op):
        return OTHER
    if op == 1 and arity == 9:  # ACQUIRE
        if (_read_id(c) and _read_name(c, name, name_size)
                and _read_within(c, LEASE_MIN_MS, LEASE_MAX_MS, &lease_ms)
                and _read_within(c, 1, MAX_LEADERS_MAX, &number)
                and _read_within(c, 0, lease_ms, &number)
                and _read_within(c, 0, TOKEN_MAX, &number)
                and _read_bin_within(c, NODE_ID_MAX_BYTES) and _read_bin_within(c, METADATA_MAX_BYTES)):
            kind = NAMED
    elif op == 3 and arity == 5:  # EXTEND
        if (_read_id(c) and _read_name(c, name, name_size) and _read_within(c, 0, TOKEN_MAX, &number)
                and _read_within(c, LEASE_MIN_MS, LEASE_MAX_MS, &lease_ms)):
            kind = KEEP
    elif op == 4 and arity == 2:  # SESSION_RENEW
        if _read_within(c, 0, TOKEN_MAX, &number):
            kind = KEEP
    elif op == 5 and arity == 5:  # RELEASE
        if (_read_id(c) and _read_name(c, name, name_size) and _read_within(c, 0, TOKEN_MAX, &number)
                and _read_within(c, 0, OUTCOME_MAX, &number)):
            kind = KEEP
    elif op == 6 and arity == 3:  # ABANDON
        if _read_id(c) and _read_name(c, name, name_size):
            kind = KEEP
    elif op == 12 and arity == 3:  # SESSION_OPEN
        if _read_within(c, LEASE_MIN_MS, LEASE_MAX_MS, &lease_ms) and _read_bin_within(c, NODE_ID_MAX_BYTES):
            kind = NEW
    elif op == 13 and arity == 4:  # CHECK
        if _read_id(c) and _read_name(c, name, name_size) and _read_within(c, 0, TOKEN_MAX, &number):
            kind = KEEP
    return kind if c.at == c.end else OTHER


cdef inline uint8_t *_store_be(uint8_t *p, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        p[i] = <uint8_t>(value >> (8 * (width - 1 - i)))
    return p + width


cdef inline uint8_t *_store_le(uint8_t *p, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        p[i] = <uint8_t>(value >> (8 * i))
    return p + width


cdef inline Py_ssize_t _uint_size(uint64_t value) noexcept nogil:
    if value < 0x80:
        return 1
    if value <= 0xff:
        return 2
    if value <= 0xffff:
        return 3
    return 5 if value <= <uint64_t>0xffffffff else 9


cdef inline uint8_t *_store_uint(uint8_t *p, uint64_t value) noexcept nogil:
    if value < 0x80:
        return _store_be(p, value, 1)
    if value <= 0xff:
        return _store_be(_store_be(p, 0xcc, 1), value, 1)
    if value <= 0xffff:
        return _store_be(_store_be(p, 0xcd, 1), value, 2)
    if value <= <uint64_t>0xffffffff:
        return _store_be(_store_be(p, 0xce, 1), value, 4)
    return _store_be(_store_be(p, 0xcf, 1), value, 8)


include "_intake.pxi"
include "_sealed.pxi"
include "_reader.pxi"
