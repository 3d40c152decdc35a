"""Every limit of the product, by name.

Knows: numbers and their units. Must not know: who enforces them. The limits that ``apply`` sees are constants of format level 1 and
stand again in ``ext/cluster/_table.pyx``; a test compares the two.
"""

from typing import Final

# Of the replicated format: changing one needs a new format level.
NAME_MAX_BYTES: Final = 255
NODE_ID_MAX_BYTES: Final = 255
METADATA_MAX_BYTES: Final = 4096
ACQUIRE_ALL_MAX_NAMES: Final = 64
LEASE_MIN_MS: Final = 100
LEASE_MAX_MS: Final = 7 * 24 * 3600 * 1000
MAX_LEADERS_MAX: Final = 1024
SWEEP_MAX_PER_BATCH: Final = 1024
LEASES_MAX: Final = 1 << 24
LEASES_TEXT_MAX_BYTES: Final = 1 << 31
SESSIONS_MAX: Final = 1 << 20
RECORD_VALUE_MAX_BYTES: Final = 1 << 16
RECORDS_MAX: Final = 1 << 20
RECORDS_MAX_BYTES: Final = 1 << 26
RECORD_WRITES_KEPT: Final = 1 << 16
CANDIDATE_INFO_MAX_BYTES: Final = 4096
CANDIDATES_PER_NAME_MAX: Final = 1024
CANDIDATES_MAX: Final = 1 << 16
CANDIDATES_MAX_BYTES: Final = 1 << 26
STAMP_MAX_MS: Final = 1 << 53
TOKEN_MAX: Final = (1 << 53) - 1
# Of the numbers of events: more than will ever happen, so that a number above it is none.
EVENT_MAX: Final = 1 << 62
WALL_MAX_MS: Final = (1 << 32) * 1000 - 1

# Of clients: a part of the metadata.
WORKER_VERSION_MAX_BYTES: Final = 64

# Of one node.
FRAME_MAX_BYTES: Final = 1 << 20
# A page of leases, or all holders of one name, with the longest metadata.
REPLY_MAX_BYTES: Final = 8 << 20
INPUT_BUFFER_MAX_BYTES: Final = 16 << 20
PEER_FRAME_MAX_BYTES: Final = 8 << 20
# The longest names of as many members as there may be, twice.
HANDSHAKE_MAX_BYTES: Final = 12 << 10
HANDSHAKE_TIMEOUT_S: Final = 5.0
# What a stranger may send before TLS is established: certificate chains, mostly.
TLS_HANDSHAKE_MAX_BYTES: Final = 32 << 10
# Of all clients of one node together: what they have not read yet, and what they sent that is not complete or not looked at yet.
CLIENTS_OUTPUT_MAX_BYTES: Final = 64 << 20
CLIENTS_INPUT_MAX_BYTES: Final = 48 << 20
CONNECTIONS_MAX: Final = 10_000
UNAUTHENTICATED_MAX: Final = 1_000
WAIT_MAX_S: Final = 30 * 24 * 3600
SCHEDULE_EVERY_MIN_MS: Final = 100
SCHEDULE_EVERY_MAX_MS: Final = 366 * 24 * 3600 * 1000
SCHEDULE_JITTER_MAX_MS: Final = 24 * 3600 * 1000
REQUESTS_QUEUED_MAX: Final = 262_144
WAITERS_MAX: Final = 100_000
WAITERS_MAX_BYTES: Final = 64 << 20
# Acquisitions that will be refused because others wait, once what is under way is decided.
REFUSALS_QUEUED_MAX_BYTES: Final = 16 << 20
# Leases that all nodes must look at for the sets of names that are queued or under way: some 30 ms of one.
SET_LOOKS_QUEUED_MAX: Final = 1 << 20
OUTPUT_BUFFER_MAX_BYTES: Final = 16 << 20
PEER_OUTPUT_BUFFER_MAX_BYTES: Final = 64 << 20
BATCH_MAX_OPS: Final = 10_000
BATCH_MAX_BYTES: Final = 1 << 20
LEASES_PAGE_MAX: Final = 1_000
PAGES_QUEUED_MAX: Final = 1_000
# So little that what renews a lease waits behind four batches of records at most.
RECORD_WRITES_QUEUED_MAX_BYTES: Final = 4 << 20
RECORD_REPLIES_UNSENT_MAX_BYTES: Final = 4 << 20
CANDIDATE_REPLIES_UNSENT_MAX_BYTES: Final = 4 << 20
BACKUPS_MAX: Final = 1
BACKUP_PIECE_BYTES: Final = 1 << 20
# The newest events that a node keeps for those who watch, with what each batch of them costs; and how many of them one answer carries.
EVENTS_KEPT_MAX_BYTES: Final = 8 << 20
EVENTS_PAGE_MAX: Final = 500
WATCHERS_MAX: Final = 10_000
WAITER_UNHEARD_S: Final = 2.0
PEERS_MAX: Final = 15
MEMBERS_MAX: Final = 15
NODE_WEIGHT_MAX: Final = 1_000

# Of the raft group's rhythm, in seconds.
ELECTION_TIMEOUT_MIN_S: Final = 0.3
ELECTION_TIMEOUT_MAX_S: Final = 0.6
HEARTBEAT_S: Final = 0.075
CLOCK_DRIFT: Final = 0.01
