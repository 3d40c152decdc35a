# ACQUIRE, ACQUIRE_ALL and ELECT: who may have what, and the grant. Included by _table.pyx.

from libc.string cimport memcmp, memcpy
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef struct Standing:
    # How things stand with one name at one time, for one acquisition.
    uint32_t mine        # its lease, while that lives
    uint32_t occupants
    uint32_t leftovers   # who is over and was not swept yet
    uint64_t places      # the smallest max_leaders among the occupants and the caller
    uint32_t leaver      # the occupant that leaves first, of equals the one with the smaller slot
    int64_t leaves_at


cdef void look(const Table *t, uint32_t first, const uint8_t *id, uint64_t max_leaders, int64_t now, Standing *s) noexcept nogil:
    """Survey the chain of occupants that begins with ``first`` (0: there is none). What is over at ``now`` is not there."""
    cdef uint32_t ref = first
    cdef const Lease *l
    cdef int64_t end
    s.mine = 0
    s.occupants = 0
    s.leftovers = 0
    s.places = max_leaders
    s.leaver = 0
    s.leaves_at = INT64_MAX
    while ref:
        l = lease_at(&t.arena, ref)
        end = ends_at(t, l)
        if end > now:
            s.occupants += 1
            if l.max_leaders < s.places:
                s.places = l.max_leaders
            if end < s.leaves_at:
                s.leaves_at = end
                s.leaver = ref
            if id != NULL and not l.flags & FLAG_DEAD and memcmp(l.id, id, ID_BYTES) == 0:
                s.mine = ref
        else:
            s.leftovers += 1
        ref = l.sibling


cdef inline void look_at_name(const Table *t, const Text *name, const Request *r, Standing *s) noexcept nogil:
    cdef Slot *slot = find_name(t, name)
    look(t, slot.ref if slot != NULL else 0, r.id.at, r.max_leaders, t.time_ms, s)


cdef void expire_leftovers(Table *t, const Text *name) noexcept nogil:
    """Expire what is over of this name, by slot, so that each expiry is reported before the grant that follows it (I7).

    Cost: one walk along its occupants, however many of them are over.
    """
    cdef Slot *slot = find_name(t, name)
    cdef uint32_t *link
    cdef Lease *l
    if slot == NULL:
        return
    link = &slot.ref
    while link[0]:
        l = lease_at(&t.arena, link[0])
        if ends_at(t, l) <= t.time_ms:
            tell_end(t, l)
            take_out(t, link)
        else:
            link = &l.sibling
    if slot.ref == 0:
        index_erase(&t.names, slot)


cdef int lacks_room(Table *t, uint32_t more, uint64_t text_bytes) noexcept nogil:
    """Make room for ``more`` leases. What is over but unswept must not count, so the next to end go now. 0, or the limit reached."""
    cdef uint32_t ref
    if TOKEN_MAX - t.next_token + 1 < more:
        return LIMIT_TOKENS
    while t.lease_count + more > t.leases_max or t.text_bytes + text_bytes > t.text_max:
        ref = next_to_end(t, t.time_ms)
        if ref == 0:
            return LIMIT_LEASES if t.lease_count + more > t.leases_max else LIMIT_TEXT
        expire(t, ref)
    return 0


cdef uint32_t new_lease(Table *t, const Request *r, const Text *name) noexcept nogil:
    """A record with everything that the request says, and places reserved wherever it will stand; 0: out of memory, nothing changed."""
    cdef uint32_t metadata = 0
    cdef uint32_t ref
    cdef Lease *l
    if not index_reserve(&t.names) or not reserve_places(t, 1):
        return 0
    if r.metadata.size:
        metadata = take_block(&t.arena, r.metadata.size)
        if metadata == 0:
            return 0
        memcpy(block(&t.arena, metadata), r.metadata.at, r.metadata.size)
    ref = take_block(&t.arena, lease_bytes(name.size, r.node_id.size, r.metadata.size))
    if ref == 0:
        if metadata:
            give_block(&t.arena, metadata, r.metadata.size)
        return 0
    l = lease_at(&t.arena, ref)
    memcpy(l.id, r.id.at, ID_BYTES)
    l.lease_ms = <uint32_t>r.lease_ms
    l.min_ms = <uint32_t>r.min_ms
    l.max_leaders = <uint16_t>r.max_leaders
    l.metadata_size = <uint16_t>r.metadata.size
    l.name_size = <uint8_t>name.size
    l.node_size = <uint8_t>r.node_id.size
    copy_short(lease_text(l), name.at, name.size)
    copy_short(lease_text(l) + name.size, r.node_id.at, r.node_id.size)
    if metadata:
        memcpy(lease_text(l) + name.size + r.node_id.size, &metadata, sizeof(metadata))
    return ref


cdef void take_slot(Table *t, uint32_t ref, const Text *name) noexcept nogil:
    """Give a new lease the lowest free slot and its place in the chain of occupants, which is in slot order."""
    cdef Lease *l = lease_at(&t.arena, ref)
    cdef Slot *head = find_name(t, name)
    cdef uint32_t *link
    l.slot = 0
    l.sibling = 0
    if head == NULL:
        index_put(&t.names, name.hash, ref)
        return
    link = &head.ref
    while link[0] and lease_at(&t.arena, link[0]).slot == l.slot:
        link = &lease_at(&t.arena, link[0]).sibling
        l.slot += 1
    l.sibling = link[0]
    link[0] = ref


cdef inline void note_lease_time(Table *t, uint64_t lease_ms) noexcept nogil:
    if lease_ms > t.longest_ms:
        t.longest_ms = <uint32_t>lease_ms


cdef uint32_t grant(Table *t, const Request *r, const Text *name, uint32_t session) noexcept nogil:
    """Grant a name that has a free slot (I1), with the next token (I2). 0: out of memory, nothing changed."""
    cdef uint32_t ref = new_lease(t, r, name)
    cdef Lease *l
    if ref == 0:
        return 0
    l = lease_at(&t.arena, ref)
    l.token = t.next_token
    l.granted = t.time_ms
    l.deadline = t.time_ms + <int64_t>r.lease_ms
    l.session = 0
    l.flags = 0
    t.next_token += 1
    t.lease_count += 1
    t.text_bytes += text_bytes_of(l)
    take_slot(t, ref, name)
    if session:
        hang(t, ref, session)
    else:
        stand_free(t, ref)
    note_lease_time(t, r.lease_ms)
    emit(t, EVENT_GRANTED, l, 0)
    if t.roster_count:
        note_start(t, l, name)
    return ref


cdef inline void renew(Table *t, Session *s) noexcept nogil:
    """Cost: constant, whatever hangs on the session."""
    cdef int64_t deadline = t.time_ms + s.lease_ms
    if deadline > s.deadline:
        s.deadline = deadline


cdef bint may_be_granted_now(Table *t, const Request *r, uint32_t *session) noexcept nogil:
    """Whether the caller's session lives and grants are made at all; if not, says so. Sets ``session`` (0: none was asked for)."""
    session[0] = 0
    if r.session:
        session[0] = find_session(t, r.session)
        if session[0] == 0:
            answer(t, SESSION_ENDED)
            return False
    if t.time_ms < t.grants_from:
        answer_number(t, NOT_YET, <uint64_t>(t.grants_from - t.time_ms))
        return False
    return True


cdef void acquire(Table *t, const Request *r) noexcept nogil:
    cdef Standing standing
    cdef uint32_t session
    cdef uint32_t ref
    cdef int limit
    look_at_name(t, &r.name, r, &standing)
    if standing.mine:
        answer_grant(t, lease_at(&t.arena, standing.mine))  # I5
        return
    if not may_be_granted_now(t, r, &session):
        return
    if standing.occupants >= standing.places:
        answer_held(t, standing.leaver, standing.leaves_at, -1)
        return
    if r.operation == ELECT and not may_claim(t, r):
        return
    if standing.leftovers:
        expire_leftovers(t, &r.name)
    limit = lacks_room(t, 1, <uint64_t>r.name.size + r.node_id.size + r.metadata.size)
    if limit:
        answer_number(t, LIMIT, limit)
        return
    ref = grant(t, r, &r.name, session)
    if ref == 0:
        t.no_memory = True
        return
    if session:
        renew(t, session_at(&t.arena, session))
    answer_grant(t, lease_at(&t.arena, ref))


cdef bint obtain_missing(Table *t, const Request *r, uint32_t *refs, uint32_t missing, uint32_t session) noexcept nogil:
    """Grant the names whose ``refs`` are 0, all of which have a free slot. False: refused or out of memory, and said."""
    cdef uint64_t text_bytes = missing * (<uint64_t>r.node_id.size + r.metadata.size)
    cdef uint32_t i
    cdef int limit
    for i in range(r.name_count):
        if refs[i] == 0:
            expire_leftovers(t, &r.names[i])
            text_bytes += r.names[i].size
    limit = lacks_room(t, missing, text_bytes)
    if limit:
        answer_number(t, LIMIT, limit)
        return False
    for i in range(r.name_count):
        if refs[i] == 0:
            refs[i] = grant(t, r, &r.names[i], session)
            if refs[i] == 0:
                t.no_memory = True
                return False
    if session:
        renew(t, session_at(&t.arena, session))
    return True


cdef void acquire_all(Table *t, const Request *r) noexcept nogil:
    cdef Standing standings[ACQUIRE_ALL_MAX_NAMES]
    cdef uint32_t refs[ACQUIRE_ALL_MAX_NAMES]
    cdef uint32_t missing = 0
    cdef uint32_t session
    cdef uint32_t i
    for i in range(r.name_count):
        look_at_name(t, &r.names[i], r, &standings[i])
        refs[i] = standings[i].mine
        if refs[i] == 0:
            missing += 1
    if missing:
        if not may_be_granted_now(t, r, &session):
            return
        for i in range(r.name_count):
            if refs[i] == 0 and standings[i].occupants >= standings[i].places:
                answer_held(t, standings[i].leaver, standings[i].leaves_at, i)
                return
        if not obtain_missing(t, r, refs, missing, session):
            return
    answer_grants(t, refs, r.name_count)
