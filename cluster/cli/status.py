"""``status``: members, raft leader, quorum and lag, as one node sees them.

Knows: the fields of a cluster status. Must not know: how it is found out.
"""

from __future__ import annotations

import argparse

from cluster.cli.options import CLIENT, JSON, Parser
from cluster.cli.output import duration, emit, emit_json, plain, table, yes_no

DESCRIPTION = """
Show the raft group: its members, the raft leader, whether it has a majority, and how far each member's log lags behind. Exits
with 0 only if a raft leader with a majority answered.
"""
EXAMPLE = """
examples:
  {prog} status --connect 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
  {prog} status --json | jq .leader        (with TENURE_CONNECT set)
"""


def declare(parser: Parser) -> None:
    parser.add_options((*CLIENT, JSON))


def execute(args: argparse.Namespace) -> int:
    from cluster.cli.door import open_coordinator
    from cluster.cli.main import EXIT_UNAVAILABLE

    with open_coordinator(args) as coordinator:
        status = coordinator.status()
    found = 0 if status.has_quorum and status.leader else EXIT_UNAVAILABLE
    if args.json:
        emit_json(plain(status))
        return found
    emit(
        f"cluster id    {plain(status.cluster_id) or 'not formed yet'}\n"
        f"raft leader   {status.leader or 'none'} (term {status.term})\n"
        f"quorum        {'yes' if status.has_quorum else 'no'}\n"
        f"cluster time  {duration(status.cluster_time)}\n"
        f"log           committed {status.commit_index}, applied {status.applied_index}\n"
        + (f"grants begin  {duration(status.grants_in)} from now, after a restore\n" if status.grants_in else "")
        + f"answered by   {status.node_id} ({status.role})\n\n"
    )
    members = plain(status.members)
    emit(
        table(
            ("member", "role", "connected", "match", "lag"),
            [(m["node_id"], m["role"], yes_no(m.get("connected")), m.get("match_index"), m.get("lag")) for m in members],
        )
    )
    return found
