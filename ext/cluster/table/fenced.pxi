# RECORD_PUT and RECORD_DELETE: who may write a record, and the write. Included by _table.pyx.
#
# I10: a record that was written under a lease is bound to that lease's name, and from then on only a live token of that name writes it;
# a write that was applied is recognised by its id and not applied again. Versions are taken from the token counter, so that no version
# ever comes back, under whatever key, and after whatever restore.

from libc.stdint cimport uint32_t, uint64_t


cdef bint is_live_token(const Table *t, const Text *given, uint64_t token) noexcept nogil:
    """Whether the name is held under this token at the table's time, swept or not; revoked, it is held until it ends."""
    cdef Text name = given[0]
    cdef Slot *slot
    cdef uint32_t ref
    cdef const Lease *l
    hash_name(t, &name)
    slot = find_name(t, &name)
    ref = slot.ref if slot != NULL else 0
    while ref:
        l = lease_at(&t.arena, ref)
        if l.token == token:
            return not l.flags & FLAG_DEAD and ends_at(t, l) > t.time_ms
        ref = l.sibling
    return False


cdef inline bint is_fenced(const Table *t, const Request *r, const Text *bound) noexcept nogil:
    """Whether the writer may not write a record that is bound to ``bound`` (empty: to nothing yet)."""
    if bound.size and not same_text(bound, &r.name):
        return True
    return r.name.size and not is_live_token(t, &r.name, r.token)


cdef void answer_fenced(Table *t, const Text *bound) noexcept nogil:
    if begin_answer(t, SHORT_ANSWER_BYTES_MAX + NAME_MAX_BYTES, 2, FENCED):
        put_text(&t.replies, bound.at, bound.size)


cdef bint may_write(Table *t, const Request *r, const Slot *slot) noexcept nogil:
    """Whether a write of the record in ``slot`` (NULL: it is not there) is to be applied. If not, it is answered."""
    cdef uint32_t known = find_write(t, r.id.at)
    cdef Record *record = record_at(&t.arena, slot.ref) if slot != NULL else NULL
    cdef Text bound
    cdef uint64_t version = 0
    bound.at = r.key.at
    bound.size = 0
    if record != NULL:
        bound = bound_name_of(record.content)
        version = record.version
    if known:
        answer_numbers(t, OK, write_at(&t.arena, known).version, write_at(&t.arena, known).token)
        return False
    # Asked again: if it was applied it has a version above ``known``, and would be remembered unless that fell out.
    if r.asked_again and r.known < t.forgotten:
        answer(t, FORGOTTEN)
        return False
    if is_fenced(t, r, &bound):
        answer_fenced(t, &bound)
        return False
    if not r.any_version and r.version != version:
        answer_number(t, VERSION_DIFFERS, version)
        return False
    return True


cdef int lacks_record_room(const Table *t, const Request *r, const Record *record) noexcept nogil:
    """0, or the limit that the write would pass."""
    cdef uint64_t size = <uint64_t>r.key.size + r.name.size + r.value.size
    cdef uint64_t freed = content_bytes(record.content) if record != NULL else 0
    if t.next_token > TOKEN_MAX:
        return LIMIT_TOKENS
    if record == NULL and t.record_count >= t.records_max:
        return LIMIT_RECORDS
    return LIMIT_RECORD_BYTES if t.record_bytes - freed + size > t.records_bytes_max else 0


cdef inline uint64_t take_version(Table *t, const Request *r) noexcept nogil:
    """The next version, given to this write, which is remembered and about to be applied; 0: no memory, nothing changed."""
    cdef uint64_t version = t.next_token
    if not remember(t, r.id.at, version, r.token):
        return 0
    t.next_token += 1
    return version


cdef bint set_record(Table *t, const Text *key, Slot *slot, Content *content, uint64_t version, uint64_t token) noexcept nogil:
    """Write a record, new if ``slot`` is NULL. It takes the content over. False: no memory, nothing changed."""
    cdef Record *record
    if slot == NULL:
        return add_record(t, key, content, version, token)
    record = record_at(&t.arena, slot.ref)
    t.record_bytes += content_bytes(content)
    t.record_bytes -= content_bytes(record.content)
    disown(record.content)
    record.content = content
    record.version = version
    record.token = token
    return True


cdef void record_put(Table *t, const Request *r) noexcept nogil:
    cdef Text key = r.key
    cdef Slot *slot
    cdef Content *content
    cdef uint64_t version
    cdef int limit
    hash_name(t, &key)
    slot = find_key(t, &key)
    if not may_write(t, r, slot):
        return
    limit = lacks_record_room(t, r, record_at(&t.arena, slot.ref) if slot != NULL else NULL)
    if limit:
        answer_number(t, LIMIT, limit)
        return
    content = new_content(&key, &r.name, &r.value)
    version = take_version(t, r) if content != NULL else 0
    if version == 0 or not set_record(t, &key, slot, content, version, r.token):
        if content != NULL:
            disown(content)
        t.no_memory = True
        return
    answer_numbers(t, OK, version, r.token)


cdef void record_delete(Table *t, const Request *r) noexcept nogil:
    cdef Text key = r.key
    cdef Slot *slot
    cdef uint64_t version
    hash_name(t, &key)
    slot = find_key(t, &key)
    if not may_write(t, r, slot):
        return
    if slot == NULL:
        answer_numbers(t, OK, 0, 0)
        return
    if t.next_token > TOKEN_MAX:
        answer_number(t, LIMIT, LIMIT_TOKENS)
        return
    version = take_version(t, r)
    if version == 0:
        t.no_memory = True
        return
    remove_record(t, slot)
    answer_numbers(t, OK, version, r.token)
