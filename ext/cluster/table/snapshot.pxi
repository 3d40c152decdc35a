# The canonical bytes of a state (I6). Included by _table.pyx.
#
# One msgpack array, every value in its shortest form:
#
#     [b"tenure table", level, epoch, time_ms, next_token, cluster_id, grants_from, longest_ms,
#      [[session, deadline, lease_ms, revoked_count, node_id], …] by id,
#      [[acq_id, name, slot, token, granted, deadline, lease_ms, min_ms, max_leaders, session, flags, node_id, metadata], …] by token]
#
# ``cluster_id`` is empty until INIT. Sessions that are over are not in it: what hung on one stands free, with the end that it has.
# Leases that are over and not yet swept are in it, since their expiry is still to be reported.

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    SNAPSHOT_ELEMENTS = 10
    SESSION_ELEMENTS = 5
    LEASE_ELEMENTS = 13
    SNAPSHOT_HEAD_BYTES_MAX = 128
    SESSION_BYTES_MAX = 64 + NODE_ID_MAX_BYTES
    LEASE_BYTES_MAX = 128 + NAME_MAX_BYTES + NODE_ID_MAX_BYTES + METADATA_MAX_BYTES
    MAGIC_BYTES = 12
    DIGIT_BITS = 11
    DIGITS = 5  # 55 bits: a token has 53

cdef const char *MAGIC = "tenure table"


cdef struct Numbered:
    uint64_t number
    uint32_t ref


cdef void sort_by_digit(const Numbered *given, Numbered *sorted, size_t count, int shift) noexcept nogil:
    """Stable; by one digit of the number."""
    cdef size_t starts[1 << DIGIT_BITS]
    cdef size_t total = 0
    cdef size_t here
    cdef size_t i
    memset(starts, 0, sizeof(starts))
    for i in range(count):
        starts[(given[i].number >> shift) & ((1 << DIGIT_BITS) - 1)] += 1
    for i in range(1 << DIGIT_BITS):
        here = starts[i]
        starts[i] = total
        total += here
    for i in range(count):
        here = (given[i].number >> shift) & ((1 << DIGIT_BITS) - 1)
        sorted[starts[here]] = given[i]
        starts[here] += 1


cdef Numbered *sort_by_number(Numbered *given, size_t count) noexcept nogil:
    """Ascending, digit by digit, the lowest first: linear, so that a snapshot's pause grows with nothing but its size. Takes ``given``; NULL: no memory."""
    cdef Numbered *other = <Numbered *>malloc((count + 1) * sizeof(Numbered))
    cdef Numbered *swapped
    cdef uint64_t differing = 0
    cdef size_t i
    cdef int digit
    if other == NULL:
        free(given)
        return NULL
    for i in range(1, count):
        differing |= given[i].number ^ given[0].number
    for digit in range(DIGITS):
        if (differing >> (digit * DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1):
            sort_by_digit(given, other, count, digit * DIGIT_BITS)
            swapped = given
            given = other
            other = swapped
    free(other)
    return given


cdef Numbered *leases_by_token(const Table *t) noexcept nogil:
    cdef Numbered *all = <Numbered *>malloc((<size_t>t.lease_count + 1) * sizeof(Numbered))
    cdef size_t count = 0
    cdef size_t i
    cdef uint32_t ref
    if all == NULL:
        return NULL
    for i in range(index_slots(&t.names)):
        ref = index_slot(&t.names, i).ref
        while ref:
            all[count].number = lease_at(&t.arena, ref).token
            all[count].ref = ref
            count += 1
            ref = lease_at(&t.arena, ref).sibling
    return sort_by_number(all, count)


cdef Numbered *sessions_by_id(const Table *t) noexcept nogil:
    cdef Numbered *all = <Numbered *>malloc((<size_t>t.session_count + 1) * sizeof(Numbered))
    cdef size_t count = 0
    cdef size_t i
    cdef uint32_t ref
    if all == NULL:
        return NULL
    for i in range(index_slots(&t.sessions)):
        ref = index_slot(&t.sessions, i).ref
        if ref:
            all[count].number = session_at(&t.arena, ref).id
            all[count].ref = ref
            count += 1
    return sort_by_number(all, count)


cdef bint write_head(const Table *t, Buffer *b) noexcept nogil:
    if not make_room(b, SNAPSHOT_HEAD_BYTES_MAX):
        return False
    put_list(b, SNAPSHOT_ELEMENTS)
    put_text(b, <const uint8_t *>MAGIC, MAGIC_BYTES)
    put_uint(b, t.level)
    put_uint(b, t.epoch)
    put_uint(b, <uint64_t>t.time_ms)
    put_uint(b, t.next_token)
    put_text(b, t.cluster_id, ID_BYTES if t.formed else 0)
    put_uint(b, <uint64_t>t.grants_from)
    put_uint(b, t.longest_ms)
    return True


cdef bint write_session(const Table *t, Buffer *b, uint32_t ref) noexcept nogil:
    cdef const Session *s = session_at(&t.arena, ref)
    if not make_room(b, SESSION_BYTES_MAX):
        return False
    put_list(b, SESSION_ELEMENTS)
    put_uint(b, s.id)
    put_uint(b, <uint64_t>s.deadline)
    put_uint(b, s.lease_ms)
    put_uint(b, s.revoked)
    put_text(b, session_text(s), s.node_size)
    return True


cdef inline uint64_t session_id_of(const Table *t, const Lease *l, int64_t now) noexcept nogil:
    """The id of the session that a lease hangs on, while that lives; else 0."""
    cdef const Session *s
    if l.session == 0:
        return 0
    s = session_at(&t.arena, l.session)
    return s.id if s.deadline > now else 0


cdef bint write_lease(const Table *t, Buffer *b, uint32_t ref) noexcept nogil:
    cdef const Lease *l = lease_at(&t.arena, ref)
    cdef uint64_t session = session_id_of(t, l, t.time_ms)
    cdef Text metadata = metadata_of(&t.arena, l)
    if not make_room(b, LEASE_BYTES_MAX):
        return False
    put_list(b, LEASE_ELEMENTS)
    put_text(b, l.id, ID_BYTES)
    put_text(b, lease_text(l), l.name_size)
    put_uint(b, l.slot)
    put_uint(b, l.token)
    put_uint(b, <uint64_t>l.granted)
    put_uint(b, <uint64_t>(l.deadline if session else ends_at(t, l)))
    put_uint(b, l.lease_ms)
    put_uint(b, l.min_ms)
    put_uint(b, l.max_leaders)
    put_uint(b, session)
    put_byte(b, l.flags)
    put_text(b, lease_text(l) + l.name_size, l.node_size)
    put_text(b, metadata.at, metadata.size)
    return True


cdef bint write_sessions(const Table *t, Buffer *b) noexcept nogil:
    cdef Numbered *all = sessions_by_id(t)
    cdef bint written = all != NULL
    cdef uint32_t i
    if written:
        put_list(b, t.session_count)
        for i in range(t.session_count):
            written = written and write_session(t, b, all[i].ref)
    free(all)
    return written


cdef bint write_leases(const Table *t, Buffer *b) noexcept nogil:
    cdef Numbered *all = leases_by_token(t)
    cdef bint written = all != NULL and make_room(b, 8)
    cdef uint32_t i
    if written:
        put_list(b, t.lease_count)
        for i in range(t.lease_count):
            written = written and write_lease(t, b, all[i].ref)
    free(all)
    return written


cdef bint write_snapshot(const Table *t, Buffer *b) noexcept nogil:
    """Whether there was memory enough."""
    return write_head(t, b) and write_sessions(t, b) and write_leases(t, b)
