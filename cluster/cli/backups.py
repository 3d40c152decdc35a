"""What the commands about backups share: reading a file, saying what is in it, whom a directory is made for.

Knows: files, text, the options that name a group. Must not know: the format, how a directory is filled.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cluster.cli.options import LOG_FORMAT, Option, addresses, log_level, seconds
from cluster.cli.output import duration, emit, emit_json
from cluster.errors import UsageError

if TYPE_CHECKING:
    from cluster.backup import Backup, Beginning
    from cluster.env import RealEnv

FILE_HELP = "the backup's file"


def read_backup(path: str) -> tuple[Backup, int]:
    """A verified backup, and the size of its file. Raises UsageError, BackupDamaged."""
    from cluster.backup import decode

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"backup {path!r}: {error.strerror}", "name a file that 'snapshot save' has written") from None
    return decode(data, path), len(data)


def show(args: argparse.Namespace, backup: Backup, size: int) -> None:
    """Say what is in a backup, as text or JSON."""
    from cluster.backup import describe

    said = describe(backup, size)
    if args.json:
        emit_json({"file": args.file, **said})
        return
    made = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(said["made_at"]))
    emit(
        f"backup        {args.file} ({size} bytes, checksum good)\n"
        f"made          {made} by {said['node_id']}\n"
        f"cluster id    {said['cluster_id'] or 'none'}\n"
        f"members       {', '.join(said['members'])}\n"
        f"log           up to index {said['index']}, term {said['term']}\n"
        f"cluster time  {duration(said['cluster_time'])}\n"
        f"leases        {said['leases']}, in {said['sessions']} sessions; the longest lease time was {duration(said['longest_lease'])}\n"
        f"records       {said['records']}, {said['record_bytes']} bytes of keys, names and values\n"
        f"next token    {said['next_token']}\n"
    )


# Whom a directory is made for: the same options as for ``node``, so that the two are given alike.
def _address(text: str) -> Any:
    from cluster.address import Address

    return Address.parse(text)


GROUP: tuple[Option, ...] = (
    Option("--listen", "address of the node that the directory is for", _address, required=True, metavar="HOST:PORT"),
    Option("--advertise", "address under which the others reach it, if it is not --listen", _address, metavar="HOST:PORT"),
    Option("--peers", "addresses of all nodes of the new group; this one may be among them", addresses, (), metavar="LIST"),
    Option("--single", "the new group is this node alone"),
    Option("--data-dir", "the directory [./tenure-data/ADDRESS]", str, metavar="DIR"),
    Option(
        "--longest-lease",
        "the longest lease time that was used since, in seconds, if it is longer than what the state knows",
        seconds(0.0, 604800.0),
        0.0,
        metavar="S",
    ),
    LOG_FORMAT,
    log_level("error"),
)


def members_of(args: argparse.Namespace) -> tuple[str, list[str]]:
    """The node's own address, and those of all members, this one too. Raises UsageError as ``node`` does."""
    me = str(args.advertise or args.listen)
    others = [peer for peer in args.peers if peer != me]
    if args.single and others:
        raise UsageError("--single and --peers exclude each other", "leave out one of them")
    if not others and not args.single:
        raise UsageError(f"node {me} has no peers", "give the addresses of the other nodes in --peers, or --single")
    return me, sorted({me, *others})


def directory_of(args: argparse.Namespace, me: str) -> str:
    """The data directory, by the rule of ``node``."""
    return str(args.data_dir or os.path.join("tenure-data", me.replace("unix:", "")))


@contextmanager
def disk_env() -> Iterator[RealEnv]:
    """An env for work on files alone."""
    from cluster.env import RealEnv, new_loop

    loop = new_loop()
    env = RealEnv(loop)
    try:
        yield env
    finally:
        env.close()
        loop.close()


def say_beginning(beginning: Beginning, directory: str) -> dict[str, Any]:
    """What is worth knowing of a directory that was made."""
    return {
        "data_dir": directory,
        "cluster_id": beginning.cluster_id.hex(),
        "members": list(beginning.members),
        "index": beginning.index,
        "term": beginning.term,
        "wait": beginning.wait_ms / 1000,
    }


def emit_beginning(said: dict[str, Any]) -> None:
    emit(
        f"data directory  {said['data_dir']}\n"
        f"cluster id      {said['cluster_id']} (new: nodes of the old group are refused)\n"
        f"members         {', '.join(said['members'])}\n"
        f"first grant     {duration(said['wait'])} after the group has formed: holders from before may run for so long\n"
    )
