# What the shared cursor does not read: byte strings and arrays in every width, booleans, nil. Included by _table.pyx.
#
# The log is read as generously as msgpack allows, since what is in it was committed; the door to it (the wire) is stricter.

from libc.string cimport memcmp
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cluster._cursor cimport Cursor, left, load_u16, load_u32, read_uint


cdef struct Text:
    const uint8_t *at
    uint32_t size
    uint32_t hash  # of names, set before one is looked for (``hash_name``)


cdef inline bint same_text(const Text *a, const Text *b) noexcept nogil:
    return a.size == b.size and memcmp(a.at, b.at, a.size) == 0


cdef inline bint read_length(Cursor *c, uint8_t narrowest, uint32_t *size) noexcept nogil:
    """The head of a bin: ``narrowest`` is the type byte of its form with the shortest length, the next two bytes are the others."""
    cdef uint8_t head = c.at[0]
    if head < narrowest or head > narrowest + 2:
        return False
    cdef size_t width = <size_t>1 << (head - narrowest)
    if left(c) < 1 + width:
        return False
    size[0] = c.at[1] if width == 1 else (load_u16(c.at + 1) if width == 2 else load_u32(c.at + 1))
    c.at += 1 + width
    return True


cdef inline bint read_text(Cursor *c, Text *text) noexcept nogil:
    """A byte string; ``text`` points into the cursor's bytes."""
    if c.at >= c.end or not read_length(c, 0xc4, &text.size) or left(c) < text.size:
        return False
    text.at = c.at
    c.at += text.size
    return True


cdef inline bint read_list(Cursor *c, uint32_t *count) noexcept nogil:
    """The head of an array."""
    if c.at >= c.end:
        return False
    cdef uint8_t head = c.at[0]
    if head & 0xf0 == 0x90:
        count[0] = head & 0x0f
        c.at += 1
        return True
    cdef size_t width = 2 if head == 0xdc else 4
    if (head != 0xdc and head != 0xdd) or left(c) < 1 + width:
        return False
    count[0] = load_u16(c.at + 1) if width == 2 else load_u32(c.at + 1)
    c.at += 1 + width
    return True


cdef inline bint read_bool(Cursor *c, bint *value) noexcept nogil:
    if c.at >= c.end or (c.at[0] != 0xc2 and c.at[0] != 0xc3):
        return False
    value[0] = c.at[0] == 0xc3
    c.at += 1
    return True


cdef inline bint read_nil(Cursor *c) noexcept nogil:
    """Step over a nil if one comes next; if not, the cursor stays."""
    if c.at >= c.end or c.at[0] != 0xc0:
        return False
    c.at += 1
    return True


cdef uint8_t name_bytes[256]  # 1: may stand in a name; 2: may also begin it


cdef void init_name_bytes() noexcept:
    cdef int byte
    for byte in range(256):
        name_bytes[byte] = 0
    for byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789":
        name_bytes[byte] = 2
    for byte in b"_-:./":
        name_bytes[byte] = 1


init_name_bytes()


cdef inline bint is_name(const Text *name) noexcept nogil:
    if name.size < 1 or name.size > NAME_MAX_BYTES or name_bytes[name.at[0]] != 2:
        return False
    cdef uint32_t i
    for i in range(1, name.size):
        if name_bytes[name.at[i]] == 0:
            return False
    return True
