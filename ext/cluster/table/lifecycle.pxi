# How leases and sessions begin, hang, end and are swept. Included by _table.pyx.

from libc.string cimport memcpy
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    EVENT_BYTES_MAX = 1 + 1 + 2 + NAME_MAX_BYTES + 3 + 9 + 2 + NODE_ID_MAX_BYTES + 1


cdef inline void emit(Table *t, int kind, const Lease *l, int reason) noexcept nogil:
    if not make_room(&t.events, EVENT_BYTES_MAX):
        t.no_memory = True
        return
    cdef Buffer *b = &t.events
    put_list(b, 6)
    put_byte(b, <uint8_t>kind)
    put_text(b, lease_text(l), l.name_size)
    put_uint(b, l.slot)
    put_uint(b, l.token)
    put_text(b, lease_text(l) + l.name_size, l.node_size)
    put_byte(b, <uint8_t>reason)
    t.next_event += 1


cdef inline void hang(Table *t, uint32_t ref, uint32_t session) noexcept nogil:
    """Hang a lease, whose token is the newest, on a session."""
    cdef Lease *l = lease_at(&t.arena, ref)
    cdef Session *s = session_at(&t.arena, session)
    l.session = session
    l.before = s.last
    l.after = 0
    if s.last:
        lease_at(&t.arena, s.last).after = ref
    else:
        s.first = ref
    s.last = ref


cdef inline void detach(Table *t, Lease *l) noexcept nogil:
    """Take a lease from what it hangs on; whoever calls frees it or makes it stand free."""
    if l.session == 0:
        heap_remove(&t.deadlines, &t.arena, l.before)
        return
    cdef Session *s = session_at(&t.arena, l.session)
    if l.before:
        lease_at(&t.arena, l.before).after = l.after
    else:
        s.first = l.after
    if l.after:
        lease_at(&t.arena, l.after).before = l.before
    else:
        s.last = l.before
    l.session = 0


cdef inline void stand_free(Table *t, uint32_t ref) noexcept nogil:
    """Put a detached lease into the heap of deadlines, where a place is reserved for each lease there is."""
    cdef Lease *l = lease_at(&t.arena, ref)
    heap_push(&t.deadlines, &t.arena, l.deadline, l.token, ref)


cdef inline void free_lease(Table *t, uint32_t ref) noexcept nogil:
    cdef Lease *l = lease_at(&t.arena, ref)
    cdef uint64_t size = text_bytes_of(l)
    cdef uint32_t metadata
    if l.metadata_size:
        memcpy(&metadata, lease_text(l) + l.name_size + l.node_size, sizeof(metadata))
        give_block(&t.arena, metadata, l.metadata_size)
    give_block(&t.arena, ref, lease_bytes(l.name_size, l.node_size, l.metadata_size))
    t.lease_count -= 1
    t.text_bytes -= size


cdef inline void take_out(Table *t, uint32_t *link) noexcept nogil:
    """Take the lease that a link of its name's chain leads to out of everything but the index of names."""
    cdef uint32_t ref = link[0]
    cdef Lease *l = lease_at(&t.arena, ref)
    detach(t, l)
    link[0] = l.sibling
    free_lease(t, ref)


cdef inline void remove_lease(Table *t, Slot *slot, uint32_t ref) noexcept nogil:
    """Take a lease out of everything. ``slot`` is its name's and is empty afterwards if it was the last occupant."""
    cdef uint32_t *link = &slot.ref
    while link[0] != ref:
        link = &lease_at(&t.arena, link[0]).sibling
    take_out(t, link)
    if slot.ref == 0:
        index_erase(&t.names, slot)


cdef inline void tell_end(Table *t, const Lease *l) noexcept nogil:
    """Say that a lease is over, or the occupancy of a dead one."""
    emit(t, EVENT_VACATED if l.flags & FLAG_DEAD else EVENT_EXPIRED, l, 0)


cdef inline void expire(Table *t, uint32_t ref) noexcept nogil:
    """Remove a lease that is over, or a dead one whose occupancy is, and say so. Cost: linear in the occupants before it."""
    cdef Lease *l = lease_at(&t.arena, ref)
    cdef Text name = name_of(l)
    hash_name(t, &name)
    tell_end(t, l)
    remove_lease(t, find_name(t, &name), ref)


cdef inline void free_session(Table *t, uint32_t ref) noexcept nogil:
    give_block(&t.arena, ref, session_bytes(session_at(&t.arena, ref).node_size))
    t.session_records -= 1


cdef bint tighten_session_ends(Table *t, int64_t until) noexcept nogil:
    """Whether a session is over at ``until``; then the one that ended first stands exactly at the top of its heap."""
    cdef Entry top
    cdef Session *s
    while t.session_ends.size:
        top = entry_at(&t.session_ends, 0)[0]
        if top.key > until:
            return False
        s = session_at(&t.arena, top.ref ^ SESSION_BIT)
        if s.deadline == top.key:
            return True
        raise_top(&t.session_ends, &t.arena, s.deadline, top.order)
    return False


cdef void end_sessions(Table *t, int64_t until) noexcept nogil:
    """Forget every session that is over at ``until``. Leases that hang on one keep it as a record until they are swept."""
    cdef uint32_t ref
    cdef uint64_t id
    cdef Session *s
    while tighten_session_ends(t, until):
        ref = entry_at(&t.session_ends, 0).ref ^ SESSION_BIT
        s = session_at(&t.arena, ref)
        id = s.id
        heap_remove(&t.session_ends, &t.arena, 0)
        index_erase(&t.sessions, index_find(&t.sessions, hash_session(t, id), &t.arena, is_session, &id))
        t.session_count -= 1
        if s.first:
            s.order = lease_at(&t.arena, s.first).token
            heap_push(&t.deadlines, &t.arena, s.deadline, s.order, ref | SESSION_BIT)
        else:
            free_session(t, ref)


cdef uint32_t first_of_ended(Table *t, uint32_t ref) noexcept nogil:
    """The lease that ends next of those on the ended session at the top of the heap; 0: the top has changed, look again."""
    cdef Session *s = session_at(&t.arena, ref)
    cdef uint32_t first = s.first
    cdef Lease *l
    if first == 0:
        heap_remove(&t.deadlines, &t.arena, 0)
        free_session(t, ref)
        return 0
    l = lease_at(&t.arena, first)
    if l.deadline > s.deadline:
        detach(t, l)
        stand_free(t, first)
        return 0
    if s.order != l.token:
        s.order = l.token
        raise_top(&t.deadlines, &t.arena, s.deadline, s.order)
        return 0
    return first


cdef uint32_t next_to_end(Table *t, int64_t until) noexcept nogil:
    """Of the leases that end at or before ``until`` and hang on no live session, the first by (end, token); 0: there is none."""
    cdef Entry top
    cdef Lease *l
    cdef uint32_t ref
    while t.deadlines.size:
        top = entry_at(&t.deadlines, 0)[0]
        if top.key > until:
            return 0
        if top.ref & SESSION_BIT:
            ref = first_of_ended(t, top.ref ^ SESSION_BIT)
            if ref:
                return ref
            continue
        l = lease_at(&t.arena, top.ref)
        if l.deadline == top.key:
            return top.ref
        raise_top(&t.deadlines, &t.arena, l.deadline, top.order)
    return 0


cdef void sweep(Table *t) noexcept nogil:
    """Expire what is over, in order of (end, token), up to the cap (I7)."""
    cdef uint32_t left_over = t.sweep_max
    cdef uint32_t ref
    end_sessions(t, t.time_ms)
    while left_over:
        ref = next_to_end(t, t.time_ms)
        if ref == 0:
            return
        expire(t, ref)
        left_over -= 1


cdef inline bint reserve_places(Table *t, uint32_t more) noexcept nogil:
    """Whether each lease and session, and ``more`` of them, has a place in the heap of deadlines, so that moving there cannot fail."""
    return heap_reserve(&t.deadlines, t.lease_count + t.session_records + more)
