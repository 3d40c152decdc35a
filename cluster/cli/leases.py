"""``leases``: who holds what, and with ``--watch`` what happens then.

Knows: the fields of a lease's description and of its events. Must not know: how they are found out.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cluster.cli.options import CLIENT, JSON, Option, Parser, count
from cluster.cli.output import duration, emit, emit_json, plain, printable, table

if TYPE_CHECKING:
    from cluster.client import Coordinator, LeaseEvent, WatchGap

DESCRIPTION = """
List the live leases: name, slot, holder, token, how long each would last without a renewal, and which release of
its program the holder says it runs. A snapshot for people: never
decide by it whether to run.
"""
EXAMPLE = """
examples:
  {prog} leases --connect 127.0.0.1:7101 --prefix nightly/
  {prog} leases --connect 127.0.0.1:7101 --watch
  {prog} leases --connect 127.0.0.1:7101 --json | jq -r '.leases[].name'
"""


def declare(parser: Parser) -> None:
    parser.add_options(
        (
            *CLIENT,
            Option("--prefix", "only names that begin with this", str, "", metavar="TEXT"),
            Option("--watch", "then show, a line each, what happens to them, until interrupted"),
            Option("--after", "with --watch: no list, but what happened after this event", count(0, (1 << 63) - 1), metavar="N"),
            JSON,
        )
    )


def execute(args: argparse.Namespace) -> int:
    from cluster.cli.door import open_coordinator
    from cluster.client import checks
    from cluster.errors import UsageError

    checks.prefix(args.prefix)
    if args.after is not None and not args.watch:
        raise UsageError("--after is about --watch", "give both")
    with open_coordinator(args) as coordinator:
        if not args.watch:
            _show(coordinator, args)
            return 0
        # Begun before the list is made: what happens in between is in both.
        with coordinator.watch(args.prefix, after=args.after) as watch:
            if args.after is None:
                _show(coordinator, args)
            for told in watch:
                _tell(told, args)
                if told.kind == "gap":
                    _show(coordinator, args)
    return 0


def _show(coordinator: Coordinator, args: argparse.Namespace) -> None:
    found = sorted(coordinator.leases(args.prefix), key=lambda lease: (lease.name, lease.slot))
    if args.json:
        emit_json({"leases": plain(found)})
        return
    rows: list[tuple[Any, ...]] = [
        (lease.name, lease.slot, lease.node_id, lease.token, duration(lease.expires_in), duration(lease.age), lease.worker_version or "-")
        for lease in found
    ]
    text = table(("name", "slot", "holder", "token", "expires in", "held for", "version"), rows)
    emit(text + f"{len(rows)} lease{'' if len(rows) == 1 else 's'}\n")


def _tell(told: LeaseEvent | WatchGap, args: argparse.Namespace) -> None:
    if args.json:
        emit_json(plain(told))
    elif told.kind == "gap":
        emit(f"{told.sequence} gap: events after {told.after} are not known any more\n")
    else:
        why = f" ({told.reason})" if told.reason else ""
        emit(f"{told.sequence} {told.kind}{why} {told.name} slot={told.slot} token={told.token} holder={printable(told.node_id)}\n")
