# A growing buffer and the msgpack values that are written into it, each in its shortest form. Included by _table.pyx.
#
# Room is made once for a whole answer, event or record (``make_room``); the ``put`` functions then write unchecked.

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    BUFFER_KEPT_BYTES = 1 << 20  # a buffer that grew beyond this is given back after its batch


cdef struct Buffer:
    uint8_t *data
    size_t size
    size_t room


cdef inline bint make_room(Buffer *b, size_t more) noexcept nogil:
    """Whether ``more`` bytes can now be put."""
    if b.room - b.size >= more:
        return True
    return grow_buffer(b, more)


cdef bint grow_buffer(Buffer *b, size_t more) noexcept nogil:
    cdef size_t room = b.room * 2 if b.room else 4096
    while room - b.size < more:
        room *= 2
    cdef void *data = realloc(b.data, room)
    if data == NULL:
        return False
    b.data = <uint8_t *>data
    b.room = room
    return True


cdef inline void empty_buffer(Buffer *b) noexcept nogil:
    """Forget the content; keep a memory of ordinary size for the next batch."""
    b.size = 0
    if b.room > BUFFER_KEPT_BYTES:
        drop_buffer(b)


cdef inline void drop_buffer(Buffer *b) noexcept nogil:
    free(b.data)
    b.data = NULL
    b.size = 0
    b.room = 0


cdef inline void copy_short(uint8_t *to, const uint8_t *at, uint32_t size) noexcept nogil:
    """Copy a name or the like, in overlapping words. A call to memcpy, or what compilers put in its place, takes several times as long."""
    if size >= 8:
        memcpy(to + size - 8, at + size - 8, 8)
        while size > 8:
            memcpy(to, at, 8)
            to += 8
            at += 8
            size -= 8
    elif size >= 4:
        memcpy(to + size - 4, at + size - 4, 4)
        memcpy(to, at, 4)
    elif size:
        to[0] = at[0]
        to[size >> 1] = at[size >> 1]
        to[size - 1] = at[size - 1]


cdef inline void put_byte(Buffer *b, uint8_t byte) noexcept nogil:
    b.data[b.size] = byte
    b.size += 1


cdef inline void put_big_endian(Buffer *b, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        b.data[b.size + i] = <uint8_t>(value >> (8 * (width - 1 - i)))
    b.size += width


cdef inline void put_uint(Buffer *b, uint64_t value) noexcept nogil:
    """At most 9 bytes."""
    if value < 0x80:
        put_byte(b, <uint8_t>value)
    elif value <= 0xff:
        put_byte(b, 0xcc)
        put_byte(b, <uint8_t>value)
    elif value <= 0xffff:
        put_byte(b, 0xcd)
        put_big_endian(b, value, 2)
    elif value <= <uint64_t>0xffffffff:
        put_byte(b, 0xce)
        put_big_endian(b, value, 4)
    else:
        put_byte(b, 0xcf)
        put_big_endian(b, value, 8)


cdef inline void put_list(Buffer *b, uint32_t count) noexcept nogil:
    """The head of an array; at most 5 bytes."""
    if count < 16:
        put_byte(b, 0x90 | <uint8_t>count)
    elif count <= 0xffff:
        put_byte(b, 0xdc)
        put_big_endian(b, count, 2)
    else:
        put_byte(b, 0xdd)
        put_big_endian(b, count, 4)


cdef inline void put_text(Buffer *b, const uint8_t *at, uint32_t size) noexcept nogil:
    """A byte string of at most 65,535 bytes; at most 3 bytes more than it has."""
    if size <= 0xff:
        put_byte(b, 0xc4)
        put_byte(b, <uint8_t>size)
        copy_short(b.data + b.size, at, size)
    else:
        put_byte(b, 0xc5)
        put_big_endian(b, size, 2)
        memcpy(b.data + b.size, at, size)
    b.size += size


cdef inline void put_value(Buffer *b, const uint8_t *at, uint32_t size) noexcept nogil:
    """A byte string of any size; at most 5 bytes more than it has."""
    if size <= 0xffff:
        put_text(b, at, size)
        return
    put_byte(b, 0xc6)
    put_big_endian(b, size, 4)
    memcpy(b.data + b.size, at, size)
    b.size += size


cdef inline void put_bool(Buffer *b, bint value) noexcept nogil:
    put_byte(b, 0xc3 if value else 0xc2)
