# Candidates by name, as they lie in memory: rosters and the candidates on them. Included by _table.pyx.
#
# A roster has the candidates of one name, in the order in which they registered. A candidate whose deadline is at or before the table's
# time is not there, pruned or not; a roster without any is gone, and whoever registers next begins a new one. The revision is a number
# from the token counter, taken anew at every change but a refresh. Candidates that run out take none: at one revision the number of
# those that live can only fall, so revision and number together name one state of the roster.

from libc.string cimport memcmp, memcpy
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    NEVER = -1


cdef struct Candidate:
    uint64_t number          # of its registration, from the counter of tokens
    int64_t deadline
    int64_t registered       # when
    int64_t last_start       # when a lease of its was granted; or NEVER
    int64_t last_completion  # when one ended with its action; or NEVER
    uint64_t successes
    uint64_t failures
    uint32_t next            # the one that registered after it
    uint32_t info            # reference of the block with what it says of itself; 0: nothing
    uint16_t info_size
    uint8_t node_size
    uint8_t text[1]          # the node id


cdef struct Roster:
    uint64_t revision
    uint64_t last_token      # of the name's last grant; 0: none since the roster began
    int64_t open_since       # when the first of them claimed the name since it was granted last; or NEVER
    uint32_t first
    uint32_t count           # pruned or not
    uint8_t name_size
    uint8_t text[1]          # the name


cdef inline Candidate *candidate_at(const Arena *a, uint32_t ref) noexcept nogil:
    return <Candidate *>block(a, ref)


cdef inline Roster *roster_at(const Arena *a, uint32_t ref) noexcept nogil:
    return <Roster *>block(a, ref)


cdef inline size_t candidate_size(uint32_t node_size) noexcept nogil:
    cdef Candidate shape
    return <size_t>(<uint8_t *>shape.text - <uint8_t *>&shape) + node_size


cdef inline size_t roster_size(uint32_t name_size) noexcept nogil:
    cdef Roster shape
    return <size_t>(<uint8_t *>shape.text - <uint8_t *>&shape) + name_size


cdef inline Text candidate_node(const Candidate *c) noexcept nogil:
    cdef Text text
    text.at = <uint8_t *>c + (<uint8_t *>c.text - <uint8_t *>c)
    text.size = c.node_size
    return text


cdef inline Text candidate_info(const Arena *a, const Candidate *c) noexcept nogil:
    cdef Text text
    text.size = c.info_size
    text.at = <const uint8_t *>(block(a, c.info) if c.info else <void *>c)
    return text


cdef inline Text roster_name(const Roster *s) noexcept nogil:
    cdef Text text
    text.at = <uint8_t *>s + (<uint8_t *>s.text - <uint8_t *>s)
    text.size = s.name_size
    return text


cdef bint is_rostered(const Arena *a, uint32_t ref, const void *key) noexcept nogil:
    cdef Text name = roster_name(roster_at(a, ref))
    return same_text(&name, <const Text *>key)


cdef inline Slot *find_roster(const Table *t, const Text *name) noexcept nogil:
    """The slot of the roster of a name whose hash is set; NULL: there is none."""
    return index_find(&t.rosters, name.hash, &t.arena, is_rostered, name) if t.roster_count else NULL


cdef uint32_t find_candidate(const Table *t, const Roster *s, const Text *node_id) noexcept nogil:
    """The candidate of this node id that lives; 0: there is none."""
    cdef uint32_t ref = s.first
    cdef const Candidate *c
    cdef Text node
    while ref:
        c = candidate_at(&t.arena, ref)
        node = candidate_node(c)
        if c.deadline > t.time_ms and same_text(&node, node_id):
            return ref
        ref = c.next
    return 0


cdef uint32_t count_candidates(const Table *t, const Roster *s, int64_t now) noexcept nogil:
    """How many of them live at ``now``."""
    cdef uint32_t ref = s.first
    cdef uint32_t count = 0
    while ref:
        count += candidate_at(&t.arena, ref).deadline > now
        ref = candidate_at(&t.arena, ref).next
    return count


cdef inline uint64_t take_number(Table *t) noexcept nogil:
    t.next_token += 1
    return t.next_token - 1


cdef void free_candidate(Table *t, uint32_t ref) noexcept nogil:
    cdef Candidate *c = candidate_at(&t.arena, ref)
    t.candidate_count -= 1
    t.candidate_bytes -= <uint64_t>c.node_size + c.info_size
    if c.info:
        give_block(&t.arena, c.info, c.info_size)
    give_block(&t.arena, ref, candidate_size(c.node_size))


cdef bint prune(Table *t, Slot *slot, uint32_t leaver) noexcept nogil:
    """Take a candidate (0: none), and whoever has run out, from a roster. False: nobody is left on it, and it is gone."""
    cdef uint32_t roster = slot.ref
    cdef Roster *s = roster_at(&t.arena, roster)
    cdef uint32_t *link = &s.first
    cdef uint32_t ref
    while link[0]:
        ref = link[0]
        if ref == leaver or candidate_at(&t.arena, ref).deadline <= t.time_ms:
            link[0] = candidate_at(&t.arena, ref).next
            s.count -= 1
            free_candidate(t, ref)
        else:
            link = &candidate_at(&t.arena, ref).next
    if s.count:
        return True
    index_erase(&t.rosters, slot)
    t.roster_count -= 1
    t.candidate_bytes -= s.name_size
    give_block(&t.arena, roster, roster_size(s.name_size))
    return False


cdef void prune_all(Table *t) noexcept nogil:
    """Prune every roster. Cost: all candidates; nothing at all while none can have run out."""
    cdef size_t slots = index_slots(&t.rosters)
    cdef size_t i
    cdef uint32_t ref
    if t.candidates_end > t.time_ms:
        return
    for i in range(slots):
        # Where a roster went, another may have moved into its slot.
        while index_slot(&t.rosters, i).ref and not prune(t, index_slot(&t.rosters, i), 0):
            pass
    t.candidates_end = INT64_MAX
    for i in range(slots):
        ref = index_slot(&t.rosters, i).ref
        ref = roster_at(&t.arena, ref).first if ref else 0
        while ref:
            note_candidate_end(t, candidate_at(&t.arena, ref).deadline)
            ref = candidate_at(&t.arena, ref).next


cdef inline void note_candidate_end(Table *t, int64_t deadline) noexcept nogil:
    if deadline < t.candidates_end:
        t.candidates_end = deadline


cdef uint32_t add_roster(Table *t, const Text *name) noexcept nogil:
    """A roster without candidates for a name (its hash set) that has none; 0: no memory, nothing changed."""
    cdef uint32_t ref
    cdef Roster *s
    if not index_reserve(&t.rosters):
        return 0
    ref = take_block(&t.arena, roster_size(name.size))
    if ref == 0:
        return 0
    s = roster_at(&t.arena, ref)
    s.revision = s.last_token = 0
    s.open_since = NEVER
    s.first = s.count = 0
    s.name_size = <uint8_t>name.size
    memcpy(<uint8_t *>s + (<uint8_t *>s.text - <uint8_t *>s), name.at, name.size)
    index_put(&t.rosters, name.hash, ref)
    t.roster_count += 1
    t.candidate_bytes += name.size
    return ref


cdef bint set_info(Table *t, Candidate *c, const Text *info) noexcept nogil:
    """What a candidate says of itself from now on. False: no memory, nothing changed."""
    cdef uint32_t ref = 0
    if info.size:
        ref = take_block(&t.arena, info.size)
        if ref == 0:
            return False
        memcpy(block(&t.arena, ref), info.at, info.size)
    if c.info:
        give_block(&t.arena, c.info, c.info_size)
    t.candidate_bytes += info.size
    t.candidate_bytes -= c.info_size
    c.info = ref
    c.info_size = <uint16_t>info.size
    return True


cdef uint32_t add_candidate(Table *t, uint32_t roster, const Text *node_id, const Text *info, int64_t deadline) noexcept nogil:
    """A candidate at the end of a roster, with nothing counted yet and no number; 0: no memory, nothing changed."""
    cdef uint32_t ref = take_block(&t.arena, candidate_size(node_id.size))
    cdef Candidate *c
    cdef uint32_t *link = &roster_at(&t.arena, roster).first
    if ref == 0:
        return 0
    c = candidate_at(&t.arena, ref)
    c.info = 0
    c.info_size = 0
    if not set_info(t, c, info):
        give_block(&t.arena, ref, candidate_size(node_id.size))
        return 0
    c.number = 0
    c.deadline = deadline
    c.registered = t.time_ms
    c.last_start = c.last_completion = NEVER
    c.successes = c.failures = 0
    c.next = 0
    c.node_size = <uint8_t>node_id.size
    memcpy(<uint8_t *>c + (<uint8_t *>c.text - <uint8_t *>c), node_id.at, node_id.size)
    while link[0]:
        link = &candidate_at(&t.arena, link[0]).next
    link[0] = ref
    roster_at(&t.arena, roster).count += 1
    t.candidate_count += 1
    t.candidate_bytes += node_id.size
    note_candidate_end(t, deadline)
    return ref
