"""What the commands about members share.

Knows: their options, and how members are shown. Must not know: what is asked of the raft group.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from cluster.cli.options import CLIENT, JSON, TIMEOUT, Option, seconds
from cluster.cli.output import emit, emit_json, plain, table, yes_no

if TYPE_CHECKING:
    from cluster.client import Coordinator

CHANGE_TIMEOUT_S = 60.0

# A node that is added has something to copy first.
_WAITS = replace(TIMEOUT, default=CHANGE_TIMEOUT_S, read=seconds(0.05, 86_400))
CHANGE: tuple[Option, ...] = (*(_WAITS if option is TIMEOUT else option for option in CLIENT), JSON)


def show_members(args: argparse.Namespace, coordinator: Coordinator, done: str = "") -> None:
    """Print the members, below a line that says what was done."""
    members = coordinator.members.list(timeout=args.timeout)
    if args.json:
        emit_json({"members": plain(members)})
        return
    rows = [(m.node_id, m.role, m.weight, yes_no(m.voter), yes_no(m.connected), m.match_index, m.lag) for m in members]
    emit(f"{done}\n\n" if done else "")
    emit(table(("member", "role", "weight", "counts", "connected", "match", "lag"), rows))
