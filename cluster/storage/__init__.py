"""What a node must remember: term and vote, the log, snapshots; in files or in memory.

Knows: the names of this package. Must not know: the engine that uses them.
"""

from cluster.storage.damage import StorageDamaged
from cluster.storage.journal import Journal
from cluster.storage.meta import Meta
from cluster.storage.record import Entry
from cluster.storage.snapshots import Snapshot, SnapshotStore
from cluster.storage.storage import Durability, Storage, open_storage

__all__ = [
    "Durability",
    "Entry",
    "Journal",
    "Meta",
    "Snapshot",
    "SnapshotStore",
    "Storage",
    "StorageDamaged",
    "open_storage",
]
