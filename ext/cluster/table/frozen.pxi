# A copy of a table for writing a snapshot while the table goes on. Included by _table.pyx.
#
# What a snapshot reads is copied as it lies: chunks of records and slots of the two indexes, some 100 bytes a lease at the speed of
# memory; what records say is shared, not copied. The slow part, sorting and writing, is done from the copy, on another thread, without the interpreter's lock.

from libc.stdlib cimport calloc, malloc
from libc.string cimport memcpy, memset


cdef bint copy_slots(const Slots *source, Slots *copy) noexcept nogil:
    cdef size_t size
    if source.at == NULL:
        return True
    size = (<size_t>source.mask + 1) * sizeof(Slot)
    copy.at = <Slot *>malloc(size)
    if copy.at == NULL:
        return False
    memcpy(copy.at, source.at, size)
    return True


cdef bint copy_index(const Index *source, Index *copy) noexcept nogil:
    return copy_slots(&source.now, &copy.now) and copy_slots(&source.old, &copy.old)


cdef bint copy_arena(const Arena *source, Arena *copy) noexcept nogil:
    cdef size_t size = <size_t>CHUNK_UNITS * UNIT_BYTES
    cdef uint32_t i
    copy.chunk_count = 0
    copy.chunks = <uint8_t **>calloc(source.chunk_count + 1, sizeof(uint8_t *))
    if copy.chunks == NULL:
        return False
    for i in range(source.chunk_count):
        if i + 1 == source.chunk_count:
            size = <size_t>source.used * UNIT_BYTES
        copy.chunks[i] = <uint8_t *>malloc(size + 1)
        if copy.chunks[i] == NULL:
            return False
        copy.chunk_count += 1
        memcpy(copy.chunks[i], source.chunks[i], size)
    return True


cdef bint copy_for_snapshot(const Table *source, Table *copy) noexcept nogil:
    """False: no memory. Either way ``drop_table`` frees what the copy has."""
    copy[0] = source[0]
    memset(&copy.arena, 0, sizeof(Arena))
    copy.names.now.at = copy.names.old.at = NULL
    copy.sessions.now.at = copy.sessions.old.at = NULL
    copy.keys.now.at = copy.keys.old.at = NULL
    copy.writes.now.at = copy.writes.old.at = NULL
    copy.rosters.now.at = copy.rosters.old.at = NULL
    memset(&copy.deadlines, 0, sizeof(Heap))
    memset(&copy.session_ends, 0, sizeof(Heap))
    memset(&copy.replies, 0, sizeof(Buffer))
    memset(&copy.events, 0, sizeof(Buffer))
    if not (
        copy_arena(&source.arena, &copy.arena)
        and copy_index(&source.names, &copy.names)
        and copy_index(&source.sessions, &copy.sessions)
        and copy_index(&source.rosters, &copy.rosters)
    ):
        return False
    if not copy_index(&source.keys, &copy.keys):
        # What is not owned must not be given up with the copy.
        drop_index(&copy.keys)
        return False
    own_contents(copy)
    return True


@cython.final
cdef class FrozenTable:
    """The state of a ``LeaseTable`` at one moment. Made by its ``freeze``; calling it gives the snapshot, on any thread."""

    cdef Table table

    def __cinit__(self):
        memset(&self.table, 0, sizeof(Table))

    def __dealloc__(self):
        drop_table(&self.table)

    def __reduce__(self):
        raise TypeError("a FrozenTable is not pickled or copied: call it for its bytes")

    def __call__(self):
        """The bytes that ``LeaseTable.snapshot`` would have given at the moment of ``freeze``. Raises MemoryError.

        Cost: some 150 ns a lease, nearly all of it without the interpreter's lock.
        """
        return write_snapshot(&self.table)
