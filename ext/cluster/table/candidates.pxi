# CANDIDATE_REGISTER, CANDIDATE_REFRESH, CANDIDATE_UNREGISTER, who may claim a name, and what is counted. Included by _table.pyx.
#
# Who is to win, a strategy decides outside, from a view of the roster. What is decided here is whether that view is still the truth,
# and whether it is the claimant's turn, in the same step that grants the lease: so two views never make two holders, and a winner
# that does not claim delays the next in line by a known time and no more.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef int lacks_candidate_room(Table *t, const Roster *s, uint32_t more, uint64_t bytes, uint64_t freed) noexcept nogil:
    """0, or the limit that so many more candidates on this roster (NULL: a new one) would pass. Who has run out does not count."""
    if t.next_token > TOKEN_MAX:
        return LIMIT_TOKENS
    if s != NULL and s.count + more > CANDIDATES_PER_NAME_MAX:
        return LIMIT_CANDIDATES_PER_NAME
    if t.candidate_count + more > t.candidates_max or t.candidate_bytes + bytes - freed > t.candidates_bytes_max:
        prune_all(t)
    if t.candidate_count + more > t.candidates_max:
        return LIMIT_CANDIDATES
    return LIMIT_CANDIDATE_BYTES if t.candidate_bytes + bytes - freed > t.candidates_bytes_max else 0


cdef inline void prolong_candidate(Table *t, Candidate *c, uint64_t ttl_ms) noexcept nogil:
    cdef int64_t deadline = t.time_ms + <int64_t>ttl_ms
    if deadline > c.deadline:
        c.deadline = deadline


cdef void register_anew(Table *t, const Request *r, const Text *name, uint32_t roster) noexcept nogil:
    """A node id that does not stand yet. ``roster`` 0: nobody does."""
    cdef uint64_t bytes = <uint64_t>r.node_id.size + r.value.size + (0 if roster else name.size)
    cdef int limit = lacks_candidate_room(t, roster_at(&t.arena, roster) if roster else NULL, 1, bytes, 0)
    cdef uint32_t ref
    if limit:
        answer_number(t, LIMIT, limit)
        return
    if roster == 0:
        roster = add_roster(t, name)
    ref = add_candidate(t, roster, &r.node_id, &r.value, t.time_ms + <int64_t>r.lease_ms) if roster else 0
    if ref == 0:
        t.no_memory = True
        return
    candidate_at(&t.arena, ref).number = take_number(t)
    roster_at(&t.arena, roster).revision = candidate_at(&t.arena, ref).number
    answer_number(t, OK, roster_at(&t.arena, roster).revision)


cdef void candidate_register(Table *t, const Request *r) noexcept nogil:
    cdef Text name = r.name
    cdef Slot *slot
    cdef uint32_t roster = 0
    cdef uint32_t ref = 0
    cdef Candidate *c
    cdef Text info
    cdef int limit
    hash_name(t, &name)
    slot = find_roster(t, &name)
    if slot != NULL:
        roster = slot.ref
        if not prune(t, slot, 0):
            roster = 0
    if roster:
        ref = find_candidate(t, roster_at(&t.arena, roster), &r.node_id)
    if ref == 0:
        register_anew(t, r, &name, roster)
        return
    # It lives: what was counted, when it registered and its place among equals stay.
    c = candidate_at(&t.arena, ref)
    info = candidate_info(&t.arena, c)
    if not same_text(&info, &r.value):
        limit = lacks_candidate_room(t, roster_at(&t.arena, roster), 0, r.value.size, info.size)
        if limit:
            answer_number(t, LIMIT, limit)
            return
        if not set_info(t, c, &r.value):
            t.no_memory = True
            return
        roster_at(&t.arena, roster).revision = take_number(t)
    prolong_candidate(t, c, r.lease_ms)
    answer_number(t, OK, roster_at(&t.arena, roster).revision)


cdef void candidate_refresh(Table *t, const Request *r) noexcept nogil:
    cdef Text name = r.name
    cdef Slot *slot
    cdef uint32_t ref = 0
    hash_name(t, &name)
    slot = find_roster(t, &name)
    if slot != NULL:
        ref = find_candidate(t, roster_at(&t.arena, slot.ref), &r.node_id)
    if ref == 0:
        answer(t, NOT_HELD)
        return
    prolong_candidate(t, candidate_at(&t.arena, ref), r.lease_ms)
    answer_number(t, OK, roster_at(&t.arena, slot.ref).revision)


cdef void candidate_unregister(Table *t, const Request *r) noexcept nogil:
    cdef Text name = r.name
    cdef Slot *slot
    cdef uint32_t roster
    cdef uint32_t ref
    answer(t, OK)
    hash_name(t, &name)
    slot = find_roster(t, &name)
    if slot == NULL:
        return
    roster = slot.ref
    ref = find_candidate(t, roster_at(&t.arena, roster), &r.node_id)
    if ref and prune(t, slot, ref) and t.next_token <= TOKEN_MAX:
        roster_at(&t.arena, roster).revision = take_number(t)


cdef bint may_claim(Table *t, const Request *r) noexcept nogil:
    """Whether a name that is free is the claimant's by its view; if not, says so. The first claim of all opens the election."""
    cdef Slot *slot = find_roster(t, &r.name)
    cdef Roster *s
    cdef int64_t turn
    if slot == NULL or find_candidate(t, roster_at(&t.arena, slot.ref), &r.node_id) == 0:
        answer(t, NOT_HELD)
        return False
    s = roster_at(&t.arena, slot.ref)
    if s.open_since == NEVER:
        s.open_since = t.time_ms
    if r.version != s.revision or r.count != count_candidates(t, s, t.time_ms):
        answer_number(t, VERSION_DIFFERS, s.revision)
        return False
    turn = s.open_since + <int64_t>(r.place * r.claim_ms)
    if turn > t.time_ms:
        answer_number(t, NOT_YOUR_TURN, <uint64_t>(turn - t.time_ms))
        return False
    return True


cdef void note_start(Table *t, const Lease *l, const Text *name) noexcept nogil:
    """A name was granted: its election is over, and its candidate of this node id, if there is one, has begun."""
    cdef Slot *slot = find_roster(t, name)
    cdef Roster *s
    cdef Text node = node_of(l)
    cdef uint32_t ref
    if slot == NULL:
        return
    s = roster_at(&t.arena, slot.ref)
    s.revision = s.last_token = l.token
    s.open_since = NEVER
    ref = find_candidate(t, s, &node)
    if ref:
        candidate_at(&t.arena, ref).last_start = t.time_ms


cdef void count_outcome(Table *t, const Lease *l, const Text *name, uint64_t outcome) noexcept nogil:
    """A lease is released, for the first time: so it is counted once. One from before its candidate registered counts for nobody."""
    cdef Slot *slot = find_roster(t, name)
    cdef Text node = node_of(l)
    cdef uint32_t ref
    cdef Candidate *c
    if slot == NULL or outcome == OUTCOME_NEVER_STARTED or t.next_token > TOKEN_MAX:
        return
    ref = find_candidate(t, roster_at(&t.arena, slot.ref), &node)
    if ref == 0 or candidate_at(&t.arena, ref).number > l.token:
        return
    c = candidate_at(&t.arena, ref)
    c.last_completion = t.time_ms
    if outcome == OUTCOME_COMPLETED:
        c.successes += 1
    elif outcome == OUTCOME_FAILED or outcome == OUTCOME_LOST:
        c.failures += 1
    roster_at(&t.arena, slot.ref).revision = take_number(t)
