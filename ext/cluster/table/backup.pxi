# What ends when a state that was saved becomes the beginning of another raft group. Included by _table.pyx.
#
# Since the state was saved, leases in it may have ended and their names have passed to others; these others may still run. So no lease of
# it may be extended, released or given to who asks again with its id: all end here, and nothing is granted until the longest lease time
# that was ever in use has passed. The tokens go on upwards.

from libc.stdint cimport INT64_MAX, int64_t, uint32_t


cdef inline void wait_for_holders(Table *t) noexcept nogil:
    """Grant nothing for as long as a holder that this state does not know may still run."""
    cdef int64_t until = t.time_ms + <int64_t>t.longest_ms
    if until > t.grants_from:
        t.grants_from = until


cdef inline void wait_again(Table *t) noexcept nogil:
    """The group begins: of a state that was restored the wait counts from now. Until here its nodes may have stood idle, and others not."""
    if t.grants_from:
        wait_for_holders(t)


cdef void end_early(Table *t, uint32_t ref) noexcept nogil:
    cdef Lease *l = lease_at(&t.arena, ref)
    cdef Text name = name_of(l)
    if ends_at(t, l) <= t.time_ms:
        expire(t, ref)
        return
    hash_name(t, &name)
    emit(t, EVENT_FREED, l, 0)
    remove_lease(t, find_name(t, &name), ref)


cdef void end_for_restore(Table *t, const Request *r) noexcept nogil:
    """End every session and lease, forget the cluster id. Cost: all of them; it is never in a log that nodes apply."""
    cdef uint32_t ref
    end_sessions(t, INT64_MAX)
    ref = next_to_end(t, INT64_MAX)
    while ref:
        end_early(t, ref)
        ref = next_to_end(t, INT64_MAX)
    t.formed = False
    note_lease_time(t, r.lease_ms)
    wait_for_holders(t)
    answer_number(t, OK, <uint64_t>(t.grants_from - t.time_ms))
