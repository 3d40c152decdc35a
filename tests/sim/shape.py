"""What kind of system a seed plays: how many nodes, how small the limits.

Knows: which limits of the product can be made small, so that what is rare in years happens in seconds. Must not know: faults, checks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import cluster.node
import cluster.raft
from cluster.raft import leading, snapsend
from cluster.server import batcher
from cluster.storage import open_storage


@dataclass(frozen=True)
class Shape:
    """Attributes:
    nodes: members of the raft group.
    tracks: faults that may be under way at once.
    compact_bytes, tail_bytes: when the log is compacted, and what is kept behind a snapshot.
    piece_bytes: what one message carries of a snapshot.
    segment_bytes: size of a journal segment.
    batch_ops, queue_max: operations in one batch, and waiting for the next.
    append_entries: entries in one message to a follower.
    """

    nodes: int = 3
    tracks: int = 1
    compact_bytes: int = 64 << 20
    tail_bytes: int = 16 << 20
    piece_bytes: int = 256 << 10
    segment_bytes: int = 64 << 10
    batch_ops: int = 10_000
    queue_max: int = 262_144
    append_entries: int = 512


def drawn(rng: random.Random, nodes: int = 0) -> Shape:
    """Mostly small: three nodes or five, a log of a few entries."""
    compact = rng.choice([2_000, 6_000, 20_000, 64 << 20])
    return Shape(
        nodes=nodes or rng.choice([3, 3, 3, 5]),
        tracks=rng.choice([1, 2, 2, 3]),
        compact_bytes=compact,
        tail_bytes=rng.choice([0, compact // 8, compact // 2]),
        piece_bytes=rng.choice([200, 700, 256 << 10]),
        segment_bytes=rng.choice([8 << 10, 64 << 10]),
        batch_ops=rng.choice([10_000, 10_000, 2]),
        queue_max=rng.choice([262_144, 262_144, 6]),
        append_entries=rng.choice([512, 1]),
    )


@contextmanager
def dressed(shape: Shape) -> Iterator[None]:
    """Nodes that start meanwhile have these limits."""
    config = partial(cluster.raft.RaftConfig, compact_bytes=shape.compact_bytes, tail_bytes=shape.tail_bytes)
    storage = partial(open_storage, segment_bytes=shape.segment_bytes)
    with ExitStack() as stack:
        stack.enter_context(patch.object(cluster.raft, "RaftConfig", config))
        stack.enter_context(patch.object(cluster.node, "open_storage", storage))
        stack.enter_context(patch.object(snapsend, "PIECE_BYTES", shape.piece_bytes))
        stack.enter_context(patch.object(leading, "APPEND_MAX_ENTRIES", shape.append_entries))
        stack.enter_context(patch.object(batcher, "BATCH_MAX_OPS", shape.batch_ops))
        stack.enter_context(patch.object(batcher, "REQUESTS_QUEUED_MAX", shape.queue_max))
        yield
