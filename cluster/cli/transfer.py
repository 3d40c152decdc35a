"""``transfer``: let another member lead the raft group.

Knows: the verb. Must not know: how leadership is handed over.
"""

from __future__ import annotations

import argparse

from cluster.cli.options import CLIENT, JSON, Parser
from cluster.cli.output import emit, emit_json

DESCRIPTION = """
Let another member lead the raft group: NODE, or the one whose log is furthest. Leases are not touched. Do it before you stop the
node that leads.
"""
EXAMPLE = """
examples:
  {prog} transfer --connect 127.0.0.1:7101,127.0.0.1:7102
  {prog} transfer 127.0.0.1:7102 --connect 127.0.0.1:7101 --json
"""


def declare(parser: Parser) -> None:
    parser.usage = f"{parser.prog} [NODE] --connect HOST:PORT [OPTIONS]"
    parser.add_argument("node", metavar="NODE", nargs="?", help="the advertised address of the member that shall lead")
    parser.add_options((*CLIENT, JSON))


def execute(args: argparse.Namespace) -> int:
    from cluster.cli.door import open_coordinator
    from cluster.client import checks

    if args.node is not None:
        checks.member(args.node)
    with open_coordinator(args, admin=True) as coordinator:
        coordinator.transfer_leadership(args.node)
        # Answered by the new raft leader.
        leader = next((member.node_id for member in coordinator.members.list() if member.role == "leader"), None)
    if args.json:
        emit_json({"leader": leader})
    else:
        emit(f"raft leader   {leader or 'none'}\n")
    return 0
