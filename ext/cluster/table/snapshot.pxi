# The canonical bytes of a state (I6). Included by _table.pyx.
#
# One msgpack array, every value in its shortest form:
#
#     [b"tenure table", level, epoch, time_ms, next_token, cluster_id, grants_from, longest_ms,
#      [[session, deadline, lease_ms, revoked_count, node_id], …] by id,
#      [[acq_id, name, slot, token, granted, deadline, lease_ms, min_ms, max_leaders, session, flags, node_id, metadata], …] by token,
#      forgotten,
#      [[key, name, version, token, value], …] by version,
#      [[write_id, version, token], …] by version,
#      rosters of candidates: see rostering.pxi,
#      next_event]
#
# ``cluster_id`` is empty until INIT. Sessions that are over are not in it: what hung on one stands free, with the end that it has.
# Leases that are over and not yet swept are in it, since their expiry is still to be reported.

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.ref cimport PyObject, Py_XDECREF
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    SNAPSHOT_ELEMENTS = 15
    SESSION_ELEMENTS = 5
    LEASE_ELEMENTS = 13
    RECORD_ELEMENTS = 5
    WRITE_ELEMENTS = 3
    SNAPSHOT_HEAD_BYTES_MAX = 128
    SESSION_BYTES_MAX = 1 + 4 * 9 + 2              # besides the node id
    LEASE_BYTES_MAX = 1 + 18 + 8 * 9 + 1 + 3 * 3  # besides name, node id and metadata
    RECORD_BYTES_MAX = 1 + 2 + 2 + 2 * 9 + 5       # besides key, name and value
    WRITE_BYTES_MAX = 1 + 18 + 2 * 9
    MAGIC_BYTES = 12
    DIGIT_BITS = 11
    DIGITS = 5  # 55 bits: a token has 53

cdef extern from "Python.h":
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *data, Py_ssize_t size) except NULL
    int shorten_bytes "_PyBytes_Resize"(PyObject **data, Py_ssize_t size) except -1

cdef const char *MAGIC = "tenure table"


cdef struct Numbered:
    uint64_t number
    uint32_t ref


cdef void sort_by_digit(const Numbered *given, Numbered *sorted, size_t count, int shift) noexcept nogil:
    """Stable; by one digit of the number."""
    cdef size_t starts[1 << DIGIT_BITS]
    cdef size_t total = 0
    cdef size_t here
    cdef size_t i
    memset(starts, 0, sizeof(starts))
    for i in range(count):
        starts[(given[i].number >> shift) & ((1 << DIGIT_BITS) - 1)] += 1
    for i in range(<size_t>1 << DIGIT_BITS):
        here = starts[i]
        starts[i] = total
        total += here
    for i in range(count):
        here = (given[i].number >> shift) & ((1 << DIGIT_BITS) - 1)
        sorted[starts[here]] = given[i]
        starts[here] += 1


cdef Numbered *sort_by_number(Numbered *given, size_t count) noexcept nogil:
    """Ascending, digit by digit, the lowest first, so that a snapshot's pause grows with nothing but its size.

    Takes ``given`` over; NULL: no memory.
    """
    cdef Numbered *other = <Numbered *>malloc((count + 1) * sizeof(Numbered))
    cdef Numbered *swapped
    cdef uint64_t differing = 0
    cdef size_t i
    cdef int digit
    if other == NULL:
        free(given)
        return NULL
    for i in range(1, count):
        differing |= given[i].number ^ given[0].number
    for digit in range(DIGITS):
        if (differing >> (digit * DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1):
            sort_by_digit(given, other, count, digit * DIGIT_BITS)
            swapped = given
            given = other
            other = swapped
    free(other)
    return given


cdef Numbered *leases_by_token(const Table *t, size_t *size) noexcept nogil:
    """All leases; adds to ``size`` the most that their bytes can need."""
    cdef Numbered *all = <Numbered *>malloc((<size_t>t.lease_count + 1) * sizeof(Numbered))
    cdef size_t count = 0
    cdef size_t slots = index_slots(&t.names)
    cdef size_t i
    cdef uint32_t ref
    cdef const Lease *l
    if all == NULL:
        return NULL
    for i in range(slots):
        ref = first_in_slot(t, i, slots)
        while ref:
            l = lease_at(&t.arena, ref)
            all[count].number = l.token
            all[count].ref = ref
            count += 1
            size[0] += LEASE_BYTES_MAX + <size_t>l.name_size + l.node_size + l.metadata_size
            ref = l.sibling
    return sort_by_number(all, count)


cdef Numbered *sessions_by_id(const Table *t, size_t *size) noexcept nogil:
    """All live sessions; adds to ``size`` the most that their bytes can need."""
    cdef Numbered *all = <Numbered *>malloc((<size_t>t.session_count + 1) * sizeof(Numbered))
    cdef size_t count = 0
    cdef size_t i
    cdef uint32_t ref
    if all == NULL:
        return NULL
    for i in range(index_slots(&t.sessions)):
        ref = index_slot(&t.sessions, i).ref
        if ref:
            all[count].number = session_at(&t.arena, ref).id
            all[count].ref = ref
            count += 1
            size[0] += SESSION_BYTES_MAX + session_at(&t.arena, ref).node_size
    return sort_by_number(all, count)


cdef Numbered *records_by_version(const Table *t, size_t *size) noexcept nogil:
    """All records; adds to ``size`` the most that their bytes, and those of the remembered writes, can need."""
    cdef Numbered *all = <Numbered *>malloc((<size_t>t.record_count + 1) * sizeof(Numbered))
    cdef size_t count = 0
    cdef size_t i
    cdef uint32_t ref
    if all == NULL:
        return NULL
    for i in range(index_slots(&t.keys)):
        ref = index_slot(&t.keys, i).ref
        if ref:
            all[count].number = record_at(&t.arena, ref).version
            all[count].ref = ref
            count += 1
    size[0] += count * RECORD_BYTES_MAX + t.record_bytes + <size_t>t.write_count * WRITE_BYTES_MAX
    return sort_by_number(all, count)


cdef void write_head(const Table *t, Buffer *b) noexcept nogil:
    put_list(b, SNAPSHOT_ELEMENTS)
    put_text(b, <const uint8_t *>MAGIC, MAGIC_BYTES)
    put_uint(b, t.level)
    put_uint(b, t.epoch)
    put_uint(b, <uint64_t>t.time_ms)
    put_uint(b, t.next_token)
    put_text(b, t.cluster_id, ID_BYTES if t.formed else 0)
    put_uint(b, <uint64_t>t.grants_from)
    put_uint(b, t.longest_ms)


cdef void write_session(const Table *t, Buffer *b, uint32_t ref) noexcept nogil:
    cdef const Session *s = session_at(&t.arena, ref)
    put_list(b, SESSION_ELEMENTS)
    put_uint(b, s.id)
    put_uint(b, <uint64_t>s.deadline)
    put_uint(b, s.lease_ms)
    put_uint(b, s.revoked)
    put_text(b, session_text(s), s.node_size)


cdef inline uint64_t session_id_of(const Table *t, const Lease *l, int64_t now) noexcept nogil:
    """The id of the session that a lease hangs on, while that lives; else 0."""
    cdef const Session *s
    if l.session == 0:
        return 0
    s = session_at(&t.arena, l.session)
    return s.id if s.deadline > now else 0


cdef void write_lease(const Table *t, Buffer *b, uint32_t ref) noexcept nogil:
    cdef const Lease *l = lease_at(&t.arena, ref)
    cdef uint64_t session = session_id_of(t, l, t.time_ms)
    cdef Text metadata = metadata_of(&t.arena, l)
    put_list(b, LEASE_ELEMENTS)
    put_text(b, l.id, ID_BYTES)
    put_text(b, lease_text(l), l.name_size)
    put_uint(b, l.slot)
    put_uint(b, l.token)
    put_uint(b, <uint64_t>l.granted)
    put_uint(b, <uint64_t>(l.deadline if session else ends_at(t, l)))
    put_uint(b, l.lease_ms)
    put_uint(b, l.min_ms)
    put_uint(b, l.max_leaders)
    put_uint(b, session)
    put_byte(b, l.flags)
    put_text(b, lease_text(l) + l.name_size, l.node_size)
    put_text(b, metadata.at, metadata.size)


cdef void write_record(const Table *t, Buffer *b, uint32_t ref) noexcept nogil:
    cdef const Record *record = record_at(&t.arena, ref)
    cdef Text key = key_of(record.content)
    cdef Text name = bound_name_of(record.content)
    cdef Text value = value_of(record.content)
    put_list(b, RECORD_ELEMENTS)
    put_text(b, key.at, key.size)
    put_text(b, name.at, name.size)
    put_uint(b, record.version)
    put_uint(b, record.token)
    put_value(b, value.at, value.size)


cdef void write_writes(const Table *t, Buffer *b) noexcept nogil:
    cdef uint32_t ref = t.oldest_write
    cdef const Write *w
    put_list(b, t.write_count)
    while ref:
        w = write_at(&t.arena, ref)
        put_list(b, WRITE_ELEMENTS)
        put_text(b, w.id, ID_BYTES)
        put_uint(b, w.version)
        put_uint(b, w.token)
        ref = w.newer


cdef void write_all(
    const Table *t, Buffer *b, const Numbered *sessions, const Numbered *leases, const Numbered *records, const Numbered *rosters
) noexcept nogil:
    cdef uint32_t i
    write_head(t, b)
    put_list(b, t.session_count)
    for i in range(t.session_count):
        write_session(t, b, sessions[i].ref)
    put_list(b, t.lease_count)
    for i in range(t.lease_count):
        write_lease(t, b, leases[i].ref)
    put_uint(b, t.forgotten)
    put_list(b, t.record_count)
    for i in range(t.record_count):
        write_record(t, b, records[i].ref)
    write_writes(t, b)
    put_list(b, t.roster_count)
    for i in range(t.roster_count):
        write_roster(t, b, rosters[i].ref)
    put_uint(b, t.next_event)


cdef bytes write_snapshot(const Table *t):
    """Written straight into the bytes that are handed out: a second copy of a big state would cost as much as the writing."""
    cdef size_t size = SNAPSHOT_HEAD_BYTES_MAX
    cdef Numbered *sessions
    cdef Numbered *leases
    cdef Numbered *records
    cdef Numbered *rosters
    cdef PyObject *snapshot = NULL
    cdef Buffer buffer
    with nogil:
        sessions = sessions_by_id(t, &size)
        leases = leases_by_token(t, &size)
        records = records_by_version(t, &size)
        rosters = rosters_by_revision(t, &size)
    try:
        if sessions == NULL or leases == NULL or records == NULL or rosters == NULL:
            raise MemoryError("no memory for a snapshot; the table is unchanged")
        snapshot = new_bytes(NULL, <Py_ssize_t>size)
        buffer.data = <uint8_t *>PyBytes_AS_STRING(<object>snapshot)
        buffer.size = 0
        buffer.room = size
        with nogil:
            write_all(t, &buffer, sessions, leases, records, rosters)
        shorten_bytes(&snapshot, <Py_ssize_t>buffer.size)
        return <bytes>snapshot
    finally:
        Py_XDECREF(snapshot)
        free(sessions)
        free(leases)
        free(records)
        free(rosters)
