# What a leader or an operator may look at without changing anything. Included by _table.pyx.
#
# Whether a lease lives is judged at ``now``, the later of the table's time and the stamp that a batch would get now.

from libc.stdlib cimport free, malloc
from libc.string cimport memcmp
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_FromStringAndSize


cdef inline int64_t later(int64_t a, int64_t b) noexcept nogil:
    return a if a > b else b


cdef size_t memory_of(const Table *t) noexcept nogil:
    """Bytes taken from the system for records, indexes, heaps and buffers."""
    return (
        sizeof(Table) + <size_t>t.arena.chunk_count * CHUNK_UNITS * UNIT_BYTES
        + (index_slots(&t.names) + index_slots(&t.sessions) + index_slots(&t.keys) + index_slots(&t.writes)
           + index_slots(&t.rosters)) * sizeof(Slot)
        + t.record_bytes + t.record_count * content_head()
        + (<size_t>t.deadlines.page_count + t.session_ends.page_count) * sizeof(HeapPage)
        + t.replies.room + t.events.room
    )


cdef int64_t earliest_end(Table *t) noexcept nogil:
    """When the next lease, occupancy or session ends; -1: there is none. Puts exact keys at the tops of the heaps, which nobody sees."""
    cdef int64_t end = -1
    cdef uint32_t ref = next_to_end(t, INT64_MAX)
    if ref:
        end = ends_at(t, lease_at(&t.arena, ref))
    if tighten_session_ends(t, INT64_MAX if ref == 0 else end):
        end = entry_at(&t.session_ends, 0).key
    return end


cdef int64_t next_chance(const Table *t, const Text *name, int64_t max_leaders, int64_t now) noexcept nogil:
    """0: the name would be granted at ``now``; else the earliest time at which something in its way ends."""
    cdef Standing standing
    cdef Slot *slot = find_name(t, name)
    if now < t.grants_from:
        return t.grants_from
    look(t, slot.ref if slot != NULL else 0, NULL, <uint64_t>later(max_leaders, 1), now, &standing)
    return standing.leaves_at if standing.occupants >= standing.places else 0


cdef inline bytes bytes_of(const Text *text):
    return PyBytes_FromStringAndSize(<const char *>text.at, text.size)


cdef tuple row_of(const Table *t, uint32_t ref, int64_t now):
    cdef const Lease *l = lease_at(&t.arena, ref)
    cdef Text name = name_of(l)
    cdef Text node = node_of(l)
    cdef Text metadata = metadata_of(&t.arena, l)
    return (
        bytes_of(&name), l.slot, l.token, bytes_of(&node), ends_at(t, l) - now, now - l.granted, l.lease_ms, l.max_leaders,
        session_id_of(t, l, now), l.flags, bytes_of(&metadata),
    )


cdef tuple record_of(const Table *t, const Text *key):
    """``(name, version, token, value)`` of a key whose hash is set; None: there is no such record."""
    cdef Slot *slot = find_key(t, key)
    cdef const Record *record
    cdef Text name
    cdef Text value
    if slot == NULL:
        return None
    record = record_at(&t.arena, slot.ref)
    name = bound_name_of(record.content)
    value = value_of(record.content)
    return bytes_of(&name), record.version, record.token, bytes_of(&value)


cdef list rows_of(const Table *t, const Text *name, int64_t now):
    cdef Slot *slot = find_name(t, name)
    cdef uint32_t ref = slot.ref if slot != NULL else 0
    cdef list rows = []
    while ref:
        if ends_at(t, lease_at(&t.arena, ref)) > now:
            rows.append(row_of(t, ref, now))
        ref = lease_at(&t.arena, ref).sibling
    return rows


cdef inline int compare_text(const Text *a, const Text *b) noexcept nogil:
    cdef int order = memcmp(a.at, b.at, a.size if a.size < b.size else b.size)
    if order:
        return order
    return -1 if a.size < b.size else (1 if a.size > b.size else 0)


cdef struct Page:
    # The first ``limit`` leases by (name, slot) of those that were offered: a heap with the last of them on top.
    uint32_t *refs
    size_t size
    size_t limit
    bint more


cdef inline int compare_leases(const Arena *a, uint32_t x, uint32_t y) noexcept nogil:
    cdef Text one = name_of(lease_at(a, x))
    cdef Text other = name_of(lease_at(a, y))
    cdef int order = compare_text(&one, &other)
    if order:
        return order
    return <int>lease_at(a, x).slot - <int>lease_at(a, y).slot


cdef void sink(Page *p, const Arena *a, size_t hole, uint32_t ref) noexcept nogil:
    cdef size_t child = 2 * hole + 1
    while child < p.size:
        if child + 1 < p.size and compare_leases(a, p.refs[child], p.refs[child + 1]) < 0:
            child += 1
        if compare_leases(a, ref, p.refs[child]) >= 0:
            break
        p.refs[hole] = p.refs[child]
        hole = child
        child = 2 * hole + 1
    p.refs[hole] = ref


cdef void offer(Page *p, const Arena *a, uint32_t ref) noexcept nogil:
    cdef size_t hole
    if p.size == p.limit:
        p.more = True
        if compare_leases(a, ref, p.refs[0]) < 0:
            sink(p, a, 0, ref)
        return
    hole = p.size
    p.size += 1
    while hole and compare_leases(a, ref, p.refs[(hole - 1) // 2]) > 0:
        p.refs[hole] = p.refs[(hole - 1) // 2]
        hole = (hole - 1) // 2
    p.refs[hole] = ref


cdef void order_page(Page *p, const Arena *a) noexcept nogil:
    """Turn the heap into a sorted run."""
    cdef size_t count = p.size
    cdef uint32_t last
    while p.size > 1:
        p.size -= 1
        last = p.refs[p.size]
        p.refs[p.size] = p.refs[0]
        sink(p, a, 0, last)
    p.size = count


cdef void collect_page(const Table *t, const Text *prefix, const Text *after, int64_t after_slot, int64_t now, Page *p) noexcept nogil:
    """Offer every lease that is not over, begins with ``prefix`` and comes after (``after``, ``after_slot``). Cost: linear in all."""
    cdef size_t slots = index_slots(&t.names)
    cdef size_t i
    cdef uint32_t ref
    cdef const Lease *l
    cdef Text name
    cdef int order
    for i in range(slots):
        ref = first_in_slot(t, i, slots)
        if ref == 0:
            continue
        name = name_of(lease_at(&t.arena, ref))
        order = compare_text(&name, after)
        if order < 0 or name.size < prefix.size or memcmp(name.at, prefix.at, prefix.size) != 0:
            continue
        while ref:
            l = lease_at(&t.arena, ref)
            if (order > 0 or l.slot > after_slot) and ends_at(t, l) > now:
                offer(p, &t.arena, ref)
            ref = l.sibling
