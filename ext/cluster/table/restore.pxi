# A state from its bytes. Included by _table.pyx.
#
# Nothing is believed: whatever a snapshot that came from ``write_snapshot`` cannot hold is refused, so that a table that was restored
# keeps every invariant, and every sum of times in it stays far from overflow. It is built beside the old one; what fails is thrown away.

from libc.string cimport memcmp, memcpy, memset
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef struct Loading:
    Table *table
    Cursor cursor
    bint no_memory
    uint64_t last_session
    uint64_t last_token
    uint64_t last_version   # of the list that is being read


cdef struct StoredLease:
    uint64_t slot
    uint64_t token
    uint64_t granted
    uint64_t deadline
    uint64_t session
    uint64_t flags
    Request terms       # id, lease_ms, min_ms, max_leaders, node_id, metadata


cdef inline bint read_limited(Cursor *c, uint64_t *value, uint64_t largest) noexcept nogil:
    return read_uint(c, value) and value[0] <= largest


cdef bint read_head(Loading *g) noexcept nogil:
    cdef Table *t = g.table
    cdef Cursor *c = &g.cursor
    cdef uint32_t elements
    cdef Text magic
    cdef Text cluster_id
    cdef uint64_t level
    cdef uint64_t time_ms
    cdef uint64_t grants_from
    cdef uint64_t longest_ms
    if not (read_list(c, &elements) and elements == SNAPSHOT_ELEMENTS and read_text(c, &magic)):
        return False
    if magic.size != MAGIC_BYTES or memcmp(magic.at, MAGIC, MAGIC_BYTES) != 0:
        return False
    if not (read_limited(c, &level, FORMAT_LEVEL) and level >= 1 and read_uint(c, &t.epoch) and read_limited(c, &time_ms, STAMP_MAX_MS)):
        return False
    if not (read_limited(c, &t.next_token, TOKEN_MAX + 1) and t.next_token >= 1 and read_text(c, &cluster_id)):
        return False
    if not (read_limited(c, &grants_from, STAMP_MAX_MS + LEASE_MAX_MS) and read_limited(c, &longest_ms, LEASE_MAX_MS)):
        return False
    if cluster_id.size != 0 and cluster_id.size != ID_BYTES:
        return False
    t.level = <uint8_t>level
    t.time_ms = <int64_t>time_ms
    t.grants_from = <int64_t>grants_from
    t.longest_ms = <uint32_t>longest_ms
    t.formed = cluster_id.size == ID_BYTES
    if t.formed:
        memcpy(t.cluster_id, cluster_id.at, ID_BYTES)
    return True


cdef bint load_session(Loading *g) noexcept nogil:
    cdef Table *t = g.table
    cdef Cursor *c = &g.cursor
    cdef uint32_t elements
    cdef uint32_t ref
    cdef uint64_t id
    cdef uint64_t deadline
    cdef uint64_t lease_ms
    cdef uint64_t revoked
    cdef Text node_id
    if not (read_list(c, &elements) and elements == SESSION_ELEMENTS and read_uint(c, &id) and read_uint(c, &deadline)):
        return False
    if not (read_limited(c, &lease_ms, t.longest_ms) and read_limited(c, &revoked, TOKEN_MAX) and read_text(c, &node_id)):
        return False
    if id <= g.last_session or id >= t.next_token or not is_lease_time(lease_ms) or node_id.size > NODE_ID_MAX_BYTES:
        return False
    # Only sessions that live are stored, and none lives longer than from now.
    if deadline <= <uint64_t>t.time_ms or deadline > <uint64_t>t.time_ms + lease_ms:
        return False
    ref = add_session(t, id, <int64_t>deadline, lease_ms, &node_id)
    if ref == 0:
        g.no_memory = True
        return False
    session_at(&t.arena, ref).revoked = revoked
    g.last_session = id
    return True


cdef bint read_stored_lease(Cursor *c, StoredLease *l) noexcept nogil:
    cdef uint32_t elements
    cdef Request *r = &l.terms
    return (
        read_list(c, &elements) and elements == LEASE_ELEMENTS
        and read_text(c, &r.id) and read_text(c, &r.name) and read_uint(c, &l.slot) and read_uint(c, &l.token)
        and read_uint(c, &l.granted) and read_uint(c, &l.deadline)
        and read_uint(c, &r.lease_ms) and read_uint(c, &r.min_ms) and read_uint(c, &r.max_leaders)
        and read_uint(c, &l.session) and read_uint(c, &l.flags) and read_text(c, &r.node_id) and read_text(c, &r.metadata)
    )


cdef bint has_possible_times(const Table *t, const StoredLease *l) noexcept nogil:
    """Whether a lease can have these times and flags at the table's time."""
    cdef uint64_t time_ms = <uint64_t>t.time_ms
    if l.granted > time_ms or l.flags > FLAG_DEAD or l.terms.lease_ms > t.longest_ms:
        return False
    if l.session and l.flags:
        return False
    if l.flags == FLAG_DEAD:
        return l.terms.min_ms > 0 and l.deadline == l.granted + l.terms.min_ms
    return l.granted + l.terms.lease_ms <= l.deadline <= time_ms + t.longest_ms


cdef void join_chain(Table *t, uint32_t ref, const Text *name) noexcept nogil:
    """Put a stored lease among its name's occupants, in no order yet: ``order_chains`` sorts them when all are there."""
    cdef Slot *head = find_name(t, name)
    lease_at(&t.arena, ref).sibling = 0
    if head == NULL:
        index_put(&t.names, name.hash, ref)
        return
    lease_at(&t.arena, ref).sibling = head.ref
    head.ref = ref


cdef bint load_lease(Loading *g) noexcept nogil:
    cdef Table *t = g.table
    cdef StoredLease stored
    cdef Request *r = &stored.terms
    cdef uint32_t session = 0
    cdef uint32_t ref
    cdef Lease *l
    if not read_stored_lease(&g.cursor, &stored) or r.id.size != ID_BYTES or not is_name(&r.name) or bad_terms(r):
        return False
    if stored.token <= g.last_token or stored.token >= t.next_token or find_session(t, stored.token):
        return False
    if stored.slot >= r.max_leaders or not has_possible_times(t, &stored):
        return False
    if stored.session:
        session = find_session(t, stored.session)
        if session == 0 or stored.session > stored.token:
            return False
    hash_name(t, &r.name)
    ref = new_lease(t, r, &r.name)
    if ref == 0:
        g.no_memory = True
        return False
    g.last_token = stored.token
    l = lease_at(&t.arena, ref)
    l.token = stored.token
    l.granted = <int64_t>stored.granted
    l.deadline = <int64_t>stored.deadline
    l.slot = <uint16_t>stored.slot
    l.flags = <uint8_t>stored.flags
    l.session = 0
    t.lease_count += 1
    t.text_bytes += text_bytes_of(l)
    if session:
        hang(t, ref, session)
    else:
        stand_free(t, ref)
    join_chain(t, ref, &r.name)
    return True


cdef bint is_possible_write(Loading *g, uint64_t version, uint64_t token) noexcept nogil:
    """Versions rise within a list, and a lease is granted before it writes."""
    if version <= g.last_version or version >= g.table.next_token or token >= version:
        return False
    g.last_version = version
    return True


cdef bint load_record(Loading *g) noexcept nogil:
    cdef Table *t = g.table
    cdef Cursor *c = &g.cursor
    cdef uint32_t elements
    cdef Text key
    cdef Text name
    cdef Text value
    cdef uint64_t version
    cdef uint64_t token
    cdef Content *content
    if not (read_list(c, &elements) and elements == RECORD_ELEMENTS and read_text(c, &key) and read_text(c, &name)):
        return False
    if not (read_uint(c, &version) and read_uint(c, &token) and read_text(c, &value)):
        return False
    if not is_name(&key) or (name.size and not is_name(&name)) or (token == 0) != (name.size == 0):
        return False
    if value.size > RECORD_VALUE_MAX_BYTES or not is_possible_write(g, version, token):
        return False
    hash_name(t, &key)
    if find_key(t, &key) != NULL:
        return False
    content = new_content(&key, &name, &value)
    if content == NULL or not add_record(t, &key, content, version, token):
        if content != NULL:
            disown(content)
        g.no_memory = True
        return False
    return True


cdef bint load_records(Loading *g) noexcept nogil:
    cdef Table *t = g.table
    cdef uint32_t count
    cdef uint32_t i
    if not read_uint(&g.cursor, &t.forgotten) or t.forgotten >= t.next_token:
        return False
    if not read_list(&g.cursor, &count) or count > t.records_max:
        return False
    g.last_version = 0
    for i in range(count):
        if not load_record(g):
            return False
    return t.record_bytes <= t.records_bytes_max


cdef bint load_writes(Loading *g) noexcept nogil:
    cdef Table *t = g.table
    cdef Cursor *c = &g.cursor
    cdef uint32_t count
    cdef uint32_t elements
    cdef uint32_t i
    cdef Text id
    cdef uint64_t version
    cdef uint64_t token
    # None is forgotten before there are too many.
    if not read_list(c, &count) or count > t.writes_max or (t.forgotten and count < t.writes_max):
        return False
    g.last_version = t.forgotten
    for i in range(count):
        if not (read_list(c, &elements) and elements == WRITE_ELEMENTS and read_text(c, &id) and id.size == ID_BYTES):
            return False
        if not (read_uint(c, &version) and read_uint(c, &token) and is_possible_write(g, version, token)):
            return False
        if find_write(t, id.at):
            return False
        if not remember(t, id.at, version, token):
            g.no_memory = True
            return False
    return True


cdef bint are_occupants(const Table *t, Slot *head) noexcept nogil:
    """Sort a name's occupants by slot. False: two have one slot or, both alive, one id; or they are too many (I1)."""
    cdef Standing standing
    head.ref = sorted_chain(&t.arena, head.ref, compare_ids)
    if has_twin_ids(t, head.ref):
        return False
    head.ref = sorted_chain(&t.arena, head.ref, compare_slots)
    if has_twin_slots(t, head.ref):
        return False
    # No more than the smallest max_leaders among them. Those that are over do not count.
    look(t, head.ref, NULL, MAX_LEADERS_MAX, t.time_ms, &standing)
    return standing.occupants <= standing.places


cdef bint order_chains(const Table *t) noexcept nogil:
    """Whether each name's occupants can be; sorts them by slot. Cost: of n occupants, of the order of n log n."""
    cdef size_t i
    cdef Slot *head
    for i in range(index_slots(&t.names)):
        head = index_slot(&t.names, i)
        if head.ref and lease_at(&t.arena, head.ref).sibling and not are_occupants(t, head):
            return False
    return True


cdef bint load_snapshot(Loading *g) noexcept nogil:
    """Fill a fresh table. False: ``no_memory`` is set, or this is not a snapshot."""
    cdef Table *t = g.table
    cdef uint32_t count
    cdef uint32_t i
    if not read_head(g) or not read_list(&g.cursor, &count) or count > t.sessions_max:
        return False
    for i in range(count):
        if not load_session(g):
            return False
    # What the bytes that are left could hold is believed, not what they say.
    if not read_list(&g.cursor, &count) or count > t.leases_max or count > left(&g.cursor) // LEASE_ELEMENTS:
        return False
    g.no_memory = not index_presize(&t.names, count)
    for i in range(count if not g.no_memory else 0):
        if not load_lease(g):
            return False
    if g.no_memory or t.text_bytes > t.text_max or not order_chains(t):
        return False
    if not load_records(g) or not load_writes(g) or not load_rosters(g):
        return False
    return read_limited(&g.cursor, &t.next_event, EVENT_MAX) and t.next_event >= 1 and g.cursor.at == g.cursor.end
