"""``revoke``: an operator ends a lease that someone else holds.

Knows: the verb and what it promises. Must not know: how it travels.
"""

from __future__ import annotations

import argparse

from cluster.cli.options import CLIENT, JSON, Option, Parser, count
from cluster.cli.output import emit, emit_json

DESCRIPTION = """
End the lease of NAME. It cannot be extended any more and its holder is told; NAME is free when the holder gives it back, or at
the lease's deadline. With --force it is free at once, while its holder may still run: then nothing keeps two from running.
"""
EXAMPLE = """
examples:
  {prog} revoke nightly --connect 127.0.0.1:7101,127.0.0.1:7102
  {prog} revoke pool --slot 2 --force
"""


def declare(parser: Parser) -> None:
    parser.usage = f"{parser.prog} NAME --connect HOST:PORT [OPTIONS]"
    parser.add_argument("name", metavar="NAME", help="whose lease ends")
    parser.add_options(
        (
            *CLIENT,
            Option(
                "--slot",
                "only this slot of a leader group; every slot if not given",
                count(0, 1023),
                metavar="N",
                named="TENURE_REVOKE_SLOT",
            ),
            Option("--force", "free the name at once, although its holder may still run"),
            JSON,
        )
    )


def execute(args: argparse.Namespace) -> int:
    from cluster.cli.door import open_coordinator
    from cluster.client import checks

    checks.name(args.name)
    with open_coordinator(args, admin=True) as coordinator:
        number = coordinator.revoke(args.name, args.slot, force=bool(args.force))
    if args.json:
        emit_json({"name": args.name, "revoked": number})
    else:
        emit(f"{number} lease{'' if number == 1 else 's'} of {args.name} revoked\n")
    return 0
