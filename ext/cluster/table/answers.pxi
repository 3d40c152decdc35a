# The answers, as bytes. Included by _table.pyx.
#
# Each function makes room for the whole answer first. An answer that finds no memory is missing, and ``apply`` then raises.

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    SHORT_ANSWER_BYTES_MAX = 64                               # up to five numbers and a boolean, or INIT's
    GRANT_BYTES_MAX = 32
    HELD_BYTES_MAX = 2 + 2 + NODE_ID_MAX_BYTES + 4 * 9


cdef inline bint begin_answer(Table *t, size_t size, uint32_t elements, int status) noexcept nogil:
    if not make_room(&t.replies, size):
        t.no_memory = True
        return False
    put_list(&t.replies, elements)
    put_byte(&t.replies, <uint8_t>status)
    return True


cdef inline void answer(Table *t, int status) noexcept nogil:
    begin_answer(t, SHORT_ANSWER_BYTES_MAX, 1, status)


cdef inline void answer_number(Table *t, int status, uint64_t number) noexcept nogil:
    if begin_answer(t, SHORT_ANSWER_BYTES_MAX, 2, status):
        put_uint(&t.replies, number)


cdef inline void answer_numbers(Table *t, int status, uint64_t first, uint64_t second) noexcept nogil:
    if begin_answer(t, SHORT_ANSWER_BYTES_MAX, 3, status):
        put_uint(&t.replies, first)
        put_uint(&t.replies, second)


cdef inline void put_grant(Table *t, const Lease *l) noexcept nogil:
    put_uint(&t.replies, l.token)
    put_uint(&t.replies, l.slot)
    put_uint(&t.replies, <uint64_t>(ends_at(t, l) - t.time_ms))
    put_bool(&t.replies, l.flags & FLAG_REVOKED)


cdef inline void answer_grant(Table *t, const Lease *l) noexcept nogil:
    if begin_answer(t, SHORT_ANSWER_BYTES_MAX, 5, OK):
        put_grant(t, l)


cdef void answer_grants(Table *t, const uint32_t *refs, uint32_t count) noexcept nogil:
    cdef uint32_t i
    if not begin_answer(t, SHORT_ANSWER_BYTES_MAX + count * GRANT_BYTES_MAX, 2, OK):
        return
    put_list(&t.replies, count)
    for i in range(count):
        put_list(&t.replies, 4)
        put_grant(t, lease_at(&t.arena, refs[i]))


cdef void answer_held(Table *t, uint32_t leaver, int64_t leaves_at, int64_t index) noexcept nogil:
    """``index``: of the name in an ACQUIRE_ALL; negative in an ACQUIRE."""
    cdef const Lease *l = lease_at(&t.arena, leaver)
    cdef Text node = node_of(l)
    if not begin_answer(t, HELD_BYTES_MAX, 6 if index >= 0 else 5, HELD):
        return
    put_text(&t.replies, node.at, node.size)
    put_uint(&t.replies, <uint64_t>(leaves_at - t.time_ms))
    put_uint(&t.replies, l.token)
    put_uint(&t.replies, l.slot)
    if index >= 0:
        put_uint(&t.replies, <uint64_t>index)


cdef void answer_cluster(Table *t) noexcept nogil:
    if begin_answer(t, SHORT_ANSWER_BYTES_MAX, 3, OK):
        put_text(&t.replies, t.cluster_id, ID_BYTES)
        put_uint(&t.replies, t.next_token)
