# One connection's bytes, split into frames. Included by _wire.pyx.


@cython.final
cdef class FrameReader:
    """Splits one connection's bytes into frames and queues the hot ones.

    Args:
        intake: where hot operations go.
        conn_id: names the connection in ``Sealed.route`` and ``Intake.drop``; no two readers of an intake may share one.
        frame_max: longest frame accepted, in bytes after the length; 1 to 2**31 - 1.

    Memory: at most twice ``frame_max``, and no more than twice the bytes of the unfinished frame that really came.
    """

    def __cinit__(self, Intake intake not None, int64_t conn_id, Py_ssize_t frame_max):
        if not 1 <= frame_max <= 0x7fffffff:
            raise ValueError(f"frame_max {frame_max} is not 1 to 2**31 - 1")
        self._intake = intake
        self._key = conn_id
        self._conn = conn_id
        self._frame_max = frame_max
        self._last = -1

    def __dealloc__(self):
        free(self._part)

    @property
    def held(self) -> int:
        """Bytes of memory taken for an unfinished frame."""
        return self._part_room

    def feed(self, bytes data not None):
        """Take the next bytes of the connection, cut wherever the network cut them.

        Returns:
            The payloads (without length) of the frames that are not for the hot path, in order. They may stand before or after hot
            operations of the same bytes; nothing is lost and nothing comes twice.

        Raises:
            WireError: a frame is empty or longer than ``frame_max``; also at every later call. Hot operations before it are queued,
                diverted ones of this call are not returned: close the connection.
        """
        cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef const uint8_t *end = at + PyBytes_GET_SIZE(data)
        cdef list diverted = []
        cdef Py_ssize_t size
        if self._broken:
            raise WireError("an earlier frame of this connection was refused")
        if self._part_size:
            at = self._finish(at, end, diverted)
        while end - at >= 4:
            size = self._check(load_u32(at))
            if end - at - 4 < size:
                break
            self._payload(at + 4, size, diverted)
            at += 4 + size
        if at < end:
            self._keep(at, end - at, end - at)
        return diverted

    cdef const uint8_t *_finish(self, const uint8_t *at, const uint8_t *end, list diverted) except NULL:
        """Complete the kept frame as far as the new bytes reach; returns where the rest of them begins."""
        cdef Py_ssize_t size
        cdef Py_ssize_t step
        if self._part_size < 4:
            step = min(4 - self._part_size, end - at)
            self._keep(at, step, 4)
            at += step
            if self._part_size < 4:
                return at
        size = self._check(load_u32(self._part))
        step = min(4 + size - self._part_size, end - at)
        self._keep(at, step, 4 + size)
        at += step
        if self._part_size == 4 + size:
            self._payload(self._part + 4, size, diverted)
            self._part_size = 0
            if self._part_room > PART_KEPT_BYTES:
                free(self._part)
                self._part = NULL
                self._part_room = 0
        return at

    cdef Py_ssize_t _check(self, uint32_t size) except -1:
        if size == 0 or size > self._frame_max:
            self._broken = True
            free(self._part)
            self._part = NULL
            self._part_size = 0
            self._part_room = 0
            raise WireError("an empty frame" if size == 0 else f"a frame of {size} bytes is longer than {self._frame_max}")
        return size

    cdef int _keep(self, const uint8_t *at, Py_ssize_t size, Py_ssize_t limit) except -1:
        """Append to the kept frame, which will have ``limit`` bytes at most."""
        cdef void *grown
        cdef Py_ssize_t room
        if self._part_size + size > self._part_room:
            # Twice what is there, so that a frame in many pieces is not copied once for each of them.
            room = max(self._part_size + size, min(2 * self._part_size, limit), 64)
            grown = realloc(self._part, room)
            if grown == NULL:
                raise MemoryError()
            self._part = <uint8_t *>grown
            self._part_room = room
        memcpy(self._part + self._part_size, at, size)
        self._part_size += size
        return 0

    cdef int _payload(self, const uint8_t *at, Py_ssize_t size, list diverted) except -1:
        """Queue the request in one payload, or divert the payload."""
        cdef Cursor c
        cdef Intake intake = self._intake
        cdef uint32_t arity
        cdef uint64_t rid
        cdef uint64_t epoch
        cdef const uint8_t *operation
        cdef const uint8_t *name = NULL
        cdef uint32_t name_size = 0
        cdef int kind
        c.at = at
        c.end = at + size
        if (read_array(&c, &arity) and arity == 3 and read_uint(&c, &rid) and rid
                and read_uint(&c, &epoch) and epoch and epoch == intake._epoch):
            operation = c.at
            kind = _classify(&c, &name, &name_size)
            if kind != OTHER and intake._takes(kind, name, name_size):
                intake._append(self._conn, rid, self._last, HOT, operation, c.end - operation)
                self._last = intake._base + intake._tail - 1
                if self._listed != intake._generation:
                    self._listed = intake._generation
                    intake._readers[self._key] = self
                return 0
        diverted.append(PyBytes_FromStringAndSize(<const char *>at, size))
        return 0
