# Everything that is not a grant: extend, release, abandon, revoke, sessions, and what keeps the raft group. Included by _table.pyx.

from libc.string cimport memcmp, memcpy
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef Slot *find_holder(const Table *t, const Request *r, uint32_t *holder) noexcept nogil:
    """The occupant that has the request's id and token, dead ones too (I4). Sets ``holder`` (0: there is none), returns its name's slot."""
    cdef Slot *slot = find_name(t, &r.name)
    cdef uint32_t ref = slot.ref if slot != NULL else 0
    cdef const Lease *l
    holder[0] = 0
    while ref:
        l = lease_at(&t.arena, ref)
        if l.token == r.token and memcmp(l.id, r.id.at, ID_BYTES) == 0 and ends_at(t, l) > t.time_ms:
            holder[0] = ref
            break
        ref = l.sibling
    return slot


cdef void extend_or_check(Table *t, const Request *r) noexcept nogil:
    cdef uint32_t ref
    cdef Lease *l
    cdef int64_t deadline
    find_holder(t, r, &ref)
    if ref == 0 or lease_at(&t.arena, ref).flags & FLAG_DEAD:
        answer(t, NOT_HELD)
        return
    l = lease_at(&t.arena, ref)
    if l.flags & FLAG_REVOKED:
        answer_number(t, REVOKED, <uint64_t>(ends_at(t, l) - t.time_ms))
        return
    if r.operation == EXTEND:
        deadline = t.time_ms + <int64_t>r.lease_ms
        if deadline > l.deadline:
            l.deadline = deadline
            emit(t, EVENT_EXTENDED, l, 0)
        note_lease_time(t, r.lease_ms)
    answer_number(t, OK, <uint64_t>(ends_at(t, l) - t.time_ms))


cdef void release(Table *t, const Request *r) noexcept nogil:
    cdef uint32_t ref
    cdef Slot *slot = find_holder(t, r, &ref)
    cdef Lease *l
    cdef int64_t occupied_until
    if ref == 0:
        answer(t, NOT_HELD)
        return
    answer(t, OK)
    l = lease_at(&t.arena, ref)
    if l.flags & FLAG_DEAD:
        return
    emit(t, EVENT_RELEASED, l, <int>r.outcome)
    if t.roster_count:
        count_outcome(t, l, &r.name, r.outcome)
    occupied_until = l.granted + l.min_ms
    if r.outcome == OUTCOME_NEVER_STARTED or l.flags & FLAG_REVOKED or occupied_until <= t.time_ms:
        remove_lease(t, slot, ref)
        return
    # Its end comes nearer, so its old place in the heap is no lower bound any more.
    detach(t, l)
    l.flags |= FLAG_DEAD
    l.deadline = occupied_until
    stand_free(t, ref)


cdef void abandon(Table *t, const Request *r) noexcept nogil:
    cdef Slot *slot = find_name(t, &r.name)
    cdef Standing standing
    look(t, slot.ref if slot != NULL else 0, r.id.at, MAX_LEADERS_MAX, t.time_ms, &standing)
    if standing.mine:
        emit(t, EVENT_ABANDONED, lease_at(&t.arena, standing.mine), 0)
        remove_lease(t, slot, standing.mine)
    answer(t, OK)


cdef void mark_revoked(Table *t, uint32_t ref) noexcept nogil:
    """From now on it ends when it would have ended now, whatever its session does."""
    cdef Lease *l = lease_at(&t.arena, ref)
    l.flags |= FLAG_REVOKED
    if l.session:
        session_at(&t.arena, l.session).revoked += 1
        l.deadline = ends_at(t, l)
        detach(t, l)
        stand_free(t, ref)
    emit(t, EVENT_REVOKED, l, 0)


cdef void free_by_force(Table *t, const Text *name, uint32_t ref) noexcept nogil:
    """Its holder may not have been told, and goes on by its session: the session's count tells it."""
    cdef const Lease *l = lease_at(&t.arena, ref)
    if l.session:
        session_at(&t.arena, l.session).revoked += 1
    emit(t, EVENT_FREED, l, 0)
    remove_lease(t, find_name(t, name), ref)


cdef void revoke(Table *t, const Request *r) noexcept nogil:
    cdef Slot *slot = find_name(t, &r.name)
    cdef uint32_t ref = slot.ref if slot != NULL else 0
    cdef uint32_t following
    cdef uint64_t count = 0
    cdef const Lease *l
    while ref:
        l = lease_at(&t.arena, ref)
        following = l.sibling
        if (r.every_slot or l.slot == r.slot) and ends_at(t, l) > t.time_ms:
            if r.force:
                free_by_force(t, &r.name, ref)
                count += 1
            elif l.flags == 0:
                mark_revoked(t, ref)
                count += 1
        ref = following
    answer_number(t, OK, count)


cdef void session_renew(Table *t, const Request *r) noexcept nogil:
    cdef uint32_t ref = find_session(t, r.session)
    cdef Session *s
    if ref == 0:
        answer(t, SESSION_ENDED)
        return
    s = session_at(&t.arena, ref)
    renew(t, s)
    answer_numbers(t, OK, <uint64_t>(s.deadline - t.time_ms), s.revoked)


cdef uint32_t add_session(Table *t, uint64_t id, int64_t deadline, uint64_t lease_ms, const Text *node_id) noexcept nogil:
    """A new live session; 0: out of memory, nothing changed."""
    cdef uint32_t ref
    cdef Session *s
    if not index_reserve(&t.sessions) or not reserve_places(t, 1) or not heap_reserve(&t.session_ends, t.session_ends.size + 1):
        return 0
    ref = take_block(&t.arena, session_bytes(node_id.size))
    if ref == 0:
        return 0
    s = session_at(&t.arena, ref)
    s.id = id
    s.deadline = deadline
    s.order = 0
    s.revoked = 0
    s.lease_ms = <uint32_t>lease_ms
    s.first = 0
    s.last = 0
    s.node_size = <uint8_t>node_id.size
    copy_short(session_text(s), node_id.at, node_id.size)
    index_put(&t.sessions, hash_session(t, id), ref)
    heap_push(&t.session_ends, &t.arena, deadline, id, ref | SESSION_BIT)
    t.session_count += 1
    t.session_records += 1
    return ref


cdef void session_open(Table *t, const Request *r) noexcept nogil:
    if t.session_count >= t.sessions_max:
        answer_number(t, LIMIT, LIMIT_SESSIONS)
        return
    if t.next_token > TOKEN_MAX:
        answer_number(t, LIMIT, LIMIT_TOKENS)
        return
    if add_session(t, t.next_token, t.time_ms + <int64_t>r.lease_ms, r.lease_ms, &r.node_id) == 0:
        t.no_memory = True
        return
    note_lease_time(t, r.lease_ms)
    answer_numbers(t, OK, t.next_token, r.lease_ms)
    t.next_token += 1


cdef void init_cluster(Table *t, const Request *r) noexcept nogil:
    cdef uint64_t floor = (r.wall_ms // 1000) << TOKENS_PER_SECOND_BITS
    if not t.formed:
        t.formed = True
        memcpy(t.cluster_id, r.id.at, ID_BYTES)
        if floor > t.next_token:
            t.next_token = floor
        if floor > t.next_event:
            t.next_event = floor
        wait_again(t)
    answer_cluster(t)


cdef void raise_level(Table *t, const Request *r) noexcept nogil:
    if r.level > t.level:
        t.level = <uint8_t>r.level
    answer_number(t, OK, t.level)


cdef inline void operate(Table *t, const Request *r) noexcept nogil:
    """Answer one readable operation of an accepted batch."""
    cdef int bad = bad_argument(r)
    cdef int operation = r.operation
    if bad:
        answer_number(t, INVALID, bad)
    elif operation == ACQUIRE or operation == ELECT:
        acquire(t, r)
    elif operation == EXTEND or operation == CHECK:
        extend_or_check(t, r)
    elif operation == SESSION_RENEW:
        session_renew(t, r)
    elif operation == RELEASE:
        release(t, r)
    elif operation == ABANDON:
        abandon(t, r)
    elif operation == ACQUIRE_ALL:
        acquire_all(t, r)
    elif operation == SESSION_OPEN:
        session_open(t, r)
    elif operation == REVOKE:
        revoke(t, r)
    elif operation == INIT:
        init_cluster(t, r)
    elif operation == RAISE_LEVEL:
        raise_level(t, r)
    elif operation == RESTORE:
        end_for_restore(t, r)
    elif operation == RECORD_PUT:
        record_put(t, r)
    elif operation == RECORD_DELETE:
        record_delete(t, r)
    elif operation == CANDIDATE_REGISTER:
        candidate_register(t, r)
    elif operation == CANDIDATE_REFRESH:
        candidate_refresh(t, r)
    elif operation == CANDIDATE_UNREGISTER:
        candidate_unregister(t, r)
    elif operation == TICK:
        answer(t, OK)
    else:  # EPOCH: an epoch entry stands alone in its batch.
        answer_number(t, INVALID, 0)
