# Sorting and checking the occupants of one name, which a snapshot tells in the order of their tokens. Included by _table.pyx.
#
# A chain is sorted by merging, link by link: it takes no memory, so it cannot fail, and no order in which somebody wrote it makes it slow.

from libc.string cimport memcmp, memset
from libc.stdint cimport uint32_t

cdef enum:
    RUNS_MAX = 32  # 1 << 32 leases: more than a reference can tell apart


ctypedef int (*Compare)(const Lease *a, const Lease *b) noexcept nogil


cdef int compare_ids(const Lease *a, const Lease *b) noexcept nogil:
    return memcmp(a.id, b.id, ID_BYTES)


cdef int compare_slots(const Lease *a, const Lease *b) noexcept nogil:
    return <int>a.slot - <int>b.slot


cdef uint32_t merged(const Arena *arena, uint32_t a, uint32_t b, Compare compare) noexcept nogil:
    """Two sorted chains as one."""
    cdef uint32_t first = 0
    cdef uint32_t *link = &first
    while a and b:
        if compare(lease_at(arena, a), lease_at(arena, b)) <= 0:
            link[0] = a
            link = &lease_at(arena, a).sibling
            a = link[0]
        else:
            link[0] = b
            link = &lease_at(arena, b).sibling
            b = link[0]
    link[0] = a if a else b
    return first


cdef uint32_t sorted_chain(const Arena *arena, uint32_t first, Compare compare) noexcept nogil:
    cdef uint32_t runs[RUNS_MAX]  # at i: 1 << i leases, sorted; 0: none
    cdef uint32_t run
    cdef uint32_t i
    memset(runs, 0, sizeof(runs))
    while first:
        run = first
        first = lease_at(arena, run).sibling
        lease_at(arena, run).sibling = 0
        i = 0
        while runs[i]:
            run = merged(arena, runs[i], run, compare)
            runs[i] = 0
            i += 1
        runs[i] = run
    run = 0
    for i in range(<uint32_t>RUNS_MAX):
        run = merged(arena, runs[i], run, compare)
    return run


cdef bint has_twin_slots(const Table *t, uint32_t first) noexcept nogil:
    """Whether, in a chain sorted by slot, one stands twice, live or not."""
    cdef const Lease *l = lease_at(&t.arena, first)
    while l.sibling:
        if lease_at(&t.arena, l.sibling).slot == l.slot:
            return True
        l = lease_at(&t.arena, l.sibling)
    return False


cdef bint has_twin_ids(const Table *t, uint32_t first) noexcept nogil:
    """Whether, in a chain sorted by id, two leases that live have one id."""
    cdef const Lease *living = NULL
    cdef const Lease *l
    cdef uint32_t ref = first
    while ref:
        l = lease_at(&t.arena, ref)
        if not l.flags & FLAG_DEAD and ends_at(t, l) > t.time_ms:
            if living != NULL and compare_ids(living, l) == 0:
                return True
            living = l
        ref = l.sibling
    return False
