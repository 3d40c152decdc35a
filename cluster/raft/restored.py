"""A node whose directory was begun with a state from before, until its group has formed.

Knows: by what such a directory is recognised. Must not know: where the state came from, how a group forms.

Its meta file names the members of the new group although no group has formed yet; its log is the one entry that stands for the state.
"""

from __future__ import annotations

from cluster.errors import UsageError
from cluster.raft.config import RaftConfig
from cluster.storage import Journal, Meta


def awaits_its_group(meta: Meta) -> bool:
    return bool(meta.formed) and not meta.joined


def is_untouched(meta: Meta, log: Journal) -> bool:
    """Whether this node has promised nothing since: no vote, no term, no entry."""
    return awaits_its_group(meta) and len(log) == 1 and meta.term == log[0][2] and meta.voted_for is None


def refuse_other_members(meta: Meta, config: RaftConfig) -> None:
    """Raises UsageError if the group that this state was restored for has other members than this node was told. Nothing was changed."""
    if awaits_its_group(meta) and sorted(meta.formed) != list(config.members):
        raise UsageError(
            f"the data directory of node {config.node_id} was restored for a raft group of {', '.join(sorted(meta.formed))}, "
            f"and the node was told of {', '.join(config.members)}",
            "start it with the members that it was restored for, or restore into another directory for these",
        )
