"""``leases``: who holds what, once or again and again.

Knows: the fields of a lease's description. Must not know: how they are found out.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any

from cluster.cli.options import CLIENT, JSON, Option, Parser, seconds
from cluster.cli.output import duration, emit, emit_json, plain, table

if TYPE_CHECKING:
    from cluster.client import Coordinator

DESCRIPTION = """
List the live leases: name, slot, holder, token, and how long each would last without a renewal. A snapshot for people: never
decide by it whether to run.
"""
EXAMPLE = """
examples:
  {prog} leases --connect 127.0.0.1:7101 --prefix nightly/
  {prog} leases --connect 127.0.0.1:7101 --watch --every 0.5
  {prog} leases --connect 127.0.0.1:7101 --json | jq -r '.leases[].name'
"""
_CLEAR = "\x1b[H\x1b[2J"


def declare(parser: Parser) -> None:
    parser.add_options(
        (
            *CLIENT,
            Option("--prefix", "only names that begin with this", str, "", metavar="TEXT"),
            Option("--watch", "show the list again and again until interrupted"),
            Option("--every", "seconds between two looks of --watch", seconds(0.1, 3600), 1.0, metavar="S"),
            JSON,
        )
    )


def execute(args: argparse.Namespace) -> int:
    from cluster.cli.door import open_coordinator
    from cluster.client import checks

    checks.prefix(args.prefix)
    with open_coordinator(args) as coordinator:
        while True:
            _show(coordinator, args)
            if not args.watch:
                return 0
            # For people: the option says how often.
            time.sleep(args.every)


def _show(coordinator: Coordinator, args: argparse.Namespace) -> None:
    found = sorted(coordinator.leases(args.prefix), key=lambda lease: (lease.name, lease.slot))
    if args.json:
        emit_json({"leases": plain(found)})
        return
    rows: list[tuple[Any, ...]] = [
        (lease.name, lease.slot, lease.node_id, lease.token, duration(lease.expires_in), duration(lease.age))
        for lease in found
    ]
    text = table(("name", "slot", "holder", "token", "expires in", "held for"), rows)
    if args.watch and sys.stdout.isatty():
        text = _CLEAR + text
    emit(text + f"{len(rows)} lease{'' if len(rows) == 1 else 's'}\n")
