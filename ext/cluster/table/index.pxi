# A hash index from keys to references: open addressing, linear probing, growth a few slots at a time. Included by _table.pyx.
#
# The keys stay in the records; a slot has 32 bits of their hash, enough to place it again without looking at the record. While it
# grows, the old slots live beside the new ones: lookups ask both, new keys go to the new, and each change moves a few over, so that
# no single operation pays for all. Where a key stands depends on the seed and on history; nothing that leaves the table may show it.

from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    SLOTS_MIN = 64
    FULL_NUMERATOR = 13   # of 16: beyond it runs get long
    MOVES_PER_CHANGE = 4  # 2.3 would do to be done before the new slots are full in their turn

cdef extern from *:
    """
    #include <stdint.h>
    static inline uint64_t fold_product(uint64_t a, uint64_t b) {
        unsigned __int128 product = (unsigned __int128)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    """
    uint64_t fold_product(uint64_t a, uint64_t b) noexcept nogil
    void prefetch "__builtin_prefetch"(const void *at) noexcept nogil


cdef inline uint64_t word_at(const uint8_t *at) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, at, 8)
    return word


cdef inline uint64_t short_word(const uint8_t *at, uint32_t size) noexcept nogil:
    """The last 0 to 7 bytes of a key as one number; with the size mixed in elsewhere, different ends differ."""
    cdef uint32_t first
    cdef uint32_t last
    if size >= 4:
        memcpy(&first, at, 4)
        memcpy(&last, at + size - 4, 4)
        return (<uint64_t>first << 32) | last
    if size == 0:
        return 0
    return (<uint64_t>at[0] << 16) | (<uint64_t>at[size >> 1] << 8) | at[size - 1]


cdef inline uint32_t hash_text(uint64_t seed, const uint8_t *at, uint32_t size) noexcept nogil:
    """Folded products, in the manner of wyhash: who does not know the seed cannot pick names that fall on one slot."""
    cdef uint64_t state = seed ^ (<uint64_t>size * <uint64_t>0x9e3779b97f4a7c15)
    while size >= 16:
        state = fold_product(word_at(at) ^ <uint64_t>0xa0761d6478bd642f ^ seed, word_at(at + 8) ^ state)
        at += 16
        size -= 16
    cdef uint64_t first = 0
    if size >= 8:
        first = word_at(at)
        at += 8
        size -= 8
    state = fold_product(first ^ <uint64_t>0xe7037ed1a0b428db ^ seed, short_word(at, size) ^ state)
    state = fold_product(state ^ <uint64_t>0x8ebc6af09c88c6e3, seed ^ <uint64_t>0x589965cc75374cc3)
    return <uint32_t>(state >> 32)


cdef struct Slot:
    uint32_t hash
    uint32_t ref  # 0: empty


cdef struct Slots:
    Slot *at
    uint32_t mask  # number of slots - 1; a power of two of them
    uint32_t used


cdef struct Index:
    Slots now
    Slots old        # at is NULL unless the index is growing
    uint32_t cursor  # the next old slot to move
    uint32_t ahead   # old slots not yet passed


ctypedef bint (*Match)(const Arena *arena, uint32_t ref, const void *key) noexcept nogil


cdef inline Slot *probe(const Slots *slots, uint32_t hash, const Arena *arena, Match match, const void *key) noexcept nogil:
    cdef uint32_t i = hash & slots.mask
    while slots.at[i].ref:
        if slots.at[i].hash == hash and match(arena, slots.at[i].ref, key):
            return &slots.at[i]
        i = (i + 1) & slots.mask
    return NULL


cdef inline Slot *index_find(const Index *x, uint32_t hash, const Arena *arena, Match match, const void *key) noexcept nogil:
    """The key's slot, good until the next change of the index; NULL: the key is not there."""
    cdef Slot *slot = NULL
    if x.now.at != NULL:
        slot = probe(&x.now, hash, arena, match, key)
    if slot == NULL and x.old.at != NULL:
        slot = probe(&x.old, hash, arena, match, key)
    return slot


cdef inline void index_prefetch(const Index *x, uint32_t hash) noexcept nogil:
    """Have the memory bring a key's slot while something else is done."""
    if x.now.at != NULL:
        prefetch(&x.now.at[hash & x.now.mask])
    if x.old.at != NULL:
        prefetch(&x.old.at[hash & x.old.mask])


cdef inline uint32_t index_guess(const Index *x, uint32_t hash) noexcept nogil:
    """The record that a key probably has, judged by one slot alone; 0: no guess."""
    if x.now.at == NULL:
        return 0
    cdef const Slot *slot = &x.now.at[hash & x.now.mask]
    return slot.ref if slot.hash == hash else 0


cdef inline void put_slot(Slots *slots, uint32_t hash, uint32_t ref) noexcept nogil:
    cdef uint32_t i = hash & slots.mask
    while slots.at[i].ref:
        i = (i + 1) & slots.mask
    slots.at[i].hash = hash
    slots.at[i].ref = ref
    slots.used += 1


cdef void move_slots(Index *x) noexcept nogil:
    """Move some old slots over. A run is moved whole: a lookup stops at an empty slot, so a run must never be cut."""
    cdef uint32_t budget = MOVES_PER_CHANGE
    cdef Slot *slot
    while x.ahead and (budget or x.old.at[x.cursor].ref):
        slot = &x.old.at[x.cursor]
        if slot.ref:
            put_slot(&x.now, slot.hash, slot.ref)
            slot.ref = 0
        if budget:
            budget -= 1
        x.cursor = (x.cursor + 1) & x.old.mask
        x.ahead -= 1
    if x.ahead == 0:
        free(x.old.at)
        x.old.at = NULL


cdef bint grow_index(Index *x) noexcept nogil:
    """Begin to move to twice the slots. They are not touched here: the system hands out zeroed memory page by page, as it is used."""
    cdef uint32_t count = (x.now.mask + 1) * 2 if x.now.at != NULL else SLOTS_MIN
    cdef Slot *fresh = <Slot *>calloc(count, sizeof(Slot))
    if fresh == NULL:
        return False
    x.old = x.now
    x.now.at = fresh
    x.now.mask = count - 1
    x.now.used = 0
    if x.old.at != NULL:
        # Begin after an empty slot, at the border between two runs.
        x.cursor = 0
        while x.old.at[x.cursor].ref:
            x.cursor += 1
        x.ahead = x.old.mask + 1
    return True


cdef bint index_presize(Index *x, size_t keys) noexcept nogil:
    """Whether an index that was never used could be given room for so many keys at once."""
    cdef size_t count = SLOTS_MIN
    while (count >> 4) * FULL_NUMERATOR < keys:
        count *= 2
    x.now.at = <Slot *>calloc(count, sizeof(Slot))
    x.now.mask = <uint32_t>(count - 1)
    return x.now.at != NULL


cdef inline bint index_reserve(Index *x) noexcept nogil:
    """Whether one more key has room; moves a few slots if the index is growing."""
    if x.old.at != NULL:
        move_slots(x)
    if x.now.at != NULL and x.now.used + 1 <= ((x.now.mask + 1) >> 4) * FULL_NUMERATOR:
        return True
    # The moves of earlier changes always end the last growth before the next is due; a loop says so without trusting the sum.
    while x.old.at != NULL:
        move_slots(x)
    return grow_index(x)


cdef inline void index_put(Index *x, uint32_t hash, uint32_t ref) noexcept nogil:
    """Add a key that is not there, after ``index_reserve``."""
    put_slot(&x.now, hash, ref)


cdef inline void index_erase(Index *x, Slot *slot) noexcept nogil:
    """Empty a slot and close the gap, so that later keys of its run are still found."""
    cdef Slots *slots = &x.now
    if x.old.at != NULL and x.old.at <= slot <= x.old.at + x.old.mask:
        slots = &x.old
    cdef uint32_t gap = <uint32_t>(slot - slots.at)
    cdef uint32_t i = gap
    cdef uint32_t home
    while True:
        i = (i + 1) & slots.mask
        if slots.at[i].ref == 0:
            break
        home = slots.at[i].hash & slots.mask
        if ((i - home) & slots.mask) >= ((i - gap) & slots.mask):
            slots.at[gap] = slots.at[i]
            gap = i
    slots.at[gap].ref = 0
    slots.used -= 1


cdef inline Slot *index_slot(const Index *x, size_t i) noexcept nogil:
    """The i-th of ``index_slots`` slots, old ones last; may be empty."""
    cdef size_t now = <size_t>x.now.mask + 1 if x.now.at != NULL else 0
    return &x.now.at[i] if i < now else &x.old.at[i - now]


cdef inline size_t index_slots(const Index *x) noexcept nogil:
    cdef size_t count = <size_t>x.now.mask + 1 if x.now.at != NULL else 0
    return count + (<size_t>x.old.mask + 1 if x.old.at != NULL else 0)


cdef void drop_index(Index *x) noexcept nogil:
    free(x.now.at)
    free(x.old.at)
    x.now.at = NULL
    x.old.at = NULL
