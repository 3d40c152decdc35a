"""Memory layout of the client hot path; what the classes do is in ``_wire.pyx``."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t


cdef struct Entry:
    # One operation in the queue. Its bytes follow those of the entry before it, so that a batch is one copy.
    int64_t conn    # the connection to answer; unused for a slow-path operation
    uint64_t rid    # the request id on that connection; the ticket of a slow-path operation
    int64_t prev    # sequence number of the same connection's operation before this one; -1 for none
    uint32_t size   # bytes of the operation
    uint32_t kind   # HOT, SLOW or DEAD


cdef struct ReplyTo:
    # Where one answer of a batch goes.
    int64_t conn
    uint64_t rid
    uint32_t kind   # HOT or SLOW
    uint32_t group  # scratch of route(): the index of the connection's output


cdef struct Slice:
    # One answer, in the bytes it came in.
    const uint8_t *at
    Py_ssize_t size


cdef struct Output:
    # What goes to one connection.
    int64_t conn
    Py_ssize_t size
    uint8_t *at     # where its next frame is written


cdef class Sealed
cdef class FrameReader


cdef class Intake:
    cdef readonly int level
    cdef public set waited
    cdef uint64_t _epoch
    cdef Py_ssize_t _max_ops
    cdef Py_ssize_t _max_bytes
    cdef Py_ssize_t _queue_max
    cdef Py_ssize_t _bytes_max   # bytes queued at which new work is diverted, whatever its count
    cdef Entry *_entries         # the live queue is _entries[_head:_tail]
    cdef Py_ssize_t _head
    cdef Py_ssize_t _tail
    cdef Py_ssize_t _room        # entries allocated
    cdef uint8_t *_bytes         # their operations are _bytes[_bytes_head:_bytes_tail]
    cdef Py_ssize_t _bytes_head
    cdef Py_ssize_t _bytes_tail
    cdef Py_ssize_t _bytes_room
    cdef Py_ssize_t _dead        # of the queue: entries whose connection was dropped
    cdef int64_t _base           # sequence number of _entries[0]; numbers are never used twice
    cdef dict _readers           # connection id -> reader, of those that queued something since the queue was last empty
    cdef uint64_t _generation    # counts the times that _readers was emptied

    cdef int _append(self, int64_t conn, uint64_t rid, int64_t prev, uint32_t kind, const uint8_t *data, Py_ssize_t size) except -1
    cdef int _make_room(self, Py_ssize_t size) except -1
    cdef bint _takes(self, int kind, const uint8_t *name, uint32_t name_size) except -1
    cdef Sealed _take(self, Py_ssize_t upto, Py_ssize_t live)
    cdef Py_ssize_t _copy(self, uint8_t *out, Py_ssize_t upto, Py_ssize_t live_bytes) noexcept
    cdef void _consume(self, Py_ssize_t upto, Py_ssize_t size) noexcept


cdef class Sealed:
    cdef readonly bytes batch
    cdef readonly Py_ssize_t count
    cdef ReplyTo *_to            # one for each operation, in order
    cdef Py_ssize_t _runs        # stretches of neighbours that go to one connection: an upper bound of the connections

    cdef tuple _deliver(self, const uint8_t *replies, Py_ssize_t size, bint same)
    cdef tuple _write(self, const Slice *answers, Output *outputs, Py_ssize_t outputs_count)


cdef class FrameReader:
    cdef Intake _intake
    cdef object _key             # the connection id as a Python object
    cdef int64_t _conn
    cdef Py_ssize_t _frame_max
    cdef uint8_t *_part          # the beginning of a frame whose end has not come yet
    cdef Py_ssize_t _part_size
    cdef Py_ssize_t _part_room
    cdef int64_t _last           # sequence number of this connection's last queued operation; -1 for none
    cdef uint64_t _listed        # the intake's generation in which this reader is in its _readers
    cdef bint _broken

    cdef const uint8_t *_finish(self, const uint8_t *at, const uint8_t *end, list diverted) except NULL
    cdef Py_ssize_t _check(self, uint32_t size) except -1
    cdef int _keep(self, const uint8_t *at, Py_ssize_t size, Py_ssize_t limit) except -1
    cdef int _payload(self, const uint8_t *at, Py_ssize_t size, list diverted) except -1
