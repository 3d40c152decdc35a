"""``members list``: who belongs to the raft group.

Knows: the verb. Must not know: how it is found out.
"""

from __future__ import annotations

import argparse

from cluster.cli.options import CLIENT, JSON, Parser

DESCRIPTION = """
Show the members of the raft group as the raft leader sees them: the weight with which each leads before others, whether it counts
(one that lost its data does not until it has caught up), whether it is connected, and how far its log lags behind. Nodes that are
joining or leaving are shown too.
"""
EXAMPLE = """
examples:
  {prog} members list --connect 127.0.0.1:7101,127.0.0.1:7102
  {prog} members list --connect 127.0.0.1:7101 --json
"""


def declare(parser: Parser) -> None:
    parser.add_options((*CLIENT, JSON))


def execute(args: argparse.Namespace) -> int:
    from cluster.cli.door import open_coordinator
    from cluster.cli.group import show_members

    with open_coordinator(args) as coordinator:
        show_members(args, coordinator)
    return 0
