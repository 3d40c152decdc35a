"""``snapshot restore``: the data directory of a node of a new raft group, from a backup.

Knows: the options and what is said. Must not know: what a directory consists of.
"""

from __future__ import annotations

import argparse

from cluster.cli.backups import (
    FILE_HELP,
    GROUP,
    directory_of,
    disk_env,
    emit_beginning,
    members_of,
    read_backup,
    say_beginning,
)
from cluster.cli.options import JSON, Parser
from cluster.cli.output import emit_json

DESCRIPTION = """
Make the data directory of one node of a new raft group that begins with the state of a backup. Do so for each of its nodes, from the
same FILE and with the same members, and only then start them; the group forms when all of them are there.

The directory must be empty or missing. The options that name the node and its group are those of 'node'. All nodes of the old group must
have been stopped for good: those that are started again are refused, since the new group has another cluster id, but among themselves
they would go on granting.

Every lease and session of the backup is over. After the group has formed nothing is granted until the longest lease time ever in use has
passed: whoever was granted a name after the backup was made may run for so long. A lease time longer than any that the backup knows, used
after it was made, has to be named with --longest-lease, on every node the same. Tokens go on above all earlier ones.
"""
EXAMPLE = """
example, on each node with its own --listen:
  {prog} snapshot inspect /var/backups/tenure-1
  {prog} snapshot restore /var/backups/tenure-1 --listen 127.0.0.1:7101 --peers 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
  {prog} node --listen 127.0.0.1:7101 --peers 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
"""


def declare(parser: Parser) -> None:
    parser.usage = f"{parser.prog} FILE --listen HOST:PORT (--peers LIST | --single) [OPTIONS]"
    parser.add_argument("file", metavar="FILE", help=FILE_HELP)
    parser.add_options((*GROUP, JSON))


def execute(args: argparse.Namespace) -> int:
    from cluster import recovery
    from cluster.backup import begin_anew

    me, members = members_of(args)
    directory = directory_of(args, me)
    backup, _ = read_backup(args.file)
    beginning = begin_anew(backup, members, round(args.longest_lease * 1000))
    with disk_env() as env:
        recovery.begin(env, directory, beginning)
    said = say_beginning(beginning, directory)
    if args.json:
        emit_json(said)
    else:
        emit_beginning(said)
    return 0
