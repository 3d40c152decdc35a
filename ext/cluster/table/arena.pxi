# Blocks of memory for leases, sessions and metadata, named by 32-bit references. Included by _table.pyx.
#
# Memory comes in chunks that are never moved, so a pointer stays good while its block lives and growing copies nothing. Blocks are a
# whole number of 8-byte units, beyond UNITS_EXACT one of four sizes between a power of two and the next; a freed one is kept for the
# next block of its size. So few sizes there are so that blocks whose wishes change from round to round serve each other: what was taken
# is then at most some times the most that was in use, also where each round is of another size. What is freed goes back to the system
# only with the whole table: a table that once held many leases is expected to hold many again.

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memset
from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    UNIT_BYTES = 8
    CHUNK_BITS = 17
    CHUNK_UNITS = 1 << CHUNK_BITS  # 1 MiB
    CHUNKS_MAX = 1 << 14           # 16 GiB: a reference has 31 bits, the heap uses the last one
    BLOCK_UNITS_MAX = METADATA_MAX_BYTES // UNIT_BYTES
    UNITS_EXACT = 16               # a lease with 55 bytes of name and node id: most are not larger


cdef struct Arena:
    uint8_t **chunks
    uint32_t chunk_count
    uint32_t chunk_room
    uint32_t used                        # units of the last chunk that were handed out
    uint32_t spare[BLOCK_UNITS_MAX + 1]  # by size in units: the first freed block; its first bytes name the next one


cdef inline void *block(const Arena *a, uint32_t ref) noexcept nogil:
    return a.chunks[ref >> CHUNK_BITS] + <size_t>(ref & (CHUNK_UNITS - 1)) * UNIT_BYTES


cdef inline uint32_t units_of(size_t size) noexcept nogil:
    """The units of a block for so many bytes: no more than a quarter above what they need."""
    cdef uint32_t units = <uint32_t>((size + UNIT_BYTES - 1) // UNIT_BYTES)
    cdef uint32_t step = UNITS_EXACT // 4
    if units <= UNITS_EXACT:
        return units
    while units > 8 * step:
        step *= 2
    return (units + step - 1) & ~(step - 1)


cdef bint add_chunk(Arena *a) noexcept nogil:
    cdef uint32_t room
    cdef void *grown
    if a.chunk_count == CHUNKS_MAX:
        return False
    if a.chunk_count == a.chunk_room:
        room = a.chunk_room * 2 if a.chunk_room else 16
        grown = realloc(a.chunks, room * sizeof(uint8_t *))
        if grown == NULL:
            return False
        a.chunks = <uint8_t **>grown
        a.chunk_room = room
    a.chunks[a.chunk_count] = <uint8_t *>malloc(<size_t>CHUNK_UNITS * UNIT_BYTES)
    if a.chunks[a.chunk_count] == NULL:
        return False
    a.chunk_count += 1
    # Reference 0 means none, so the first unit of all is never handed out.
    a.used = 1 if a.chunk_count == 1 else 0
    return True


cdef inline uint32_t take_block(Arena *a, size_t size) noexcept nogil:
    """A block of at least ``size`` bytes (at most METADATA_MAX_BYTES), not cleared; 0: out of memory."""
    cdef uint32_t units = units_of(size)
    cdef uint32_t ref = a.spare[units]
    if ref:
        a.spare[units] = (<uint32_t *>block(a, ref))[0]
        return ref
    if a.chunk_count == 0 or a.used + units > CHUNK_UNITS:
        if not add_chunk(a):
            return 0
    ref = ((a.chunk_count - 1) << CHUNK_BITS) | a.used
    a.used += units
    return ref


cdef inline void give_block(Arena *a, uint32_t ref, size_t size) noexcept nogil:
    cdef uint32_t units = units_of(size)
    (<uint32_t *>block(a, ref))[0] = a.spare[units]
    a.spare[units] = ref


cdef void drop_arena(Arena *a) noexcept nogil:
    cdef uint32_t i
    for i in range(a.chunk_count):
        free(a.chunks[i])
    free(a.chunks)
    memset(a, 0, sizeof(Arena))
