# What the table is made of: leases, sessions, and the table itself. Included by _table.pyx.
#
# A lease hangs on exactly one thing: on its session, in the session's list, or, free-standing, in the heap of deadlines. A session is in
# the heap of sessions while it lives; ended, it stands in the heap of deadlines for the leases that still hang on it, until they have
# been swept. A session's list is in token order by itself: leases join at its end, with the newest token.
#
# ``deadline`` of a lease is its own; ``ends_at`` is the later of that and its session's: the moment at which it ceases to occupy its
# slot. What ends at or before the table's time is over, whether or not it was swept.

from libc.string cimport memcmp, memcpy
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """
    /* Marks the reference of a session where leases and sessions stand together. */
    static const uint32_t SESSION_BIT = (uint32_t)1 << 31;
    """
    const uint32_t SESSION_BIT


cdef enum:
    SLOTS_AHEAD = 16


cdef struct Lease:
    uint64_t token
    int64_t deadline        # its own; of a dead one: the end of its occupancy
    int64_t granted         # when
    uint8_t id[ID_BYTES]    # of the acquisition
    uint32_t lease_ms
    uint32_t min_ms
    uint32_t session        # reference; 0: free-standing
    uint32_t before         # hung: the one before it on its session; free-standing: its position in the heap of deadlines
    uint32_t after          # hung: the one after it on its session
    uint32_t sibling        # the next occupant of the same name, by slot
    uint16_t slot
    uint16_t max_leaders
    uint16_t metadata_size
    uint8_t flags
    uint8_t name_size
    uint8_t node_size
    uint8_t text[1]         # the name, the node id and, if there is metadata, the reference of its block


cdef struct Session:
    uint64_t id
    int64_t deadline
    uint64_t order      # once ended: no lease that hangs on it has a smaller token
    uint64_t revoked    # how many of its leases an operator ended
    uint32_t lease_ms
    uint32_t first
    uint32_t last
    uint32_t position   # in the heap of sessions; once ended, of deadlines
    uint8_t node_size
    uint8_t text[1]     # the node id


cdef struct Table:
    int64_t time_ms
    uint64_t epoch
    uint64_t next_token
    uint64_t next_event     # the number of the next event: each has the next one
    int64_t grants_from     # nothing is granted before this time
    uint32_t longest_ms     # the longest lease time ever in use: so long may holders from before a backup still run
    uint8_t level
    bint formed             # whether cluster_id is set
    uint8_t cluster_id[ID_BYTES]
    uint32_t lease_count    # leases that live, are dead, or are over and not yet swept
    uint64_t text_bytes     # of their names, node ids and metadata
    uint32_t session_count  # sessions that live
    uint32_t session_records # these, and the ended ones on which leases still hang
    uint32_t leases_max
    uint64_t text_max
    uint32_t sessions_max
    uint32_t sweep_max
    uint32_t record_count
    uint64_t record_bytes   # of keys, bound names and values
    uint32_t write_count    # of writes that are remembered
    uint32_t oldest_write
    uint32_t newest_write
    uint64_t forgotten      # version of the newest write that was remembered and is not any more
    uint32_t records_max
    uint64_t records_bytes_max
    uint32_t writes_max
    uint32_t roster_count
    uint32_t candidate_count
    uint64_t candidate_bytes  # of their names, node ids and infos
    int64_t candidates_end    # no candidate runs out before this time
    uint32_t candidates_max
    uint64_t candidates_bytes_max
    uint64_t seed
    Arena arena
    Index names             # name -> its occupant with the smallest slot
    Index sessions          # id of a session that lives -> the session
    Index keys              # key -> its record
    Index writes            # id of a write that is remembered -> the write
    Index rosters           # name -> its roster of candidates
    Heap deadlines
    Heap session_ends
    Buffer replies
    Buffer events
    bint no_memory          # some of this batch is missing: ``apply`` raises


cdef inline Lease *lease_at(const Arena *a, uint32_t ref) noexcept nogil:
    return <Lease *>block(a, ref)


cdef inline Session *session_at(const Arena *a, uint32_t ref) noexcept nogil:
    return <Session *>block(a, ref)


cdef inline void set_position(const Arena *a, uint32_t ref, uint32_t position) noexcept nogil:
    """Tell a record where it stands in its heap."""
    if ref & SESSION_BIT:
        session_at(a, ref ^ SESSION_BIT).position = position
    else:
        lease_at(a, ref).before = position


cdef inline uint8_t *lease_text(const Lease *l) noexcept nogil:
    # Not through the array of one byte that stands for the text: its declared end must not matter to anybody.
    return <uint8_t *>l + (<uint8_t *>l.text - <uint8_t *>l)


cdef inline size_t lease_bytes(uint32_t name_size, uint32_t node_size, uint32_t metadata_size) noexcept nogil:
    cdef Lease shape
    return <size_t>(<uint8_t *>shape.text - <uint8_t *>&shape) + name_size + node_size + (sizeof(uint32_t) if metadata_size else 0)


cdef inline uint64_t text_bytes_of(const Lease *l) noexcept nogil:
    return <uint64_t>l.name_size + l.node_size + l.metadata_size


cdef inline uint8_t *session_text(const Session *s) noexcept nogil:
    return <uint8_t *>s + (<uint8_t *>s.text - <uint8_t *>s)


cdef inline size_t session_bytes(uint32_t node_size) noexcept nogil:
    cdef Session shape
    return <size_t>(<uint8_t *>shape.text - <uint8_t *>&shape) + node_size


cdef inline Text name_of(const Lease *l) noexcept nogil:
    cdef Text text
    text.at = lease_text(l)
    text.size = l.name_size
    return text


cdef inline Text node_of(const Lease *l) noexcept nogil:
    cdef Text text
    text.at = lease_text(l) + l.name_size
    text.size = l.node_size
    return text


cdef inline Text metadata_of(const Arena *a, const Lease *l) noexcept nogil:
    cdef Text text
    cdef uint32_t ref
    text.at = lease_text(l)
    text.size = l.metadata_size
    if text.size:
        memcpy(&ref, lease_text(l) + l.name_size + l.node_size, sizeof(ref))
        text.at = <const uint8_t *>block(a, ref)
    return text


cdef bint is_named(const Arena *a, uint32_t ref, const void *key) noexcept nogil:
    cdef const Text *name = <const Text *>key
    cdef const Lease *l = lease_at(a, ref)
    return l.name_size == name.size and memcmp(lease_text(l), name.at, name.size) == 0


cdef bint is_session(const Arena *a, uint32_t ref, const void *key) noexcept nogil:
    return session_at(a, ref).id == (<const uint64_t *>key)[0]


cdef inline void hash_name(const Table *t, Text *name) noexcept nogil:
    name.hash = hash_text(t.seed, name.at, name.size)


cdef inline Slot *find_name(const Table *t, const Text *name) noexcept nogil:
    """The slot of a name whose hash is set; NULL: nobody occupies it."""
    return index_find(&t.names, name.hash, &t.arena, is_named, name)


cdef inline uint32_t first_in_slot(const Table *t, size_t i, size_t slots) noexcept nogil:
    """The first occupant of the name in the i-th slot (0: empty), for who walks over all; records of later slots are sent for meanwhile."""
    cdef uint32_t ahead = index_slot(&t.names, i + SLOTS_AHEAD).ref if i + SLOTS_AHEAD < slots else 0
    if ahead:
        prefetch(block(&t.arena, ahead))
        prefetch(<const uint8_t *>block(&t.arena, ahead) + 64)
    return index_slot(&t.names, i).ref


cdef inline uint32_t hash_session(const Table *t, uint64_t id) noexcept nogil:
    return hash_text(t.seed, <const uint8_t *>&id, sizeof(id))


cdef inline uint32_t find_session(const Table *t, uint64_t id) noexcept nogil:
    """The live session with this id; 0: unknown or over."""
    if id == 0 or t.session_count == 0:
        return 0
    cdef Slot *slot = index_find(&t.sessions, hash_session(t, id), &t.arena, is_session, &id)
    return slot.ref if slot != NULL else 0


cdef inline int64_t ends_at(const Table *t, const Lease *l) noexcept nogil:
    cdef int64_t end = l.deadline
    cdef int64_t session_end
    if l.session:
        session_end = session_at(&t.arena, l.session).deadline
        if session_end > end:
            end = session_end
    return end
