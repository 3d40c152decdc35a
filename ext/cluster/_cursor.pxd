"""A bounds-checked msgpack cursor over somebody else's bytes.

Knows: the msgpack encodings that our operations use, and how long any msgpack value is. Must not know: operations, frames, batches.
Every function returns whether it could read what it was asked for and never looks at a byte at or past ``end``; after a failure the
cursor's position means nothing. Nothing here touches a Python object.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef enum:
    NESTING_MAX = 16


cdef struct Cursor:
    const uint8_t *at   # the next byte to read
    const uint8_t *end  # one past the last byte that may be read


cdef inline size_t left(const Cursor *c) noexcept nogil:
    return <size_t>(c.end - c.at)


cdef inline uint32_t load_u16(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 8) | p[1]


cdef inline uint32_t load_u32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t load_u64(const uint8_t *p) noexcept nogil:
    return (<uint64_t>load_u32(p) << 32) | load_u32(p + 4)


cdef inline bint read_uint(Cursor *c, uint64_t *value) noexcept nogil:
    """An unsigned integer in any width. Signed encodings are refused, whatever their value."""
    if c.at >= c.end:
        return False
    cdef uint8_t head = c.at[0]
    if head < 0x80:
        value[0] = head
        c.at += 1
        return True
    if head < 0xcc or head > 0xcf:
        return False
    cdef size_t width = <size_t>1 << (head - 0xcc)
    if left(c) < 1 + width:
        return False
    if head == 0xcc:
        value[0] = c.at[1]
    elif head == 0xcd:
        value[0] = load_u16(c.at + 1)
    elif head == 0xce:
        value[0] = load_u32(c.at + 1)
    else:
        value[0] = load_u64(c.at + 1)
    c.at += 1 + width
    return True


cdef inline bint read_bin(Cursor *c, const uint8_t **data, uint32_t *size) noexcept nogil:
    """A byte string of at most 65,535 bytes in its shortest encoding; ``data`` points into the cursor's bytes."""
    if left(c) < 2:
        return False
    cdef uint8_t head = c.at[0]
    if head == 0xc4:
        size[0] = c.at[1]
        c.at += 2
    elif head == 0xc5 and left(c) >= 3:
        size[0] = load_u16(c.at + 1)
        c.at += 3
        if size[0] < 256:
            return False
    else:
        return False
    if left(c) < size[0]:
        return False
    data[0] = c.at
    c.at += size[0]
    return True


cdef inline bint read_array(Cursor *c, uint32_t *count) noexcept nogil:
    """The head of an array of at most 15 elements, in its shortest encoding."""
    if c.at >= c.end or (c.at[0] & 0xf0) != 0x90:
        return False
    count[0] = c.at[0] & 0x0f
    c.at += 1
    return True


cdef inline bint _skip_head(Cursor *c, uint8_t head, uint64_t *body, uint64_t *children) noexcept nogil:
    """Read the rest of a head whose first byte is taken: the bytes that follow it, and the values that follow those."""
    cdef size_t width
    if head == 0xc1:  # Never used by msgpack.
        return False
    if head == 0xc0 or head == 0xc2 or head == 0xc3:
        return True
    if 0xca <= head <= 0xd3:  # float 32/64, uint 8 to 64, int 8 to 64: the width is in the head.
        body[0] = (<uint64_t>4 << (head - 0xca)) if head <= 0xcb else (<uint64_t>1 << ((head - 0xcc) & 3))
        return True
    if 0xd4 <= head <= 0xd8:  # fixext: a type byte and 1 to 16 bytes.
        body[0] = 1 + (<uint64_t>1 << (head - 0xd4))
        return True
    # What is left carries a length: bin, ext and str in 8, 16 or 32 bits, array and map in 16 or 32.
    if head <= 0xc9:
        width = <size_t>1 << ((head - 0xc4) % 3)
    elif head <= 0xdb:
        width = <size_t>1 << (head - 0xd9)
    else:
        width = 2 if head == 0xdc or head == 0xde else 4
    if left(c) < width:
        return False
    cdef uint64_t length = c.at[0] if width == 1 else (load_u16(c.at) if width == 2 else load_u32(c.at))
    c.at += width
    if head >= 0xdc:
        children[0] = length if head <= 0xdd else 2 * length
    else:
        body[0] = length + (1 if 0xc7 <= head <= 0xc9 else 0)
    return True


cdef inline bint step_into(Cursor *c, uint64_t *children, bint *holds) noexcept nogil:
    """Step over a value, or over the head of an array or map: then ``holds``, and ``children`` values come next."""
    if c.at >= c.end:
        return False
    cdef uint8_t head = c.at[0]
    cdef uint64_t body = 0
    children[0] = 0
    c.at += 1
    holds[0] = 0x80 <= head < 0xa0 or 0xdc <= head <= 0xdf
    if head < 0x80 or head >= 0xe0:
        return True
    if head < 0xa0:
        children[0] = (head & 0x0f) << (head < 0x90)
    elif head < 0xc0:
        body = head & 0x1f
    elif not _skip_head(c, head, &body, children):
        return False
    if left(c) < body:
        return False
    c.at += body
    return True


cdef inline bint skip_value(Cursor *c) noexcept nogil:
    """Step over one whole value. Nesting is counted, not recursed into, so no depth of it can exhaust the stack.

    Cost: linear in the bytes skipped, since each value takes at least one; the count of values still due stays far below 64 bits for
    the same reason.
    """
    cdef uint64_t due = 1
    cdef uint64_t children
    cdef bint holds
    while due:
        if not step_into(c, &children, &holds):
            return False
        due += children
        due -= 1
    return True


cdef inline int skip_nested(Cursor *c) noexcept nogil:
    """Step over one whole value with at most ``NESTING_MAX`` arrays and maps around each of its parts.

    Returns 1; 0: the value is not whole, or not msgpack; -1: it is nested deeper. Cost: linear in the bytes that are there, whatever
    lengths they announce.
    """
    cdef uint64_t due[NESTING_MAX + 1]
    cdef uint64_t children
    cdef bint holds
    cdef int depth = 0
    due[0] = 1
    while True:
        while not due[depth]:
            if not depth:
                return 1
            depth -= 1
        if not step_into(c, &children, &holds):
            return 0
        due[depth] -= 1
        if holds:
            if depth == NESTING_MAX:
                return -1
            depth += 1
            due[depth] = children
