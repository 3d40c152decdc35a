# The queue between connections and the log. Included by _wire.pyx.


@cython.final
cdef class Intake:
    """Operations that wait for the next batch, in the order in which they came, with the way back for each answer.

    One per node, on its loop's thread. Queued operations keep no Python object alive.

    Args:
        level: format level written into each batch, 1 to 255.
        max_ops: operations in one batch, at least 1.
        max_bytes: bytes of one batch, header included; an operation that is bigger by itself goes alone.
        queue_max: operations queued at which new work (ACQUIRE, SESSION_OPEN) is diverted; everything else is taken up to twice that.
            The queue's bytes are bounded likewise, by ``max(queue_max * 256, max_bytes)`` and twice that.

    Attributes:
        epoch: requests that name another epoch are diverted; 0 diverts everything. Entering one (not 0) while requests of an earlier
            one are queued raises RuntimeError.
        waited: names for which someone waits; an ACQUIRE of one of them is diverted, so that it cannot overtake.

    Raises:
        ValueError: when an argument is out of its range.
    """

    def __cinit__(self, int level, Py_ssize_t max_ops, Py_ssize_t max_bytes, Py_ssize_t queue_max):
        if not 1 <= level <= 255 or max_ops < 1 or max_bytes < 1 or queue_max < 1:
            raise ValueError("level is 1 to 255; max_ops, max_bytes and queue_max are at least 1")
        if max_ops > 0x7fffffff or max_bytes > 0x7fffffff or queue_max > 0x7fffffff:
            raise ValueError("max_ops, max_bytes and queue_max are less than 2**31")
        self.level = level
        self.waited = set()
        self._max_ops = max_ops
        self._max_bytes = max_bytes
        self._queue_max = queue_max
        self._bytes_max = max(queue_max * AVERAGE_OP_BYTES, max_bytes)
        self._readers = {}
        self._generation = 1

    def __dealloc__(self):
        free(self._entries)
        free(self._bytes)

    @property
    def epoch(self) -> int:
        return self._epoch

    @epoch.setter
    def epoch(self, uint64_t epoch):
        # A request was taken because it named the epoch of its time. Sealed under a later one, a copy that slept in a stopped
        # node's socket could act; whoever leaves an epoch takes the queue out before entering the next.
        cdef Py_ssize_t i
        if epoch and epoch != self._epoch:
            for i in range(self._head, self._tail):
                if self._entries[i].kind == HOT:
                    raise RuntimeError(f"requests of an earlier epoch are queued at the begin of epoch {epoch}: take_all() first")
        self._epoch = epoch

    @property
    def queued(self) -> int:
        """Operations not yet sealed, without those that were dropped."""
        return self._tail - self._head - self._dead

    def add(self, bytes operation not None, int64_t ticket):
        """Queue one operation that took the slow path; its answer comes back under ``ticket``.

        Never refused for the queue's length: who calls has decided that already.

        Args:
            operation: one msgpack array, as docs/protocol.md has it.
            ticket: greater than 0.

        Raises:
            ValueError: if the ticket is not positive or the bytes are not exactly one array. Nothing was queued.
        """
        cdef Cursor c
        cdef Py_ssize_t size = PyBytes_GET_SIZE(operation)
        cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(operation)
        if ticket <= 0:
            raise ValueError(f"ticket {ticket} is not positive")
        c.at = data
        c.end = data + size
        # One operation that is not one value would make the table refuse every later one of its batch.
        if not _is_array(data, size) or not skip_value(&c) or c.at != c.end:
            raise ValueError("the operation is not exactly one msgpack array")
        self._append(0, <uint64_t>ticket, -1, SLOW, data, size)

    def seal(self, int64_t stamp_ms):
        """Take the oldest operations, at most one batch of them, under the present epoch.

        Args:
            stamp_ms: cluster time, written into the header.

        Returns:
            None when nothing is queued. What does not fit stays queued, in order.

        Cost: one copy of the operations' bytes, and 24 bytes of address for each.
        """
        cdef Py_ssize_t i = self._head
        cdef Py_ssize_t live = 0
        cdef Py_ssize_t size = HEADER_SIZE
        cdef Entry *entry
        cdef Sealed sealed
        cdef uint8_t *out
        while i < self._tail and live < self._max_ops:
            entry = &self._entries[i]
            if entry.kind != DEAD:
                if live and size + entry.size > self._max_bytes:
                    break
                live += 1
                size += entry.size
            i += 1
        if not live:
            self._consume(i, self._bytes_tail - self._bytes_head)
            return None
        sealed = self._take(i, live)
        sealed.batch = PyBytes_FromStringAndSize(NULL, size)
        out = <uint8_t *>PyBytes_AS_STRING(sealed.batch)
        out = _store_le(out, <uint64_t>self.level, 4)
        out = _store_le(out, <uint64_t>live, 4)
        out = _store_le(out, self._epoch, 8)
        out = _store_le(out, <uint64_t>stamp_ms, 8)
        self._consume(i, self._copy(out, i, size - HEADER_SIZE))
        return sealed

    def take_all(self):
        """Take everything that is queued, to refuse it: the result has no batch, since it must not be proposed. None when empty."""
        cdef Sealed sealed = None
        if self.queued:
            sealed = self._take(self._tail, self.queued)
        self._consume(self._tail, self._bytes_tail - self._bytes_head)
        return sealed

    def drop(self, int64_t conn_id):
        """Forget what this connection has queued and what is not yet sealed.

        Returns:
            How many operations were forgotten.

        Cost: linear in the connection's own queued operations, whoever else has queued how much.
        """
        cdef FrameReader reader = self._readers.pop(conn_id, None)
        cdef int64_t at
        cdef Py_ssize_t dropped = 0
        cdef Entry *entry
        if reader is None:
            return 0
        reader._listed = 0
        at = reader._last - self._base
        while at >= self._head:
            entry = &self._entries[at]
            if entry.kind == DEAD:
                break
            entry.kind = DEAD
            dropped += 1
            at = entry.prev - self._base
        self._dead += dropped
        return dropped

    def takes(self, bint new):
        """Whether the queue has room for one more operation by its own rule, for who decides about the slow path.

        Args:
            new: it asks for something that nobody has yet (ACQUIRE, SESSION_OPEN), rather than to keep, end or look at something.
        """
        return self._takes(NEW if new else KEEP, NULL, 0)

    cdef bint _takes(self, int kind, const uint8_t *name, uint32_t name_size) except -1:
        """Whether an operation of this kind may be queued now."""
        cdef Py_ssize_t factor = 2 if kind == KEEP else 1
        # Dropped entries count until a seal passes them: they still take memory.
        if self._tail - self._head >= factor * self._queue_max or self._bytes_tail - self._bytes_head >= factor * self._bytes_max:
            return False
        if kind == NAMED and self.waited:
            return PyBytes_FromStringAndSize(<const char *>name, name_size) not in self.waited
        return True

    cdef int _append(self, int64_t conn, uint64_t rid, int64_t prev, uint32_t kind, const uint8_t *data, Py_ssize_t size) except -1:
        cdef Entry *entry
        if self._tail == self._room or self._bytes_tail + size > self._bytes_room:
            self._make_room(size)
        entry = &self._entries[self._tail]
        entry.conn = conn
        entry.rid = rid
        entry.prev = prev
        entry.size = <uint32_t>size
        entry.kind = kind
        memcpy(self._bytes + self._bytes_tail, data, size)
        self._bytes_tail += size
        self._tail += 1
        return 0

    cdef int _make_room(self, Py_ssize_t size) except -1:
        """Room for one more operation: by moving the queue to the front if that frees at least half, by doubling otherwise."""
        cdef void *grown
        cdef Py_ssize_t room
        if self._head and self._head >= self._tail - self._head:
            memmove(self._entries, self._entries + self._head, (self._tail - self._head) * sizeof(Entry))
            self._base += self._head
            self._tail -= self._head
            self._head = 0
        if self._tail == self._room:
            room = max(64, 2 * self._room)
            grown = realloc(self._entries, room * sizeof(Entry))
            if grown == NULL:
                raise MemoryError()
            self._entries = <Entry *>grown
            self._room = room
        if self._bytes_head and self._bytes_head >= self._bytes_tail - self._bytes_head:
            memmove(self._bytes, self._bytes + self._bytes_head, self._bytes_tail - self._bytes_head)
            self._bytes_tail -= self._bytes_head
            self._bytes_head = 0
        if self._bytes_tail + size > self._bytes_room:
            room = max(4096, 2 * self._bytes_room, self._bytes_tail + size)
            grown = realloc(self._bytes, room)
            if grown == NULL:
                raise MemoryError()
            self._bytes = <uint8_t *>grown
            self._bytes_room = room
        return 0

    cdef Sealed _take(self, Py_ssize_t upto, Py_ssize_t live):
        """The addresses of the ``live`` operations before entry ``upto``."""
        cdef Sealed sealed = Sealed.__new__(Sealed)
        cdef Py_ssize_t i
        cdef Entry *entry
        cdef ReplyTo *to
        sealed._to = <ReplyTo *>malloc(live * sizeof(ReplyTo))
        if sealed._to == NULL:
            raise MemoryError()
        to = sealed._to
        for i in range(self._head, upto):
            entry = &self._entries[i]
            if entry.kind == DEAD:
                continue
            to.conn = entry.conn
            to.rid = entry.rid
            to.kind = entry.kind
            if sealed.count == 0 or to.conn != (to - 1).conn:
                sealed._runs += 1
            sealed.count += 1
            to += 1
        return sealed

    cdef Py_ssize_t _copy(self, uint8_t *out, Py_ssize_t upto, Py_ssize_t live_bytes) noexcept:
        """Copy the operations before entry ``upto``; returns the bytes that they took in the queue, dropped ones included."""
        cdef const uint8_t *at = self._bytes + self._bytes_head
        cdef Py_ssize_t i
        cdef Py_ssize_t size = 0
        if not self._dead:
            memcpy(out, at, live_bytes)
            return live_bytes
        for i in range(self._head, upto):
            if self._entries[i].kind != DEAD:
                memcpy(out, at + size, self._entries[i].size)
                out += self._entries[i].size
            size += self._entries[i].size
        return size

    cdef void _consume(self, Py_ssize_t upto, Py_ssize_t size) noexcept:
        """Remove the entries before ``upto`` and their ``size`` bytes."""
        cdef Py_ssize_t i
        if self._dead:
            for i in range(self._head, upto):
                if self._entries[i].kind == DEAD:
                    self._dead -= 1
        self._head = upto
        self._bytes_head += size
        if self._head != self._tail:
            return
        self._base += self._tail
        self._head = 0
        self._tail = 0
        self._bytes_head = 0
        self._bytes_tail = 0
        if self._room > QUEUE_KEPT_ENTRIES:
            free(self._entries)
            self._entries = NULL
            self._room = 0
        if self._bytes_room > QUEUE_KEPT_BYTES:
            free(self._bytes)
            self._bytes = NULL
            self._bytes_room = 0
        if self._readers:
            self._readers.clear()
            self._generation += 1
