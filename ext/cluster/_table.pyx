# cython: auto_pickle=False, autotestdict=False
"""The lease table: the state machine that the log drives. Batches of operations in, answers and events out.

Knows: leases, sessions, tokens, records, cluster time, and the formats of ``docs/protocol.md``. Must not know: clocks, sockets, files, threads,
random numbers, Raft, who reads the answers.

The class below is the only thing that Python sees; everything behind it works on C structures, without a Python object per operation:

    table/numbers.pxi     limits and codes            table/lifecycle.pxi   beginning, hanging, ending, sweeping
    table/reading.pxi     msgpack in                  table/requests.pxi    operations out of bytes
    table/writing.pxi     msgpack out                 table/answers.pxi     answers into bytes
    table/arena.pxi       memory of the records       table/granting.pxi    ACQUIRE, ACQUIRE_ALL
    table/index.pxi       names and ids to records    table/operations.pxi  everything else
    table/heap.pxi        what ends next              table/batches.pxi     header, epoch, time
    table/records.pxi     leases, sessions, the table table/snapshot, frozen, restore, looking.pxi
    table/backup.pxi      what ends when a state is restored
    table/chains.pxi      occupants of a name that a state tells in another order
    table/keys.pxi        records, remembered writes  table/fenced.pxi      RECORD_PUT, RECORD_DELETE
    table/rosters.pxi     candidates by name          table/candidates.pxi  CANDIDATE_…, who may claim, counting
    table/rostering.pxi   candidates in snapshots and for readers

Invariants I1 to I7 of ``docs/architecture.md`` are cited where they are kept.
"""

cimport cython
from libc.string cimport memset

include "table/numbers.pxi"
include "table/reading.pxi"
include "table/writing.pxi"
include "table/arena.pxi"
include "table/index.pxi"
include "table/heap.pxi"
include "table/records.pxi"
include "table/keys.pxi"
include "table/lifecycle.pxi"
include "table/rosters.pxi"
include "table/requests.pxi"
include "table/answers.pxi"
include "table/candidates.pxi"
include "table/granting.pxi"
include "table/backup.pxi"
include "table/fenced.pxi"
include "table/operations.pxi"
include "table/batches.pxi"
include "table/snapshot.pxi"
include "table/frozen.pxi"
include "table/chains.pxi"
include "table/restore.pxi"
include "table/looking.pxi"
include "table/rostering.pxi"

LEVEL = FORMAT_LEVEL

LIMITS = {
    "NAME_MAX_BYTES": NAME_MAX_BYTES,
    "NODE_ID_MAX_BYTES": NODE_ID_MAX_BYTES,
    "METADATA_MAX_BYTES": METADATA_MAX_BYTES,
    "ACQUIRE_ALL_MAX_NAMES": ACQUIRE_ALL_MAX_NAMES,
    "LEASE_MIN_MS": LEASE_MIN_MS,
    "LEASE_MAX_MS": LEASE_MAX_MS,
    "MAX_LEADERS_MAX": MAX_LEADERS_MAX,
    "SWEEP_MAX_PER_BATCH": SWEEP_MAX_PER_BATCH,
    "LEASES_MAX": LEASES_MAX,
    "LEASES_TEXT_MAX_BYTES": LEASES_TEXT_MAX_BYTES,
    "SESSIONS_MAX": SESSIONS_MAX,
    "RECORD_VALUE_MAX_BYTES": RECORD_VALUE_MAX_BYTES,
    "RECORDS_MAX": RECORDS_MAX,
    "RECORDS_MAX_BYTES": RECORDS_MAX_BYTES,
    "RECORD_WRITES_KEPT": RECORD_WRITES_KEPT,
    "CANDIDATE_INFO_MAX_BYTES": CANDIDATE_INFO_MAX_BYTES,
    "CANDIDATES_PER_NAME_MAX": CANDIDATES_PER_NAME_MAX,
    "CANDIDATES_MAX": CANDIDATES_MAX,
    "CANDIDATES_MAX_BYTES": CANDIDATES_MAX_BYTES,
    "STAMP_MAX_MS": STAMP_MAX_MS,
    "TOKEN_MAX": TOKEN_MAX,
    "EVENT_MAX": EVENT_MAX,
    "WALL_MAX_MS": WALL_MAX_MS,
}

# Without a seed of its own, a table hashes like every other: who can choose names could then slow it down. Nothing else depends on it.
DEFAULT_SEED = 0x9e3779b97f4a7c15


cdef inline Text text_of(bytes data):
    cdef Text text
    text.at = <const uint8_t *><const char *>data
    text.size = <uint32_t>min(len(data), 0xffffffff)
    return text


cdef inline Text name_in(const Table *t, bytes name):
    cdef Text text = text_of(name)
    hash_name(t, &text)
    return text


cdef inline bytes bytes_in(const Buffer *b):
    return PyBytes_FromStringAndSize(<const char *>b.data, b.size)


@cython.final
cdef class LeaseTable:
    """Leases by name, moved by batches alone.

    Deterministic: equal batches give equal answers, events and snapshots on every node, whatever the seed. Not for use from two
    threads at once.

    Args:
        seed: 64 bits for the hash of names and ids. It shows in nothing that leaves the table; give one that outsiders cannot know.
        leases_max, text_max, sessions_max, sweep_max, records_max, records_bytes_max, writes_max, candidates_max,
            candidates_bytes_max: constants of the format. Only tests, which could not reach them, give others.
    """

    cdef Table table

    def __cinit__(self, *, seed=DEFAULT_SEED, uint32_t leases_max=LEASES_MAX, uint64_t text_max=LEASES_TEXT_MAX_BYTES,
                  uint32_t sessions_max=SESSIONS_MAX, uint32_t sweep_max=SWEEP_MAX_PER_BATCH, uint32_t records_max=RECORDS_MAX,
                  uint64_t records_bytes_max=RECORDS_MAX_BYTES, uint32_t writes_max=RECORD_WRITES_KEPT,
                  uint32_t candidates_max=CANDIDATES_MAX, uint64_t candidates_bytes_max=CANDIDATES_MAX_BYTES):
        if leases_max > LEASES_MAX or text_max > LEASES_TEXT_MAX_BYTES or sessions_max > SESSIONS_MAX:
            raise ValueError(f"at most: leases_max {LEASES_MAX}, text_max {LEASES_TEXT_MAX_BYTES}, sessions_max {SESSIONS_MAX}")
        if records_max > RECORDS_MAX or records_bytes_max > RECORDS_MAX_BYTES or not 1 <= writes_max <= RECORD_WRITES_KEPT:
            raise ValueError(
                f"at most: records_max {RECORDS_MAX}, records_bytes_max {RECORDS_MAX_BYTES}, writes_max 1 to {RECORD_WRITES_KEPT}"
            )
        if candidates_max > CANDIDATES_MAX or candidates_bytes_max > CANDIDATES_MAX_BYTES:
            raise ValueError(f"at most: candidates_max {CANDIDATES_MAX}, candidates_bytes_max {CANDIDATES_MAX_BYTES}")
        init_table(&self.table, <uint64_t>(seed & 0xffffffffffffffff))
        self.table.leases_max = leases_max
        self.table.text_max = text_max
        self.table.sessions_max = sessions_max
        self.table.sweep_max = sweep_max
        self.table.records_max = records_max
        self.table.records_bytes_max = records_bytes_max
        self.table.writes_max = writes_max
        self.table.candidates_max = candidates_max
        self.table.candidates_bytes_max = candidates_bytes_max

    def __dealloc__(self):
        drop_table(&self.table)

    def __reduce__(self):
        raise TypeError("a LeaseTable is not pickled or copied: its snapshot() is what can leave the process")

    def apply(self, bytes batch not None):
        """Apply one batch.

        Args:
            batch: any bytes; see "Batches" in ``docs/protocol.md``.

        Returns:
            ``(replies, events)``: as many answers as the header counts operations, in order, and what happened, in order; each a msgpack
            array, one after the other.

        Raises:
            MemoryError: some of the batch may have been applied; the table is of no use any more.

        Invariants: I1 to I7, I10.
        Cost: linear in the batch, plus at most SWEEP_MAX_PER_BATCH expiries and the sessions that ended.
        """
        cdef Table *t = &self.table
        apply_batch(t, <const uint8_t *><const char *>batch, len(batch))
        if t.no_memory:
            raise MemoryError("no memory for a batch: some of it was applied, this table is of no use any more")
        return bytes_in(&t.replies), bytes_in(&t.events)

    def snapshot(self):
        """The whole state, in canonical bytes (I6). Cost: linear in leases and sessions."""
        return write_snapshot(&self.table)

    def freeze(self):
        """A copy of the state, to be called for its snapshot later and on another thread.

        Raises:
            MemoryError: the table is unchanged.

        Cost: a copy of the memory of all records, about 20 ms for a million leases.
        """
        cdef FrozenTable frozen = FrozenTable.__new__(FrozenTable)
        if not copy_for_snapshot(&self.table, &frozen.table):
            raise MemoryError("no memory for a copy of the table; the table is unchanged")
        return frozen

    def restore(self, bytes data not None):
        """Replace the state by that of a snapshot.

        Raises:
            ValueError: these bytes are not a snapshot of a level that this code knows; the state is unchanged.
            MemoryError: the state is unchanged.
        """
        cdef Table fresh
        cdef Loading loading
        init_table(&fresh, self.table.seed)
        keep_limits(&self.table, &fresh)
        memset(&loading, 0, sizeof(loading))
        loading.table = &fresh
        loading.cursor.at = <const uint8_t *><const char *>data
        loading.cursor.end = loading.cursor.at + len(data)
        if not load_snapshot(&loading):
            drop_table(&fresh)
            if loading.no_memory:
                raise MemoryError("no memory to restore a snapshot; the table is unchanged")
            raise ValueError(
                f"not a snapshot of a lease table of level {FORMAT_LEVEL} or below (unreadable or impossible at byte "
                f"{len(data) - <Py_ssize_t>(loading.cursor.end - loading.cursor.at)} of {len(data)}); the table is unchanged"
            )
        drop_table(&self.table)
        self.table = fresh

    @property
    def time_ms(self):
        """Cluster time T (I3)."""
        return self.table.time_ms

    @property
    def epoch(self):
        """Raft term of the leader whose batches are accepted (I3)."""
        return self.table.epoch

    @property
    def level(self):
        """Format level of the raft group. Above LEVEL, this code must not apply the next batch."""
        return self.table.level

    @property
    def next_token(self):
        """The token of the next grant (I2)."""
        return self.table.next_token

    @property
    def next_event(self):
        """The number of the next event. ``apply`` numbers its events from here on, one after the other; only INIT leaves numbers out."""
        return self.table.next_event

    @property
    def grants_from(self):
        """Nothing is granted before this cluster time; 0 if this state was never restored from a backup."""
        return self.table.grants_from

    @property
    def longest_ms(self):
        """The longest lease time ever in use."""
        return self.table.longest_ms

    @property
    def lease_count(self):
        """Leases that live, occupy their slot after an early end, or are over and not yet swept."""
        return self.table.lease_count

    @property
    def session_count(self):
        """Sessions that live."""
        return self.table.session_count

    @property
    def record_count(self):
        """Records that exist."""
        return self.table.record_count

    @property
    def record_bytes(self):
        """Bytes of their keys, bound names and values."""
        return self.table.record_bytes

    @property
    def candidate_count(self):
        """Candidates that stand, and those that have run out and were not pruned yet."""
        return self.table.candidate_count

    @property
    def candidate_bytes(self):
        """Bytes of their names, node ids and infos."""
        return self.table.candidate_bytes

    @property
    def memory_bytes(self):
        """What the table has taken from the system. It gives nothing back while it lives, but for buffers of unusual batches."""
        return memory_of(&self.table)

    @property
    def cluster_id(self):
        """16 bytes; empty until INIT."""
        return PyBytes_FromStringAndSize(<const char *>self.table.cluster_id, ID_BYTES if self.table.formed else 0)

    def next_deadline(self):
        """The earliest time at which a lease, an occupancy or a session ends, in ms; -1: there is none.

        At or before ``time_ms`` while something that is over waits to be swept.
        """
        return earliest_end(&self.table)

    def next_free(self, bytes name not None, int64_t max_leaders, int64_t now_ms):
        """When it is worth trying to acquire a name.

        Returns:
            0: at ``now_ms`` it would be granted. Otherwise the earliest time at which an occupant's occupancy ends (extensions aside), or
            before which nothing is granted at all.
        """
        cdef Text text = name_in(&self.table, name)
        return next_chance(&self.table, &text, max_leaders, later(now_ms, self.table.time_ms))

    def holds(self, bytes name not None, bytes acq_id not None, int64_t now_ms):
        """Whether the acquisition with this id holds the name at ``now_ms`` (alive, not merely occupying)."""
        cdef Text text = name_in(&self.table, name)
        cdef Slot *slot = find_name(&self.table, &text)
        cdef Standing standing
        cdef const char *id = acq_id
        if len(acq_id) != ID_BYTES or slot == NULL:
            return False
        look(&self.table, slot.ref, <const uint8_t *>id, 1, later(now_ms, self.table.time_ms), &standing)
        return standing.mine != 0

    def record(self, bytes key not None):
        """What a record says: ``(name, version, token, value)``, the name empty where it is bound to none; None: there is no such record."""
        cdef Text text = name_in(&self.table, key)
        return record_of(&self.table, &text)

    def candidates(self, bytes name not None, int64_t now_ms):
        """Who stands for a name at ``now_ms``, in the order of registration.

        Returns:
            ``(revision, last_token, [(node_id, info, registered, last_start, last_completion, successes, failures), …])``, times in ms of
            cluster time or None; ``(0, 0, [])`` where nobody stands.
        """
        cdef Text text = name_in(&self.table, name)
        return roster_of(&self.table, &text, later(now_ms, self.table.time_ms))

    def rows(self, bytes name not None, int64_t now_ms):
        """The occupants of a name at ``now_ms``, by slot, as rows of ``docs/protocol.md``."""
        cdef Text text = name_in(&self.table, name)
        return rows_of(&self.table, &text, later(now_ms, self.table.time_ms))

    def leaver(self, bytes name not None, int64_t now_ms):
        """The occupant of a name that leaves first (extensions aside), of equals the one with the smaller slot, as a row; None: there is none."""
        cdef Text text = name_in(&self.table, name)
        cdef Slot *slot = find_name(&self.table, &text)
        cdef int64_t now = later(now_ms, self.table.time_ms)
        cdef Standing standing
        if slot == NULL:
            return None
        look(&self.table, slot.ref, NULL, 1, now, &standing)
        return row_of(&self.table, standing.leaver, now) if standing.leaver else None

    def chain_length(self, bytes name not None):
        """How many leases have to be looked at when the name is asked for, live or not."""
        cdef Text text = name_in(&self.table, name)
        cdef Slot *slot = find_name(&self.table, &text)
        cdef Standing standing
        if slot == NULL:
            return 0
        look(&self.table, slot.ref, NULL, 1, self.table.time_ms, &standing)
        return standing.occupants + standing.leftovers

    def scan(self, bytes prefix not None, bytes after_name not None, int64_t after_slot, int64_t limit, int64_t now_ms):
        """One page of all occupants at ``now_ms``, by (name, slot).

        Args:
            prefix: only names that begin with it.
            after_name, after_slot: where the last page ended; an empty name: from the start.
            limit: rows in a page, at least 1.

        Returns:
            The rows, and whether there are more.

        Cost: linear in all leases, for each page.
        """
        cdef Text start = text_of(prefix)
        cdef Text after = text_of(after_name)
        cdef int64_t now = later(now_ms, self.table.time_ms)
        cdef Page page
        cdef size_t i
        memset(&page, 0, sizeof(page))
        page.limit = <size_t>min(max(limit, 1), <int64_t>self.table.lease_count + 1)
        page.refs = <uint32_t *>malloc(page.limit * sizeof(uint32_t))
        if page.refs == NULL:
            raise MemoryError("no memory for a page of leases; the table is unchanged")
        try:
            collect_page(&self.table, &start, &after, after_slot if after.size else -1, now, &page)
            order_page(&page, &self.table.arena)
            return [row_of(&self.table, page.refs[i], now) for i in range(page.size)], bool(page.more)
        finally:
            free(page.refs)
