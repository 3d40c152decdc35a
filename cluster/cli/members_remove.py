"""``members remove``: a node is a member of the raft group no longer.

Knows: the verb and what it promises. Must not know: how the log changes its members.
"""

from __future__ import annotations

import argparse

from cluster.cli.group import CHANGE, show_members
from cluster.cli.options import Parser

DESCRIPTION = """
Remove one node from the raft group, dead or alive, the raft leader too: another member leads then. A node that runs is told, and
stops. To be added again it needs an empty data directory. One change at a time.
"""
EXAMPLE = """
examples:
  {prog} members remove 127.0.0.1:7102 --connect 127.0.0.1:7101,127.0.0.1:7103
  {prog} members remove 127.0.0.1:7102 --connect 127.0.0.1:7101 --json
"""


def declare(parser: Parser) -> None:
    parser.usage = f"{parser.prog} NODE --connect HOST:PORT [OPTIONS]"
    parser.add_argument("node", metavar="NODE", help="its advertised address")
    parser.add_options(CHANGE)


def execute(args: argparse.Namespace) -> int:
    from cluster.cli.door import open_coordinator
    from cluster.client import checks

    checks.member(args.node)
    with open_coordinator(args, admin=True) as coordinator:
        coordinator.members.remove(args.node, timeout=args.timeout)
        show_members(args, coordinator, f"{args.node} was removed")
    return 0
