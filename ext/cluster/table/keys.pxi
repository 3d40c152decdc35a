# Records: small values by key, and the writes that are remembered. Included by _table.pyx.
#
# What a record says lies in one piece of memory of its own, which nobody changes: a write makes a new one. So a frozen copy of the table
# shares them, and counts itself among their owners; and values of all sizes come and go without leaving odd blocks in the arena.
#
# A write that was applied is remembered by its id, for who asks again because the answer was lost. The memory is a queue of the last
# RECORD_WRITES_KEPT writes; ``forgotten`` is the version of the newest one that fell out of it.

from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy
from libc.stdint cimport INT64_MAX, uint8_t, uint32_t, uint64_t


cdef struct Content:
    uint32_t owners      # the table, and each frozen copy of it; counted under the interpreter's lock
    uint32_t value_size
    uint8_t key_size
    uint8_t name_size    # 0: bound to no name
    uint8_t text[1]      # the key, the name, the value


cdef struct Record:
    uint64_t version
    uint64_t token       # of the lease under which it was written; 0: under none
    Content *content


cdef struct Write:
    uint64_t version
    uint64_t token
    uint32_t newer       # the one that was remembered after it
    uint8_t id[ID_BYTES]


cdef inline Record *record_at(const Arena *a, uint32_t ref) noexcept nogil:
    return <Record *>block(a, ref)


cdef inline Write *write_at(const Arena *a, uint32_t ref) noexcept nogil:
    return <Write *>block(a, ref)


cdef inline uint8_t *content_text(const Content *c) noexcept nogil:
    return <uint8_t *>c + (<uint8_t *>c.text - <uint8_t *>c)


cdef inline size_t content_head() noexcept nogil:
    cdef Content shape
    return <size_t>(<uint8_t *>shape.text - <uint8_t *>&shape)


cdef inline uint64_t content_bytes(const Content *c) noexcept nogil:
    return <uint64_t>c.key_size + c.name_size + c.value_size


cdef inline Text key_of(const Content *c) noexcept nogil:
    cdef Text text
    text.at = content_text(c)
    text.size = c.key_size
    return text


cdef inline Text bound_name_of(const Content *c) noexcept nogil:
    cdef Text text
    text.at = content_text(c) + c.key_size
    text.size = c.name_size
    return text


cdef inline Text value_of(const Content *c) noexcept nogil:
    cdef Text text
    text.at = content_text(c) + c.key_size + c.name_size
    text.size = c.value_size
    return text


cdef Content *new_content(const Text *key, const Text *name, const Text *value) noexcept nogil:
    """What a record says, owned once; NULL: no memory."""
    cdef Content *c = <Content *>malloc(content_head() + key.size + name.size + value.size)
    cdef uint8_t *text
    if c == NULL:
        return NULL
    c.owners = 1
    c.value_size = value.size
    c.key_size = <uint8_t>key.size
    c.name_size = <uint8_t>name.size
    text = content_text(c)
    memcpy(text, key.at, key.size)
    memcpy(text + key.size, name.at, name.size)
    memcpy(text + key.size + name.size, value.at, value.size)
    return c


cdef inline void disown(Content *c) noexcept nogil:
    c.owners -= 1
    if c.owners == 0:
        free(c)


cdef bint is_keyed(const Arena *a, uint32_t ref, const void *key) noexcept nogil:
    cdef const Text *wanted = <const Text *>key
    cdef Text found = key_of(record_at(a, ref).content)
    return same_text(&found, wanted)


cdef bint is_write(const Arena *a, uint32_t ref, const void *key) noexcept nogil:
    return memcmp(write_at(a, ref).id, key, ID_BYTES) == 0


cdef inline Slot *find_key(const Table *t, const Text *key) noexcept nogil:
    """The slot of a key whose hash is set; NULL: there is no such record."""
    return index_find(&t.keys, key.hash, &t.arena, is_keyed, key)


cdef inline uint32_t hash_id(const Table *t, const uint8_t *id) noexcept nogil:
    return hash_text(t.seed, id, ID_BYTES)


cdef inline uint32_t find_write(const Table *t, const uint8_t *id) noexcept nogil:
    """The remembered write with this id; 0: there is none."""
    cdef Slot *slot
    if t.write_count == 0:
        return 0
    slot = index_find(&t.writes, hash_id(t, id), &t.arena, is_write, id)
    return slot.ref if slot != NULL else 0


cdef void forget_oldest(Table *t) noexcept nogil:
    cdef uint32_t ref = t.oldest_write
    cdef Write *w = write_at(&t.arena, ref)
    index_erase(&t.writes, index_find(&t.writes, hash_id(t, w.id), &t.arena, is_write, w.id))
    t.forgotten = w.version
    t.oldest_write = w.newer
    if t.oldest_write == 0:
        t.newest_write = 0
    t.write_count -= 1
    give_block(&t.arena, ref, sizeof(Write))


cdef bint remember(Table *t, const uint8_t *id, uint64_t version, uint64_t token) noexcept nogil:
    """Remember a write that is younger than all others, in place of the oldest if there are too many. False: no memory."""
    cdef uint32_t ref
    cdef Write *w
    if not index_reserve(&t.writes):
        return False
    ref = take_block(&t.arena, sizeof(Write))
    if ref == 0:
        return False
    w = write_at(&t.arena, ref)
    w.version = version
    w.token = token
    w.newer = 0
    memcpy(w.id, id, ID_BYTES)
    index_put(&t.writes, hash_id(t, id), ref)
    if t.newest_write:
        write_at(&t.arena, t.newest_write).newer = ref
    else:
        t.oldest_write = ref
    t.newest_write = ref
    t.write_count += 1
    if t.write_count > t.writes_max:
        forget_oldest(t)
    return True


cdef bint add_record(Table *t, const Text *key, Content *content, uint64_t version, uint64_t token) noexcept nogil:
    """A record under a key (its hash set) that is not there. It takes the content over. False: no memory, nothing changed."""
    cdef uint32_t ref
    cdef Record *record
    if not index_reserve(&t.keys):
        return False
    ref = take_block(&t.arena, sizeof(Record))
    if ref == 0:
        return False
    record = record_at(&t.arena, ref)
    record.version = version
    record.token = token
    record.content = content
    index_put(&t.keys, key.hash, ref)
    t.record_count += 1
    t.record_bytes += content_bytes(content)
    return True


cdef void remove_record(Table *t, Slot *slot) noexcept nogil:
    cdef uint32_t ref = slot.ref
    cdef Content *content = record_at(&t.arena, ref).content
    # Erased first: closing the gap asks nothing of the records, but nothing may find one without its content.
    index_erase(&t.keys, slot)
    give_block(&t.arena, ref, sizeof(Record))
    t.record_count -= 1
    t.record_bytes -= content_bytes(content)
    disown(content)


cdef void own_contents(const Table *t) noexcept nogil:
    """A copy of the table shares them from now on."""
    cdef size_t i
    cdef uint32_t ref
    for i in range(index_slots(&t.keys)):
        ref = index_slot(&t.keys, i).ref
        if ref:
            record_at(&t.arena, ref).content.owners += 1


cdef void disown_contents(const Table *t) noexcept nogil:
    cdef size_t i
    cdef uint32_t ref
    for i in range(index_slots(&t.keys)):
        ref = index_slot(&t.keys, i).ref
        if ref:
            disown(record_at(&t.arena, ref).content)


cdef void init_table(Table *t, uint64_t seed) noexcept nogil:
    memset(t, 0, sizeof(Table))
    t.level = FORMAT_LEVEL
    t.next_token = 1
    t.next_event = 1
    t.leases_max = LEASES_MAX
    t.text_max = LEASES_TEXT_MAX_BYTES
    t.sessions_max = SESSIONS_MAX
    t.sweep_max = SWEEP_MAX_PER_BATCH
    t.records_max = RECORDS_MAX
    t.records_bytes_max = RECORDS_MAX_BYTES
    t.writes_max = RECORD_WRITES_KEPT
    t.candidates_max = CANDIDATES_MAX
    t.candidates_bytes_max = CANDIDATES_MAX_BYTES
    t.candidates_end = INT64_MAX
    t.seed = seed


cdef void keep_limits(const Table *source, Table *t) noexcept nogil:
    """Give a fresh table the limits of another."""
    t.leases_max = source.leases_max
    t.text_max = source.text_max
    t.sessions_max = source.sessions_max
    t.sweep_max = source.sweep_max
    t.records_max = source.records_max
    t.records_bytes_max = source.records_bytes_max
    t.writes_max = source.writes_max
    t.candidates_max = source.candidates_max
    t.candidates_bytes_max = source.candidates_bytes_max


cdef void drop_table(Table *t) noexcept nogil:
    disown_contents(t)
    drop_index(&t.keys)
    drop_index(&t.writes)
    drop_index(&t.rosters)
    drop_index(&t.names)
    drop_index(&t.sessions)
    drop_heap(&t.deadlines)
    drop_heap(&t.session_ends)
    drop_buffer(&t.replies)
    drop_buffer(&t.events)
    drop_arena(&t.arena)
