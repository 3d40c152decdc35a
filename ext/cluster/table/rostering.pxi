# Rosters in snapshots and for readers. Included by _table.pyx.
#
# In a snapshot: [[name, revision, last_token, open_since or nil,
#                  [[node_id, number, deadline, registered, last_start or nil, last_completion or nil, successes, failures, info], …] by number],
#                 …] by revision.

from libc.stdlib cimport malloc
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    ROSTER_ELEMENTS = 5
    CANDIDATE_ELEMENTS = 9
    ROSTER_BYTES_MAX = 1 + 2 + 3 * 9 + 5           # besides the name
    CANDIDATE_BYTES_MAX = 1 + 2 + 7 * 9 + 3        # besides node id and info


cdef Numbered *rosters_by_revision(const Table *t, size_t *size) noexcept nogil:
    """All rosters; adds to ``size`` the most that they and their candidates can need."""
    cdef Numbered *all = <Numbered *>malloc((<size_t>t.roster_count + 1) * sizeof(Numbered))
    cdef size_t count = 0
    cdef size_t i
    cdef uint32_t ref
    if all == NULL:
        return NULL
    for i in range(index_slots(&t.rosters)):
        ref = index_slot(&t.rosters, i).ref
        if ref:
            all[count].number = roster_at(&t.arena, ref).revision
            all[count].ref = ref
            count += 1
    size[0] += count * ROSTER_BYTES_MAX + <size_t>t.candidate_count * CANDIDATE_BYTES_MAX + t.candidate_bytes
    return sort_by_number(all, count)


cdef inline void put_moment(Buffer *b, int64_t at) noexcept nogil:
    """A time, or nil."""
    if at == NEVER:
        put_byte(b, 0xc0)
    else:
        put_uint(b, <uint64_t>at)


cdef void write_candidate(const Table *t, Buffer *b, const Candidate *c) noexcept nogil:
    cdef Text node = candidate_node(c)
    cdef Text info = candidate_info(&t.arena, c)
    put_list(b, CANDIDATE_ELEMENTS)
    put_text(b, node.at, node.size)
    put_uint(b, c.number)
    put_uint(b, <uint64_t>c.deadline)
    put_uint(b, <uint64_t>c.registered)
    put_moment(b, c.last_start)
    put_moment(b, c.last_completion)
    put_uint(b, c.successes)
    put_uint(b, c.failures)
    put_text(b, info.at, info.size)


cdef void write_roster(const Table *t, Buffer *b, uint32_t ref) noexcept nogil:
    cdef const Roster *s = roster_at(&t.arena, ref)
    cdef Text name = roster_name(s)
    put_list(b, ROSTER_ELEMENTS)
    put_text(b, name.at, name.size)
    put_uint(b, s.revision)
    put_uint(b, s.last_token)
    put_moment(b, s.open_since)
    put_list(b, s.count)
    ref = s.first
    while ref:
        write_candidate(t, b, candidate_at(&t.arena, ref))
        ref = candidate_at(&t.arena, ref).next


cdef bint read_moment(Cursor *c, int64_t *at, int64_t earliest, int64_t latest) noexcept nogil:
    """A time within limits, or nil."""
    cdef uint64_t value
    if read_nil(c):
        at[0] = NEVER
        return True
    if not read_uint(c, &value) or value < <uint64_t>earliest or value > <uint64_t>latest:
        return False
    at[0] = <int64_t>value
    return True


cdef bint load_candidate(Loading *g, uint32_t roster, uint64_t *last) noexcept nogil:
    """``last``: the number of the one before it."""
    cdef Table *t = g.table
    cdef Cursor *c = &g.cursor
    cdef Candidate read
    cdef Candidate *found
    cdef Text node_id
    cdef Text info
    cdef uint64_t deadline
    cdef uint64_t registered
    cdef uint32_t elements
    cdef uint32_t ref
    if not (read_list(c, &elements) and elements == CANDIDATE_ELEMENTS and read_text(c, &node_id) and read_uint(c, &read.number)):
        return False
    if not (read_limited(c, &deadline, <uint64_t>t.time_ms + LEASE_MAX_MS) and read_limited(c, &registered, <uint64_t>t.time_ms)):
        return False
    read.registered = <int64_t>registered
    if not read_moment(c, &read.last_start, read.registered, t.time_ms):
        return False
    if not read_moment(c, &read.last_completion, read.registered, t.time_ms):
        return False
    if not (read_limited(c, &read.successes, TOKEN_MAX) and read_limited(c, &read.failures, TOKEN_MAX) and read_text(c, &info)):
        return False
    if read.number <= last[0] or read.number > roster_at(&t.arena, roster).revision or deadline < registered + LEASE_MIN_MS:
        return False
    if node_id.size < 1 or node_id.size > NODE_ID_MAX_BYTES or info.size > CANDIDATE_INFO_MAX_BYTES:
        return False
    if stands(t, roster_at(&t.arena, roster), &node_id):
        return False
    ref = add_candidate(t, roster, &node_id, &info, <int64_t>deadline)
    if ref == 0:
        g.no_memory = True
        return False
    found = candidate_at(&t.arena, ref)
    found.number = last[0] = read.number
    found.registered = read.registered
    found.last_start = read.last_start
    found.last_completion = read.last_completion
    found.successes = read.successes
    found.failures = read.failures
    return True


cdef bint stands(const Table *t, const Roster *s, const Text *node_id) noexcept nogil:
    """Whether a node id is on the roster, living or not."""
    cdef uint32_t ref = s.first
    cdef Text node
    while ref:
        node = candidate_node(candidate_at(&t.arena, ref))
        if same_text(&node, node_id):
            return True
        ref = candidate_at(&t.arena, ref).next
    return False


cdef bint load_roster(Loading *g) noexcept nogil:
    cdef Table *t = g.table
    cdef Cursor *c = &g.cursor
    cdef uint32_t elements
    cdef uint32_t count
    cdef uint32_t roster
    cdef uint32_t i
    cdef Text name
    cdef uint64_t revision
    cdef uint64_t last_token
    cdef uint64_t last = 0
    cdef int64_t open_since
    if not (read_list(c, &elements) and elements == ROSTER_ELEMENTS and read_text(c, &name) and is_name(&name)):
        return False
    if not (read_uint(c, &revision) and read_limited(c, &last_token, revision) and read_moment(c, &open_since, 0, t.time_ms)):
        return False
    if revision <= g.last_version or revision >= t.next_token:
        return False
    if not read_list(c, &count) or count < 1 or count > CANDIDATES_PER_NAME_MAX:
        return False
    hash_name(t, &name)
    if find_roster(t, &name) != NULL:
        return False
    roster = add_roster(t, &name)
    if roster == 0:
        g.no_memory = True
        return False
    roster_at(&t.arena, roster).revision = g.last_version = revision
    roster_at(&t.arena, roster).last_token = last_token
    roster_at(&t.arena, roster).open_since = open_since
    for i in range(count):
        if not load_candidate(g, roster, &last):
            return False
    return True


cdef bint load_rosters(Loading *g) noexcept nogil:
    cdef Table *t = g.table
    cdef uint32_t count
    cdef uint32_t i
    if not read_list(&g.cursor, &count) or count > t.candidates_max:
        return False
    g.last_version = 0
    for i in range(count):
        if not load_roster(g):
            return False
    return t.candidate_count <= t.candidates_max and t.candidate_bytes <= t.candidates_bytes_max


cdef tuple roster_of(const Table *t, const Text *name, int64_t now):
    """``(revision, last_token, [(node_id, info, registered, last_start, last_completion, successes, failures), …])`` at ``now``."""
    cdef Slot *slot = find_roster(t, name)
    cdef const Roster *s
    cdef const Candidate *c
    cdef uint32_t ref
    cdef Text node
    cdef Text info
    cdef list found = []
    if slot == NULL or count_candidates(t, roster_at(&t.arena, slot.ref), now) == 0:
        return 0, 0, found
    s = roster_at(&t.arena, slot.ref)
    ref = s.first
    while ref:
        c = candidate_at(&t.arena, ref)
        if c.deadline > now:
            node = candidate_node(c)
            info = candidate_info(&t.arena, c)
            found.append((
                bytes_of(&node), bytes_of(&info), c.registered, None if c.last_start == NEVER else c.last_start,
                None if c.last_completion == NEVER else c.last_completion, c.successes, c.failures,
            ))
        ref = c.next
    return s.revision, s.last_token, found
