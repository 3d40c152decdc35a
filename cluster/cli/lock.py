"""``lock``: run a command while holding a name, and never longer.

Knows: the lease's verbs, the guard's lines, signals, exit statuses. Must not know: how a lease is renewed or granted.

The command runs under a guard (``cluster/cli/guard.py``), a process of its own that knows the lease's deadline by the machine's clock.
So the command's process group is dead before the name can pass to another, even while this process is stopped, and after it was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import shutil
import signal
from typing import TYPE_CHECKING, Any

from cluster.cli.command import Command
from cluster.cli.main import EXIT_FAILURE, EXIT_NOT_GRANTED, complain
from cluster.cli.options import CLIENT, Option, Parser, count, seconds
from cluster.cli.output import printable
from cluster.env import boot_clock
from cluster.errors import CoordinationError, LeaseLostError, UsageError
from cluster.limits import LEASE_MAX_MS, LEASE_MIN_MS, WAIT_MAX_S

if TYPE_CHECKING:
    from cluster.client import AsyncLease, Coordinator

DESCRIPTION = """
Run COMMAND while holding NAME, so that of all who do the same only one runs at a time. COMMAND finds TENURE_NAME, TENURE_TOKEN
and TENURE_SLOT in its environment. The lease is extended for as long as COMMAND runs; should that fail, COMMAND's process group
gets TERM and then KILL before another can be granted NAME. What COMMAND leaves running in its process group is ended too.

exit status: COMMAND's (128 + n if signal n ended it); 75 NAME was not granted; 69 the nodes cannot be reached or have no
majority; 126, 127 COMMAND cannot be run; 1 the lease was lost although COMMAND says that it succeeded; 2 wrong usage.
"""
EXAMPLE = """
examples:
  {prog} lock nightly --connect 127.0.0.1:7101,127.0.0.1:7102 -- ./backup.sh --full
  {prog} lock nightly --wait 600 --lease-time 30 -- sh -c 'echo "I run with token $TENURE_TOKEN"'

INT, QUIT, USR1, USR2 and WINCH are passed on to COMMAND; after TERM or HUP it also gets KILL when --grace is over.
"""

OPTIONS = (
    *CLIENT,
    Option(
        "--lease-time",
        "seconds the name stays taken if this process can no longer renew it",
        seconds(LEASE_MIN_MS / 1000, LEASE_MAX_MS / 1000),
        60.0,
        metavar="S",
    ),
    Option("--wait", "seconds to stand in line for the name; 0 is one attempt", seconds(0, WAIT_MAX_S), 0.0, metavar="S"),
    Option("--max-leaders", "how many may hold the name at the same time", count(1, 1024), 1, metavar="N"),
    Option("--worker-version", "which release of COMMAND this is, for people: shown by leases", str, None, metavar="TEXT"),
    Option("--grace", "seconds between TERM and KILL when COMMAND has to end", seconds(0, 3600), 10.0, metavar="S"),
)
_PASSED_ON = (signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def declare(parser: Parser) -> None:
    parser.usage = f"{parser.prog} NAME --connect HOST:PORT [OPTIONS] -- COMMAND [ARGUMENT ...]"
    parser.surplus = "write the command after --: lock NAME … -- COMMAND"
    parser.add_argument("name", metavar="NAME", help="what must not run twice at the same time")
    parser.add_options(OPTIONS)


def execute(args: argparse.Namespace) -> int:
    from cluster.client import checks

    checks.name(args.name)
    if args.worker_version is not None:
        checks.worker_version(args.worker_version)
    if not args.rest:
        raise UsageError("there is no command to run", f"write it after --: lock {args.name} … -- COMMAND")
    if shutil.which(args.rest[0]) is None:
        complain(CoordinationError(f"{args.rest[0]!r} is not a program that can be run", "nothing was locked"), 0)
        return 126 if os.path.exists(args.rest[0]) else 127
    return asyncio.run(_lock(args))


async def _lock(args: argparse.Namespace) -> int:
    from cluster.cli.door import open_coordinator_async
    from cluster.client.values import WORKER_VERSION

    signals = _listen()
    opening = asyncio.ensure_future(open_coordinator_async(args))
    number = await _first(opening, signals)
    if number is not None:
        return 128 + number
    coordinator = opening.result()
    try:
        acquiring = asyncio.ensure_future(
            coordinator.aio.acquire(
                args.name,
                lease_time=args.lease_time,
                wait_time=args.wait,
                max_leaders=args.max_leaders,
                auto_extend=True,
                metadata=None if args.worker_version is None else {WORKER_VERSION: args.worker_version},
            )
        )
        number = await _first(acquiring, signals)
        if number is not None:
            return 128 + number
        lease = acquiring.result()
        if lease is None:
            return await _refused(coordinator, args)
        return await _run(lease, args, signals)
    finally:
        await coordinator.aio.close()


async def _first(work: asyncio.Future[Any], signals: asyncio.Queue[int]) -> int | None:
    """Wait for ``work``, or for a signal, which cancels it and is returned. What it brought all the same is given back."""
    number = asyncio.ensure_future(signals.get())
    await asyncio.wait({work, number}, return_when=asyncio.FIRST_COMPLETED)
    if not number.done():
        number.cancel()
        return None
    from cluster.client import AsyncLease, Coordinator

    work.cancel()
    await asyncio.wait({work})
    if not work.cancelled() and work.exception() is None:
        brought = work.result()
        if isinstance(brought, AsyncLease):
            await brought.release()
        elif isinstance(brought, Coordinator):
            await brought.aio.close()
    return number.result()


def _listen() -> asyncio.Queue[int]:
    """From now on, signals come through a queue. Those that were ignored (``nohup``) stay ignored."""
    signals: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    for number in (*_PASSED_ON, *_ENDING):
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, signals.put_nowait, int(number))
    # A holder that is suspended from the keyboard could not renew, and would lose the lease under a command that goes on.
    loop.add_signal_handler(signal.SIGTSTP, lambda: None)
    return signals


async def _refused(coordinator: Coordinator, args: argparse.Namespace) -> int:
    """Name the holder on stderr."""
    leader = None
    try:
        leader = (await coordinator.aio.state(args.name)).leader
    except CoordinationError:
        # Who holds it is a courtesy; that it was not granted is certain.
        leader = None
    who = f"held by {printable(leader.node_id)} (token {leader.token})" if leader is not None else "taken"
    waited = f" for {args.wait:g} s" if args.wait else ""
    hint = "--wait S stands in line" if not args.wait else "try again later, or wait longer"
    return complain(CoordinationError(f"{args.name!r} was not granted: {who}{waited}", hint), EXIT_NOT_GRANTED)


async def _run(lease: AsyncLease, args: argparse.Namespace, signals: asyncio.Queue[int]) -> int:
    """Run the command under ``lease``, then release it. Returns the exit status."""
    command = Command()
    lease_time = float(args.lease_time)
    kill_lead = min(0.5, lease_time / 10)
    try:
        # This process may have been stopped since the grant.
        lease.check()
        command.start(
            args.rest,
            {"TENURE_NAME": lease.name, "TENURE_TOKEN": str(lease.token), "TENURE_SLOT": str(lease.slot)},
            deadline=boot_clock() + lease.remaining(),
            # Renewals begin at a third of the lease; this leaves them the second third to succeed.
            term_lead=kill_lead + min(args.grace, lease_time / 3 - kill_lead),
            kill_lead=kill_lead,
            grace=args.grace,
        )
        status = await _attend(command, lease, signals, lease_time / 20)
    except (LeaseLostError, OSError) as error:
        # What of the command runs ends by the guard, in ``close``.
        status = complain(error, EXIT_FAILURE)
    finally:
        command.close()
    # The lease is given back only now, when nothing of the command runs any more.
    try:
        await lease.release()
    except CoordinationError as error:
        # How the command ended is known and counts.
        complain(CoordinationError(f"{error.detail}", f"{lease.name!r} becomes free when its lease runs out"), 0)
    return status


async def _attend(command: Command, lease: AsyncLease, signals: asyncio.Queue[int], look_s: float) -> int:
    """Between the start of the command and its end: move its deadline, pass signals on."""
    lost = False
    report = asyncio.ensure_future(command.reports.get())
    number = asyncio.ensure_future(signals.get())
    try:
        while True:
            await asyncio.wait({report, number}, timeout=min(0.25, look_s), return_when=asyncio.FIRST_COMPLETED)
            if number.done():
                (command.end if number.result() in _ENDING else command.send)(number.result())
                number = asyncio.ensure_future(signals.get())
            if report.done():
                words = report.result()
                report = asyncio.ensure_future(command.reports.get())
                if not words:
                    return _without_guard(command)
                if words[0] == "failed":
                    return _cannot_run(int(words[1]))
                if words[0] == "late":
                    raise LeaseLostError(f"the lease of {lease.name!r} was over before the command could be started")
                if words == ["ending", "lease"]:
                    lost = True
                    complain(
                        CoordinationError(
                            f"the lease of {lease.name!r} could not be renewed in time", "ending the command"
                        ),
                        0,
                    )
                if words[0] == "exited":
                    return _exit_status(int(words[1]), lost)
            if lost:
                continue
            try:
                lease.check()
                command.move_deadline(boot_clock() + lease.remaining())
            except LeaseLostError as error:
                # Revoked, say: the deadline that the guard knows is still the last moment, and the grace may be over before.
                lost = True
                command.end(signal.SIGTERM)
                complain(CoordinationError(error.detail, "ending the command"), 0)
    finally:
        report.cancel()
        number.cancel()


def _without_guard(command: Command) -> int:
    if not command.kill_orphan():
        raise CoordinationError(
            "the guard was killed and the command may still run", "the name stays taken until the lease runs out"
        )
    return complain(
        CoordinationError("the guard of the command was killed", "the command was killed with it"), EXIT_FAILURE
    )


def _exit_status(code: int, lost: bool) -> int:
    # A run that was cut short is no success, whatever the command made of its TERM.
    return EXIT_FAILURE if lost and code == 0 else code


def _cannot_run(number: int) -> int:
    complain(
        CoordinationError(f"the command cannot be run: {os.strerror(number)}", "nothing ran, the name is free again"), 0
    )
    return 127 if number == errno.ENOENT else 126
