# A batch: header, epoch, time, sweep, operations. Included by _table.pyx.

from libc.string cimport memcpy
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef enum:
    READ_AHEAD = 8  # operations; a power of two


cdef struct Header:
    uint32_t count
    uint64_t epoch
    int64_t stamp_ms


cdef inline uint64_t little_endian(const uint8_t *at, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value |= <uint64_t>at[i] << (8 * i)
    return value


cdef bint read_header(const uint8_t *batch, size_t size, Header *h) noexcept nogil:
    """Whether this is a batch of a level that this code knows, and can be as long as it says."""
    if size < HEADER_BYTES or batch[0] < 1 or batch[0] > FORMAT_LEVEL or batch[1] or batch[2] or batch[3]:
        return False
    h.count = <uint32_t>little_endian(batch + 4, 4)
    h.epoch = little_endian(batch + 8, 8)
    h.stamp_ms = <int64_t>little_endian(batch + 16, 8)
    # An operation has at least a byte. Without this a few bytes could ask for gigabytes of answers.
    return h.count <= size - HEADER_BYTES


cdef inline bint is_epoch_entry(const Header *h, Cursor c) noexcept nogil:
    """Whether the batch is one EPOCH operation. The cursor is a copy."""
    cdef Request r
    return h.count == 1 and read_request(&c, &r) and r.operation == EPOCH


cdef void refuse(Table *t, const Header *h) noexcept nogil:
    cdef uint32_t i
    for i in range(h.count):
        answer(t, WRONG_EPOCH)


cdef inline void foresee(const Table *t, Request *r) noexcept nogil:
    """Hash an operation's names, and have its slot brought: at a million leases, waiting for it is half the cost of an operation."""
    cdef uint32_t i
    if r.operation == ACQUIRE_ALL:
        for i in range(min(r.name_count, <uint32_t>ACQUIRE_ALL_MAX_NAMES)):
            hash_name(t, &r.names[i])
    elif has_name(r.operation):
        hash_name(t, &r.name)
        index_prefetch(&t.names, r.name.hash)


cdef inline void approach(const Table *t, const Request *r) noexcept nogil:
    """Have an operation's record brought, now that its slot is there."""
    cdef uint32_t ref = index_guess(&t.names, r.name.hash) if has_name(r.operation) else 0
    if ref:
        prefetch(block(&t.arena, ref))
        prefetch(<const uint8_t *>block(&t.arena, ref) + 64)


cdef void operate_all(Table *t, uint32_t count, Cursor *c) noexcept nogil:
    """Answer all operations, in order; a few are read ahead, which has no effect but that their memory is near when their turn comes."""
    cdef Request ahead[READ_AHEAD]
    cdef uint32_t read = 0
    cdef uint32_t i
    cdef bint readable = True
    for i in range(count):
        while readable and read < count and read < i + READ_AHEAD:
            readable = read_request(c, &ahead[read % READ_AHEAD])
            if readable:
                foresee(t, &ahead[read % READ_AHEAD])
                read += 1
        if i + READ_AHEAD // 2 < read:
            approach(t, &ahead[(i + READ_AHEAD // 2) % READ_AHEAD])
        if i < read:
            operate(t, &ahead[i % READ_AHEAD])
        else:
            answer_number(t, INVALID, 0)
        if t.no_memory:
            return


cdef void apply_batch(Table *t, const uint8_t *batch, size_t size) noexcept nogil:
    """Total: whatever the bytes are, ``replies`` and ``events`` hold what comes of them (I7), unless ``no_memory`` is set."""
    cdef Header h
    cdef Cursor c
    empty_buffer(&t.replies)
    empty_buffer(&t.events)
    t.no_memory = False
    if not read_header(batch, size, &h):
        return
    c.at = batch + HEADER_BYTES
    c.end = batch + size
    if is_epoch_entry(&h, c):
        if h.epoch < t.epoch:
            refuse(t, &h)
            return
        t.epoch = h.epoch  # I3. Moves no time: its stamp was read before its leader knew what came before it.
        answer_number(t, OK, <uint64_t>t.time_ms)
        return
    if h.epoch != t.epoch:
        refuse(t, &h)
        return
    if t.time_ms < h.stamp_ms <= STAMP_MAX_MS:
        t.time_ms = h.stamp_ms
    sweep(t)
    operate_all(t, h.count, &c)
