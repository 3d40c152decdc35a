# From a batch's answers to what each connection must be sent. Included by _wire.pyx.


cdef inline bint _is_array(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    return size > 0 and ((data[0] & 0xf0) == 0x90 or data[0] == 0xdc or data[0] == 0xdd)


cdef inline Py_ssize_t _frame_size(uint64_t rid, Py_ssize_t answer_size) noexcept nogil:
    return 4 + 1 + _uint_size(rid) + answer_size


cdef inline uint8_t *_store_frame(uint8_t *out, uint64_t rid, const Slice *answer) noexcept nogil:
    """The frame ``[rid, answer]`` with its length prefix."""
    out = _store_be(out, <uint64_t>(_frame_size(rid, answer.size) - 4), 4)
    out = _store_be(out, 0x92, 1)
    out = _store_uint(out, rid)
    memcpy(out, answer.at, answer.size)
    return out + answer.size


cdef int _slice_answers(const uint8_t *data, Py_ssize_t size, bint same, Slice *answers, Py_ssize_t count) except -1:
    """Find ``count`` answers that fill ``data``; with ``same``, one answer that stands for all."""
    cdef Cursor c
    cdef Py_ssize_t i
    c.at = data
    c.end = data + size
    for i in range(count):
        answers[i].at = c.at
        if not _is_array(c.at, <Py_ssize_t>left(&c)) or not skip_value(&c):
            raise RuntimeError(f"answer {i} of {count} cannot be read")
        answers[i].size = c.at - answers[i].at
        if same:
            c.at = data
            if answers[i].size != size:
                raise RuntimeError("the answer is not exactly one msgpack array")
    if not same and c.at != c.end:
        raise RuntimeError(f"{c.end - c.at} bytes follow the last of {count} answers")
    return 0


cdef Py_ssize_t _group(ReplyTo *to, const Slice *answers, Py_ssize_t count, Output *outputs, uint32_t *table, int bits) noexcept:
    """Give each connection one output, in order of first appearance, and add up its size.

    ``table`` is zeroed, has ``2 ** bits`` places, at least twice the number of outputs: open addressing, an index + 1 in each taken place.
    """
    cdef Py_ssize_t i
    cdef Py_ssize_t outputs_count = 0
    cdef uint32_t mask = (<uint32_t>1 << bits) - 1
    cdef uint32_t place
    cdef uint32_t group = 0
    cdef bint known = False
    for i in range(count):
        if to[i].kind != HOT:
            continue
        if not known or outputs[group].conn != to[i].conn:
            place = <uint32_t>((<uint64_t>to[i].conn * <uint64_t>0x9e3779b97f4a7c15) >> (64 - bits))
            while table[place] and outputs[table[place] - 1].conn != to[i].conn:
                place = (place + 1) & mask
            if not table[place]:
                outputs[outputs_count].conn = to[i].conn
                outputs[outputs_count].size = 0
                outputs_count += 1
                table[place] = <uint32_t>outputs_count
            group = table[place] - 1
            known = True
        to[i].group = group
        outputs[group].size += _frame_size(to[i].rid, answers[i].size)
    return outputs_count


@cython.final
@cython.freelist(8)
cdef class Sealed:
    """A batch and the way back for each of its answers. Made by ``Intake`` only.

    Attributes:
        batch: header and operations, as the log carries them; empty from ``Intake.take_all``.
        count: operations in it.
    """

    def __cinit__(self):
        self.batch = b""

    def __dealloc__(self):
        free(self._to)

    def route(self, bytes replies not None):
        """Cut a batch's replies into what each connection is to be sent.

        Args:
            replies: as many msgpack arrays as the batch has operations, one after the other.

        Returns:
            ``(frames, answers)``: ``[(conn_id, complete reply frames)]``, each connection once, in order of first appearance; and
            ``[(ticket, answer)]`` of the slow-path operations, in order.

        Raises:
            RuntimeError: when there are too few answers, too many, or one that cannot be read. That is a fault of ours.
        """
        return self._deliver(<const uint8_t *>PyBytes_AS_STRING(replies), PyBytes_GET_SIZE(replies), False)

    def refuse(self, bytes answer not None):
        """The same answer for each operation; shape and errors as ``route``."""
        return self._deliver(<const uint8_t *>PyBytes_AS_STRING(answer), PyBytes_GET_SIZE(answer), True)

    cdef tuple _deliver(self, const uint8_t *replies, Py_ssize_t size, bint same):
        cdef int bits = 1
        while (<Py_ssize_t>1 << bits) < 2 * self._runs:
            bits += 1
        # One allocation for all scratch: answers, outputs, and the hash table of connections.
        cdef size_t answers_size = self.count * sizeof(Slice)
        cdef size_t outputs_size = self._runs * sizeof(Output)
        cdef size_t table_size = (<size_t>1 << bits) * sizeof(uint32_t)
        cdef uint8_t *scratch = <uint8_t *>malloc(answers_size + outputs_size + table_size)
        if scratch == NULL:
            raise MemoryError()
        cdef Slice *answers = <Slice *>scratch
        cdef Output *outputs = <Output *>(scratch + answers_size)
        cdef uint32_t *table = <uint32_t *>(scratch + answers_size + outputs_size)
        try:
            _slice_answers(replies, size, same, answers, self.count)
            memset(table, 0, table_size)
            return self._write(answers, outputs, _group(self._to, answers, self.count, outputs, table, bits))
        finally:
            free(scratch)

    cdef tuple _write(self, const Slice *answers, Output *outputs, Py_ssize_t outputs_count):
        cdef list frames = []
        cdef list slow = []
        cdef Py_ssize_t i
        cdef ReplyTo *to = self._to
        cdef Output *output
        cdef bytes data
        for i in range(outputs_count):
            data = PyBytes_FromStringAndSize(NULL, outputs[i].size)
            outputs[i].at = <uint8_t *>PyBytes_AS_STRING(data)
            frames.append((outputs[i].conn, data))
        for i in range(self.count):
            if to[i].kind == HOT:
                output = &outputs[to[i].group]
                output.at = _store_frame(output.at, to[i].rid, &answers[i])
            else:
                slow.append((to[i].rid, PyBytes_FromStringAndSize(<const char *>answers[i].at, answers[i].size)))
        return frames, slow
