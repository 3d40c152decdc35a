# An indexed heap of references, smallest (key, order) first. Included by _table.pyx.
#
# Keys are lower bounds: what is extended keeps its place, and its key is raised only when it comes to the top. Each record knows its
# position, so it can leave from anywhere. Entries stand in pages that never move, so growing copies nothing. Four children per entry:
# half the levels of a binary heap, and the keys of all four in one line of the cache.

from libc.stdlib cimport free, malloc, realloc
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef enum:
    PAGE_BITS = 12
    PAGE_ENTRIES = 1 << PAGE_BITS


cdef packed struct Entry:  # packed, so that four children lie in two lines of the cache
    int64_t key
    uint64_t order
    uint32_t ref


cdef struct HeapPage:
    Entry entries[PAGE_ENTRIES]


cdef struct Heap:
    HeapPage **pages
    uint32_t page_count
    uint32_t page_room
    uint32_t size


cdef inline Entry *entry_at(const Heap *h, uint32_t position) noexcept nogil:
    return &h.pages[position >> PAGE_BITS].entries[position & (PAGE_ENTRIES - 1)]


cdef inline void set_entry(Heap *h, const Arena *arena, uint32_t position, const Entry *entry) noexcept nogil:
    entry_at(h, position)[0] = entry[0]
    set_position(arena, entry.ref, position)


cdef inline bint comes_before(const Entry *a, const Entry *b) noexcept nogil:
    return a.key < b.key or (a.key == b.key and a.order < b.order)


cdef bint heap_reserve(Heap *h, uint32_t count) noexcept nogil:
    """Whether ``count`` entries have room. What has a place reserved can be pushed without fail."""
    cdef uint32_t room
    cdef void *grown
    while h.page_count < (count + PAGE_ENTRIES - 1) >> PAGE_BITS:
        if h.page_count == h.page_room:
            room = h.page_room * 2 if h.page_room else 16
            grown = realloc(h.pages, room * sizeof(HeapPage *))
            if grown == NULL:
                return False
            h.pages = <HeapPage **>grown
            h.page_room = room
        h.pages[h.page_count] = <HeapPage *>malloc(sizeof(HeapPage))
        if h.pages[h.page_count] == NULL:
            return False
        h.page_count += 1
    return True


cdef void sift_up(Heap *h, const Arena *arena, uint32_t hole, const Entry *entry) noexcept nogil:
    """Put ``entry`` at ``hole`` or above it."""
    cdef uint32_t parent
    cdef const Entry *above
    while hole:
        parent = (hole - 1) >> 2
        above = entry_at(h, parent)
        if comes_before(above, entry):
            break
        set_entry(h, arena, hole, above)
        hole = parent
    set_entry(h, arena, hole, entry)


cdef void sift_down(Heap *h, const Arena *arena, uint32_t hole, const Entry *entry) noexcept nogil:
    """Put ``entry`` at ``hole`` or below it."""
    cdef uint32_t child
    cdef uint32_t last
    cdef uint32_t i
    cdef const Entry *least
    while True:
        child = 4 * hole + 1
        if child >= h.size:
            break
        least = entry_at(h, child)
        last = child + 4 if child + 4 < h.size else h.size
        for i in range(child + 1, last):
            if comes_before(entry_at(h, i), least):
                least = entry_at(h, i)
                child = i
        if comes_before(entry, least):
            break
        set_entry(h, arena, hole, least)
        hole = child
    set_entry(h, arena, hole, entry)


cdef inline void heap_push(Heap *h, const Arena *arena, int64_t key, uint64_t order, uint32_t ref) noexcept nogil:
    """Add an entry for which room was reserved."""
    cdef Entry entry
    entry.key = key
    entry.order = order
    entry.ref = ref
    h.size += 1
    sift_up(h, arena, h.size - 1, &entry)


cdef void heap_remove(Heap *h, const Arena *arena, uint32_t position) noexcept nogil:
    cdef Entry gone = entry_at(h, position)[0]
    h.size -= 1
    if position == h.size:
        return
    cdef Entry last = entry_at(h, h.size)[0]
    if comes_before(&last, &gone):
        sift_up(h, arena, position, &last)
    else:
        sift_down(h, arena, position, &last)


cdef inline void raise_top(Heap *h, const Arena *arena, int64_t key, uint64_t order) noexcept nogil:
    """Give the top entry a later place."""
    cdef Entry top = entry_at(h, 0)[0]
    top.key = key
    top.order = order
    sift_down(h, arena, 0, &top)


cdef void drop_heap(Heap *h) noexcept nogil:
    cdef uint32_t i
    for i in range(h.page_count):
        free(h.pages[i])
    free(h.pages)
    h.pages = NULL
    h.page_count = 0
    h.page_room = 0
    h.size = 0
