"""``recover``: a new raft group from what one surviving node has, when the majority is lost for good.

Knows: which directory is read, which is made, and what the operator must be told. Must not know: what a directory consists of, how one
takes the place of another.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from cluster.cli.backups import GROUP, directory_of, disk_env, emit_beginning, members_of, say_beginning
from cluster.cli.options import JSON, Option, Parser
from cluster.cli.output import emit, emit_json
from cluster.directories import BEFORE, BESIDE, holds_anything, interrupted, refuse_fixed, replace, true_path
from cluster.errors import UsageError

if TYPE_CHECKING:
    from cluster.backup import Beginning
    from cluster.recovery import Survivor

DESCRIPTION = """
For when the majority of a raft group is lost for good, and with it the group. Makes of the data directory of one surviving node that of the
first node of a new group: of this node alone (--single), or of those in --peers. Without --yes it changes nothing, and says what this node
has. Run it so on every survivor, and recover the one with the greatest (term, index).

What may be lost: everything that the lost majority had acknowledged and this node had not received yet. So every lease and session is
over, and after the group has formed nothing is granted until the longest lease time ever in use has passed, as after a restore. If lost
nodes may still run, do not use it: there would be two groups that grant the same names.

The node must be stopped. Its directory is kept under its name and '.before-recover'. With --peers, --save writes a backup from which the
directories of the others are made ('snapshot restore FILE'); start the nodes when all have theirs.
"""
EXAMPLE = """
examples:
  {prog} recover --listen 127.0.0.1:7101 --single                 (only says what there is)
  {prog} recover --listen 127.0.0.1:7101 --single --yes
  {prog} recover --listen 127.0.0.1:7101 --peers 127.0.0.1:7101,127.0.0.1:7104,127.0.0.1:7105 --save survivor --yes
"""


def declare(parser: Parser) -> None:
    parser.usage = f"{parser.prog} --listen HOST:PORT (--single | --peers LIST --save FILE) [--yes] [OPTIONS]"
    parser.add_options(
        (
            *GROUP,
            Option("--save", "file for a backup of what this node has, for the other nodes of the new group", str, metavar="FILE"),
            Option("--yes", "do it: what the lost majority had and this node had not is lost"),
            JSON,
        )
    )


def execute(args: argparse.Namespace) -> int:
    from cluster import recovery
    from cluster.backup import begin_anew
    from cluster.storage.storage import open_disk

    me, members = members_of(args)
    directory = true_path(directory_of(args, me))
    _check(args, directory, members)
    with disk_env() as env:
        survivor = recovery.survey(env, directory, me)
        beginning = begin_anew(survivor.backup, members, round(args.longest_lease * 1000))
        if args.yes:
            _save(args, survivor)
            recovery.begin(env, directory + BESIDE, beginning)
            # A node that was started meanwhile keeps its directory; none is started in it from now on.
            disk = open_disk(env, directory)
            try:
                replace(directory)
            finally:
                disk.close()
    _say(args, survivor, beginning, directory)
    return 0


def _check(args: argparse.Namespace, directory: str, members: list[str]) -> None:
    """Raises UsageError, CoordinationError: nothing was changed."""
    if os.path.isdir(directory + BEFORE) and not holds_anything(directory):
        raise interrupted(directory)
    if not os.path.isdir(directory):
        raise UsageError(f"there is no data directory {directory!r}", "name the surviving node's with --data-dir")
    for taken in (directory + BEFORE, directory + BESIDE):
        if os.path.exists(taken):
            raise UsageError(f"{taken!r} exists, from an earlier recover", "move it away, if it is not needed any more")
    if args.yes and len(members) > 1 and not args.save:
        raise UsageError(
            "--save is missing: the other nodes of the new group need the same state",
            "give --save FILE, or recover with --single and let the others join afterwards",
        )
    if args.save and os.path.exists(args.save):
        raise UsageError(f"{args.save} exists", "name another file for --save")
    if args.yes:
        refuse_fixed(directory)


def _save(args: argparse.Namespace, survivor: Survivor) -> None:
    from cluster.backup import encode
    from cluster.env import write_file

    if args.save:
        write_file(args.save, encode(survivor.backup))


def _say(args: argparse.Namespace, survivor: Survivor, beginning: Beginning, directory: str) -> None:
    backup = survivor.backup
    said: dict[str, Any] = {
        "done": bool(args.yes),
        "found": {
            "index": backup.index,
            "last_term": survivor.last_term,
            "surely_committed": survivor.covered,
            "members": list(backup.members),
        },
        **say_beginning(beginning, directory),
    }
    if args.json:
        emit_json(said)
        return
    emit(
        f"found           a log up to index {backup.index} of term {survivor.last_term}, in a group of {', '.join(backup.members)}\n"
        f"may be lost     what the others acknowledged and this node had not received; entries after {survivor.covered} may never have\n"
        "                been acknowledged, and are kept\n"
    )
    emit_beginning(said)
    if args.yes:
        emit(f"kept            {directory + BEFORE}: the directory as it was\n")
        if args.save:
            # The new cluster id is made of it too.
            longest = f" --longest-lease {args.longest_lease}" if args.longest_lease else ""
            emit(f"next            'snapshot restore {args.save}{longest}' for each other member, then start them all\n")
    else:
        emit("nothing was changed; repeat it with --yes\n")
