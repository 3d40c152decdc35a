"""``snapshot save``: a backup of a running raft group, in one file.

Knows: the file's name and what is said of it. Must not know: how a backup travels, what is in it.
"""

from __future__ import annotations

import argparse
import os

from cluster.cli.backups import FILE_HELP, show
from cluster.cli.options import CLIENT, JSON, Option, Parser
from cluster.errors import UsageError

DESCRIPTION = """
Write a backup of a running raft group into FILE: the state after one entry of the log, taken from the raft leader, with a checksum.
It is written beside and renamed when it is whole. An existing FILE is replaced only with --force.

A backup is for the loss of all nodes; a node that was lost is replaced by an empty one, which copies everything from the others.
"""
EXAMPLE = """
examples:
  {prog} snapshot save /var/backups/tenure-1 --connect 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
  {prog} snapshot save last-resort --connect 127.0.0.1:7101 --any-node      (no majority: take what this node has)
"""


def declare(parser: Parser) -> None:
    parser.usage = f"{parser.prog} FILE --connect HOST:PORT [OPTIONS]"
    parser.add_argument("file", metavar="FILE", help=FILE_HELP)
    parser.add_options(
        (
            *CLIENT,
            Option("--any-node", "take the state of whichever node answers, which may lag behind the raft leader's"),
            Option("--force", "replace FILE if it exists"),
            JSON,
        )
    )


def execute(args: argparse.Namespace) -> int:
    from cluster.backup import decode
    from cluster.cli.door import open_coordinator
    from cluster.client.saving import fetch_backup
    from cluster.env import write_file

    if os.path.exists(args.file) and not args.force:
        raise UsageError(f"{args.file} exists", "name another file, or add --force to replace it")
    with open_coordinator(args, admin=True) as coordinator:
        data = fetch_backup(coordinator, any_node=bool(args.any_node), timeout_s=args.timeout)
    backup = decode(data, "what the node sent")
    write_file(args.file, data)
    show(args, backup, len(data))
    return 0
