"""``snapshot inspect``: is this file a whole backup, and of what?

Knows: nothing but files and text. Must not know: the format.
"""

from __future__ import annotations

import argparse

from cluster.cli.backups import FILE_HELP, read_backup, show
from cluster.cli.options import JSON, LOG_FORMAT, Parser, log_level

DESCRIPTION = """
Verify a backup's checksum, load its state once, and say what is in it. Nothing is connected to. Exits with 0 only if the backup can
be restored by this release.
"""
EXAMPLE = """
examples:
  {prog} snapshot inspect /var/backups/tenure-1
  {prog} snapshot inspect /var/backups/tenure-1 --json | jq .index
"""


def declare(parser: Parser) -> None:
    parser.usage = f"{parser.prog} FILE [OPTIONS]"
    parser.add_argument("file", metavar="FILE", help=FILE_HELP)
    parser.add_options((JSON, LOG_FORMAT, log_level("error")))


def execute(args: argparse.Namespace) -> int:
    backup, size = read_backup(args.file)
    show(args, backup, size)
    return 0
