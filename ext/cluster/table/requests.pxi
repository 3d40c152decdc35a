# Operations as bytes become operations as numbers and views of those bytes. Included by _table.pyx.
#
# Reading asks only for types and for the number of elements; what fails there is unreadable, and so is all that follows, since nobody
# knows where the next operation begins. Ranges are judged afterwards, and name the argument that is out of its range.

from libc.stdint cimport uint8_t, uint32_t, uint64_t


cdef struct Request:
    int operation
    Text id
    Text name
    Text node_id
    Text metadata
    uint64_t lease_ms
    uint64_t max_leaders
    uint64_t min_ms
    uint64_t session
    uint64_t token
    uint64_t outcome
    uint64_t slot
    uint64_t level
    uint64_t wall_ms
    Text key
    Text value
    bint any_version                    # of a record: nothing is expected of its version
    uint64_t version
    bint asked_again                    # an earlier frame of this write may have been applied, after the number ``known`` was given out
    uint64_t known
    bint every_slot
    bint force
    uint64_t count                      # of an ELECT: how many candidates its view has
    uint64_t place                      # of an ELECT: the claimant's place in its view's order, from 0
    uint64_t claim_ms
    uint32_t name_count                 # of an ACQUIRE_ALL, as it says; at most the limit of them are kept
    Text names[ACQUIRE_ALL_MAX_NAMES]


cdef inline bint read_terms(Cursor *c, Request *r) noexcept nogil:
    """What ACQUIRE and ACQUIRE_ALL have in common after the names."""
    return (
        read_uint(c, &r.lease_ms) and read_uint(c, &r.max_leaders) and read_uint(c, &r.min_ms) and read_uint(c, &r.session)
        and read_text(c, &r.node_id) and read_text(c, &r.metadata)
    )


cdef bint read_names(Cursor *c, Request *r) noexcept nogil:
    cdef uint32_t i
    cdef Text name
    if not read_list(c, &r.name_count):
        return False
    for i in range(r.name_count):
        if not read_text(c, &name):
            return False
        if i < ACQUIRE_ALL_MAX_NAMES:
            r.names[i] = name
    return True


cdef inline bint read_slot(Cursor *c, Request *r) noexcept nogil:
    r.slot = 0
    r.every_slot = read_nil(c)
    return r.every_slot or read_uint(c, &r.slot)


cdef inline bint read_writer(Cursor *c, Request *r) noexcept nogil:
    """What RECORD_PUT and RECORD_DELETE have in common after the key and the value."""
    if not (read_text(c, &r.name) and read_uint(c, &r.token)):
        return False
    r.any_version = read_nil(c)
    if not r.any_version and not read_uint(c, &r.version):
        return False
    r.asked_again = not read_nil(c)
    return not r.asked_again or read_uint(c, &r.known)


cdef inline bint read_candidate(Cursor *c, Request *r) noexcept nogil:
    if not (read_text(c, &r.name) and read_text(c, &r.node_id)):
        return False
    if r.operation == CANDIDATE_UNREGISTER:
        return True
    return read_uint(c, &r.lease_ms) and (r.operation == CANDIDATE_REFRESH or read_text(c, &r.value))


cdef inline bint read_claim(Cursor *c, Request *r) noexcept nogil:
    return read_uint(c, &r.version) and read_uint(c, &r.count) and read_uint(c, &r.place) and read_uint(c, &r.claim_ms)


cdef inline uint32_t elements_of(int operation) noexcept nogil:
    """How many elements an operation's array has; 0: there is no such operation."""
    if operation == ACQUIRE or operation == ACQUIRE_ALL:
        return 9
    if operation == EXTEND or operation == RELEASE or operation == CANDIDATE_REGISTER:
        return 5
    if operation == ELECT:
        return 13
    if operation == RECORD_PUT:
        return 8
    if operation == RECORD_DELETE:
        return 7
    if operation == REVOKE or operation == CHECK or operation == CANDIDATE_REFRESH:
        return 4
    if operation == ABANDON or operation == INIT or operation == SESSION_OPEN or operation == CANDIDATE_UNREGISTER:
        return 3
    if operation == SESSION_RENEW or operation == RAISE_LEVEL or operation == RESTORE:
        return 2
    if operation == EPOCH or operation == TICK:
        return 1
    return 0


cdef inline bint has_name(int operation) noexcept nogil:
    """Whether it is about one name."""
    return (
        operation == ACQUIRE or operation == EXTEND or operation == RELEASE or operation == ABANDON or operation == REVOKE
        or operation == CHECK or operation == ELECT
    )


cdef bint read_arguments(Cursor *c, Request *r) noexcept nogil:
    cdef int operation = r.operation
    if operation == ACQUIRE:
        return read_text(c, &r.id) and read_text(c, &r.name) and read_terms(c, r)
    if operation == EXTEND:
        return read_text(c, &r.id) and read_text(c, &r.name) and read_uint(c, &r.token) and read_uint(c, &r.lease_ms)
    if operation == SESSION_RENEW:
        return read_uint(c, &r.session)
    if operation == RELEASE:
        return read_text(c, &r.id) and read_text(c, &r.name) and read_uint(c, &r.token) and read_uint(c, &r.outcome)
    if operation == CHECK:
        return read_text(c, &r.id) and read_text(c, &r.name) and read_uint(c, &r.token)
    if operation == ABANDON:
        return read_text(c, &r.id) and read_text(c, &r.name)
    if operation == ACQUIRE_ALL:
        return read_text(c, &r.id) and read_names(c, r) and read_terms(c, r)
    if operation == SESSION_OPEN:
        return read_uint(c, &r.lease_ms) and read_text(c, &r.node_id)
    if operation == REVOKE:
        return read_text(c, &r.name) and read_slot(c, r) and read_bool(c, &r.force)
    if operation == INIT:
        return read_text(c, &r.id) and read_uint(c, &r.wall_ms)
    if operation == RAISE_LEVEL:
        return read_uint(c, &r.level)
    if operation == RESTORE:
        return read_uint(c, &r.lease_ms)
    if operation == RECORD_PUT:
        return read_text(c, &r.id) and read_text(c, &r.key) and read_text(c, &r.value) and read_writer(c, r)
    if operation == RECORD_DELETE:
        return read_text(c, &r.id) and read_text(c, &r.key) and read_writer(c, r)
    if operation == CANDIDATE_REGISTER or operation == CANDIDATE_REFRESH or operation == CANDIDATE_UNREGISTER:
        return read_candidate(c, r)
    if operation == ELECT:
        return read_text(c, &r.id) and read_text(c, &r.name) and read_terms(c, r) and read_claim(c, r)
    return True  # EPOCH and TICK have none.


cdef inline bint read_request(Cursor *c, Request *r) noexcept nogil:
    """Whether the next operation could be read; the cursor then stands after it."""
    cdef uint32_t elements
    cdef uint64_t operation
    if not read_list(c, &elements) or not read_uint(c, &operation) or operation > RESTORE:
        return False
    r.operation = <int>operation
    if elements == 0 or elements != elements_of(r.operation):
        return False
    return read_arguments(c, r)


cdef inline bint is_lease_time(uint64_t lease_ms) noexcept nogil:
    return LEASE_MIN_MS <= lease_ms <= LEASE_MAX_MS


cdef bint are_names(const Request *r) noexcept nogil:
    """Whether the names of an ACQUIRE_ALL are names, not too many, and no two are the same."""
    cdef uint32_t i
    cdef uint32_t j
    if r.name_count < 1 or r.name_count > ACQUIRE_ALL_MAX_NAMES:
        return False
    for i in range(r.name_count):
        if not is_name(&r.names[i]):
            return False
        for j in range(i):
            if same_text(&r.names[i], &r.names[j]):
                return False
    return True


cdef inline int bad_terms(const Request *r) noexcept nogil:
    if not is_lease_time(r.lease_ms):
        return 3
    if r.max_leaders < 1 or r.max_leaders > MAX_LEADERS_MAX:
        return 4
    if r.min_ms > r.lease_ms:
        return 5
    if r.node_id.size > NODE_ID_MAX_BYTES:
        return 7
    if r.metadata.size > METADATA_MAX_BYTES:
        return 8
    return 0


cdef int bad_record(const Request *r) noexcept nogil:
    cdef int place = 3
    if r.id.size != ID_BYTES:
        return 1
    if not is_name(&r.key):
        return 2
    if r.operation == RECORD_PUT:
        if r.value.size > RECORD_VALUE_MAX_BYTES:
            return 3
        place = 4
    if r.name.size and not is_name(&r.name):
        return place
    # A token is of a name; without one both are left out.
    return place + 1 if (r.token == 0) != (r.name.size == 0) else 0


cdef inline int bad_candidate(const Request *r) noexcept nogil:
    if not is_name(&r.name):
        return 1
    if r.node_id.size < 1 or r.node_id.size > NODE_ID_MAX_BYTES:
        return 2
    if r.operation != CANDIDATE_UNREGISTER and not is_lease_time(r.lease_ms):
        return 3
    return 4 if r.operation == CANDIDATE_REGISTER and r.value.size > CANDIDATE_INFO_MAX_BYTES else 0


cdef inline int bad_claim(const Request *r) noexcept nogil:
    if r.place >= CANDIDATES_PER_NAME_MAX:
        return 11
    return 12 if r.claim_ms > LEASE_MAX_MS else 0


cdef int bad_argument(const Request *r) noexcept nogil:
    """The first argument that is out of its range, by its place in the operation's array; 0: none is."""
    cdef int operation = r.operation
    if operation == ACQUIRE or operation == ACQUIRE_ALL or operation == ELECT:
        if r.id.size != ID_BYTES:
            return 1
        if not (are_names(r) if operation == ACQUIRE_ALL else is_name(&r.name)):
            return 2
        return bad_terms(r) or (bad_claim(r) if operation == ELECT else 0)
    if operation == CANDIDATE_REGISTER or operation == CANDIDATE_REFRESH or operation == CANDIDATE_UNREGISTER:
        return bad_candidate(r)
    if operation == EXTEND or operation == RELEASE or operation == CHECK or operation == ABANDON:
        if r.id.size != ID_BYTES:
            return 1
        if not is_name(&r.name):
            return 2
        if operation == EXTEND and not is_lease_time(r.lease_ms):
            return 4
        if operation == RELEASE and r.outcome > OUTCOME_MAX:
            return 4
        return 0
    if operation == REVOKE:
        if not is_name(&r.name):
            return 1
        return 2 if r.slot >= MAX_LEADERS_MAX else 0
    if operation == INIT:
        if r.id.size != ID_BYTES:
            return 1
        return 2 if r.wall_ms > WALL_MAX_MS else 0
    if operation == SESSION_OPEN:
        if not is_lease_time(r.lease_ms):
            return 1
        return 2 if r.node_id.size > NODE_ID_MAX_BYTES else 0
    if operation == RAISE_LEVEL:
        return 1 if r.level < 1 or r.level > 255 else 0
    if operation == RESTORE:
        return 1 if r.lease_ms > LEASE_MAX_MS else 0
    if operation == RECORD_PUT or operation == RECORD_DELETE:
        return bad_record(r)
    return 0
