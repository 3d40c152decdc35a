"""``node``: run one node of a raft group until TERM or INT.

Knows: which options make a node, and signals. Must not know: what a node does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

from cluster.cli.options import (
    LOG_FORMAT,
    SECRET_FILE,
    TLS,
    Option,
    Parser,
    addresses,
    count,
    log_level,
    read_tls,
    seconds,
)
from cluster.cli.output import emit
from cluster.errors import CoordinationError, UsageError
from cluster.limits import NODE_WEIGHT_MAX

if TYPE_CHECKING:
    from cluster.address import Address
    from cluster.node import NodeConfig

# Its files, and its connections to the other nodes.
OWN_DESCRIPTORS = 256

DESCRIPTION = """
Run one node of a raft group. Start as many as --peers lists (three, usually); they form the group when all of them answer
for the first time. Afterwards a majority is enough. TERM or INT stops the node cleanly.
"""
EXAMPLE = """
example, each line in a terminal of its own:
  {prog} node --listen 127.0.0.1:7101 --peers 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
  {prog} node --listen 127.0.0.1:7102 --peers 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103
  {prog} node --listen 127.0.0.1:7103 --peers 127.0.0.1:7101,127.0.0.1:7102,127.0.0.1:7103

A node that others than this machine can reach needs --secret-file, on every node and client the same, or the three --tls-… files.
The secret protects the handshake, not what is sent after it; TLS protects both. docs/security.md shows how to make the files.
"""


def _address(text: str) -> Address:
    from cluster.address import Address

    return Address.parse(text)


OPTIONS = (
    Option(
        "--listen", "address to listen on, for nodes and clients alike", _address, required=True, metavar="HOST:PORT"
    ),
    Option(
        "--peers",
        "addresses of all nodes, separated by commas; this one may be among them",
        addresses,
        (),
        metavar="LIST",
    ),
    Option("--single", "be a raft group of one: nothing takes over when this node dies"),
    Option(
        "--advertise",
        "address under which the others reach this node, if it is not --listen",
        _address,
        metavar="HOST:PORT",
    ),
    Option("--data-dir", "directory for the journal [./tenure-data/ADDRESS]", str, metavar="DIR"),
    Option("--ephemeral", "keep nothing on disk: at each start a new incarnation that catches up first"),
    Option(
        "--durability",
        "what survives: power cuts (fsync) or only killed processes (process)",
        str,
        "fsync",
        choices=("fsync", "process"),
    ),
    SECRET_FILE,
    *TLS,
    Option("--insecure", "listen without a secret or TLS where others than this machine can connect"),
    Option(
        "--weight",
        "0 to 1000: of the nodes that have caught up, the heaviest shall lead the raft group",
        count(0, NODE_WEIGHT_MAX),
        1,
        metavar="W",
    ),
    Option(
        "--election-timeout",
        "seconds without a raft leader before a node stands for election; drawn between this and twice this",
        seconds(0.05, 60),
        0.3,
        metavar="S",
    ),
    LOG_FORMAT,
    log_level("info"),
)


def declare(parser: Parser) -> None:
    parser.add_options(OPTIONS)


def read_config(args: argparse.Namespace) -> NodeConfig:
    """The configuration that the options describe.

    Raises:
        UsageError: the options contradict each other.
    """
    from cluster.limits import HEARTBEAT_S
    from cluster.node import NodeConfig
    from cluster.secrets import NO_SECRETS

    if args.ephemeral and args.data_dir:
        raise UsageError("--ephemeral and --data-dir exclude each other", "an ephemeral node keeps nothing on disk")
    # A leader that is alive must be heard several times before anyone stands against it.
    heartbeat_s = min(HEARTBEAT_S, args.election_timeout / 4)
    return NodeConfig(
        listen=args.listen,
        peers=args.peers,
        advertise=args.advertise,
        data_dir=args.data_dir,
        ephemeral=bool(args.ephemeral),
        durability=args.durability,
        single=bool(args.single),
        secrets=args.secret_file or NO_SECRETS,
        tls=read_tls(args),
        insecure=bool(args.insecure),
        weight=args.weight,
        election_min_s=args.election_timeout,
        election_max_s=2 * args.election_timeout,
        heartbeat_s=heartbeat_s,
    )


def execute(args: argparse.Namespace) -> int:
    from cluster.env import new_loop
    from cluster.limits import CONNECTIONS_MAX, UNAUTHENTICATED_MAX
    from cluster.sockets import allow_descriptors

    config = read_config(args)
    allow_descriptors(CONNECTIONS_MAX + UNAUTHENTICATED_MAX + OWN_DESCRIPTORS)
    loop = new_loop()
    try:
        loop.run_until_complete(_serve(loop, config))
    except BlockingIOError:
        raise CoordinationError(
            f"the data directory {_directory(config)} is in use by another process",
            "stop that node first, or name another --data-dir",
        ) from None
    except PermissionError as error:
        raise CoordinationError(
            f"the data directory {_directory(config)} cannot be used: {error.strerror}",
            "make it readable and writable for this user, or name another --data-dir",
        ) from None
    finally:
        loop.close()
    return 0


def _directory(config: Any) -> str:
    return str(config.data_dir or os.path.join("tenure-data", str(config.advertise or config.listen)))


async def _serve(loop: asyncio.AbstractEventLoop, config: NodeConfig) -> None:
    from cluster.node import run_node

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    def ready() -> None:
        emit(f"tenure: node {config.listen} serves\n")

    try:
        await run_node(config, stop, ready)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
