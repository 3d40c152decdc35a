# cython: autotestdict=False
"""The frames between raft nodes, to and from Python objects in one step each.

Knows: the kinds of messages and the types of their fields (``cluster/raft/messages.py`` says what they mean). Must not know: terms, logs,
connections. Every reading is bounds-checked; what is not exactly a message of its kind is a ValueError.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen

from cluster._cursor cimport Cursor, left, load_u16, load_u32, load_u64, read_array, read_uint

cdef enum:
    APPEND = 1
    ACK = 2
    KINDS = 11
    HEAD_MAX = 5        # bytes of the longest head of a byte string or an array
    UINT_MAX = 9
    FRONT_BYTES = 80    # more than all of an append before its entries

# One letter a field after the kind: u unsigned integer, f float, b boolean, d bytes, e entries.
cdef const char **SHAPES = [
    NULL, b"ufuuue", b"ufubb", b"ufuuuuuud", b"ufuuub", b"uuub", b"u", b"u", b"uuuu", b"uu", b"uu",
]


cdef inline object read_float(Cursor *c):
    cdef uint64_t bits
    cdef double value
    if left(c) < 9 or c.at[0] != 0xcb:
        return None
    bits = load_u64(c.at + 1)
    memcpy(&value, &bits, 8)
    c.at += 9
    return value


cdef inline object read_bool(Cursor *c):
    if left(c) < 1 or (c.at[0] != 0xc2 and c.at[0] != 0xc3):
        return None
    c.at += 1
    return c.at[-1] == 0xc3


cdef inline object read_bytes(Cursor *c):
    cdef size_t size
    cdef size_t head
    if left(c) < 2:
        return None
    if c.at[0] == 0xc4:
        head = 2
        size = c.at[1]
    elif c.at[0] == 0xc5 and left(c) >= 3:
        head = 3
        size = load_u16(c.at + 1)
    elif c.at[0] == 0xc6 and left(c) >= 5:
        head = 5
        size = load_u32(c.at + 1)
    else:
        return None
    if left(c) - head < size:
        return None
    c.at += head + size
    return PyBytes_FromStringAndSize(<const char *>c.at - size, <Py_ssize_t>size)


cdef inline object read_number(Cursor *c):
    cdef uint64_t value
    return value if read_uint(c, &value) else None


cdef list read_entries(Cursor *c):
    """``[[term, command], …]`` as a list of tuples. The list grows with what is there, never by a count that was only claimed."""
    cdef uint32_t count
    cdef uint32_t fields
    cdef list entries = []
    if left(c) >= 3 and c.at[0] == 0xdc:
        count = load_u16(c.at + 1)
        c.at += 3
    elif not read_array(c, &count):
        return None
    while count:
        count -= 1
        if not read_array(c, &fields) or fields != 2:
            return None
        term = read_number(c)
        command = read_bytes(c)
        if term is None or command is None:
            return None
        entries.append((term, command))
    return entries


cdef object read_field(Cursor *c, char kind):
    if kind == b"u":
        return read_number(c)
    if kind == b"f":
        return read_float(c)
    if kind == b"b":
        return read_bool(c)
    return read_bytes(c) if kind == b"d" else read_entries(c)


def decode(bytes payload not None):
    """One message as a list: the kind, then its fields; entries as (term, command).

    Raises:
        ValueError: for anything that is not exactly one message of a known kind.
    """
    cdef Cursor c
    cdef uint32_t count
    cdef uint64_t kind
    cdef const char *shape
    c.at = <const uint8_t *>PyBytes_AS_STRING(payload)
    c.end = c.at + PyBytes_GET_SIZE(payload)
    if not read_array(&c, &count) or count == 0 or not read_uint(&c, &kind) or kind == 0 or kind >= KINDS:
        raise ValueError("not a raft message")
    shape = SHAPES[kind]
    if count != 1 + strlen(shape):
        raise ValueError(f"raft message of kind {kind} with {count} fields is not what it should be")
    cdef list message = [kind]
    while shape[0]:
        field = read_field(&c, shape[0])
        if field is None:
            raise ValueError(f"raft message of kind {kind}: field {len(message)} is not what it should be")
        message.append(field)
        shape += 1
    if c.at != c.end:
        raise ValueError(f"raft message of kind {kind} is followed by {left(&c)} bytes")
    return message


cdef inline uint8_t *put_uint(uint8_t *at, uint64_t value) noexcept nogil:
    cdef int step = 3
    if value < 0x80:
        at[0] = <uint8_t>value
        return at + 1
    if value < 0x100:
        step = 0
    elif value < 0x10000:
        step = 1
    elif value < <uint64_t>1 << 32:
        step = 2
    at[0] = <uint8_t>(0xcc + step)
    return put_big(at + 1, value, 1 << step)


cdef inline uint8_t *put_big(uint8_t *at, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        at[i] = <uint8_t>(value >> (8 * (width - 1 - i)))
    return at + width


cdef inline uint8_t *put_float(uint8_t *at, double value) noexcept nogil:
    cdef uint64_t bits
    memcpy(&bits, &value, 8)
    at[0] = 0xcb
    return put_big(at + 1, bits, 8)


cdef inline uint8_t *put_bytes_head(uint8_t *at, uint64_t size) noexcept nogil:
    if size < 0x100:
        at[0] = 0xc4
        return put_big(at + 1, size, 1)
    if size < 0x10000:
        at[0] = 0xc5
        return put_big(at + 1, size, 2)
    at[0] = 0xc6
    return put_big(at + 1, size, 4)


cdef inline uint8_t *put_array_head(uint8_t *at, uint64_t count) noexcept nogil:
    if count < 16:
        at[0] = <uint8_t>(0x90 | count)
        return at + 1
    at[0] = 0xdc
    return put_big(at + 1, count, 2)


def append_frame(
    uint64_t term, double sent, uint64_t prev_index, uint64_t prev_term, uint64_t commit, object entries not None
):
    """An APPEND with its length prefix. ``entries``: a sequence of at most 65,535 (term, command).

    Raises:
        ValueError: too many entries, or together more than a frame can say.
    """
    cdef uint64_t size = FRONT_BYTES
    cdef uint64_t count = len(entries)
    cdef bytes command
    if count > 0xffff:
        raise ValueError(f"{count} entries are more than an append holds")
    for _, command in entries:
        size += 1 + UINT_MAX + HEAD_MAX + <uint64_t>PyBytes_GET_SIZE(command)
    if size > 0x7fffffff:
        raise ValueError("the entries are more than a frame holds")
    cdef bytes room = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    cdef uint8_t *start = <uint8_t *>PyBytes_AS_STRING(room)
    cdef uint8_t *at = put_uint(put_array_head(start + 4, 7), APPEND)
    at = put_float(put_uint(at, term), sent)
    at = put_array_head(put_uint(put_uint(put_uint(at, prev_index), prev_term), commit), count)
    for entry_term, command in entries:
        at = put_uint(put_array_head(at, 2), entry_term)
        at = put_bytes_head(at, <uint64_t>PyBytes_GET_SIZE(command))
        memcpy(at, PyBytes_AS_STRING(command), PyBytes_GET_SIZE(command))
        at += PyBytes_GET_SIZE(command)
    put_big(start, <uint64_t>(at - start - 4), 4)
    return PyBytes_FromStringAndSize(<const char *>start, at - start)


def ack_frame(uint64_t term, double sent, uint64_t index, bint agreed, bint voter):
    """An ACK with its length prefix."""
    cdef uint8_t room[FRONT_BYTES]
    cdef uint8_t *at = put_uint(put_array_head(room + 4, 6), ACK)
    at = put_uint(put_float(put_uint(at, term), sent), index)
    at[0] = 0xc3 if agreed else 0xc2
    at[1] = 0xc3 if voter else 0xc2
    at += 2
    put_big(room, <uint64_t>(at - room - 4), 4)
    return PyBytes_FromStringAndSize(<const char *>room, at - room)
