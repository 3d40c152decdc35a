"""``members add``: a node becomes a member of the raft group.

Knows: the verb and what it promises. Must not know: how the log changes its members.
"""

from __future__ import annotations

import argparse

from cluster.cli.group import CHANGE, show_members
from cluster.cli.options import Parser

DESCRIPTION = """
Add one node to the raft group. Start it first, with an empty data directory and --peers naming some of the members: it waits. It is
sent the log, and becomes a member when it has caught up. One change at a time.
"""
EXAMPLE = """
examples:
  {prog} node --listen 127.0.0.1:7104 --peers 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
  {prog} members add 127.0.0.1:7104 --connect 127.0.0.1:7101
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
        coordinator.members.add(args.node, timeout=args.timeout)
        show_members(args, coordinator, f"{args.node} was added")
    return 0
