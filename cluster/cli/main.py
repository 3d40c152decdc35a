"""From arguments to one command, and from its errors to one line and an exit status.

Knows: the names of the commands and what each exit status means. Must not know: what a command does. A command's module is imported
only when that command is called, so that ``--help`` stays quick.

Exit statuses: 0 done; 1 it failed; 2 the call itself is wrong; 69 the nodes cannot be reached or have no majority; 75 the lock was
not granted; 130 interrupted. ``lock`` exits with its command's status.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from cluster.cli.options import Parser
from cluster.cli.output import voice
from cluster.errors import CoordinationError, Indeterminate, Unavailable, UsageError

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_UNAVAILABLE = 69
EXIT_NOT_GRANTED = 75
EXIT_INTERRUPTED = 130

LAST_WORDS_S = 1.0

# One line each; the module of a command has the same name.
COMMANDS: dict[str, str] = {
    "demo": "three nodes on this machine, work led by one, the leader killed, the next takes over",
    "node": "run one node of a raft group",
    "lock": "run a command while holding a name",
    "status": "members, raft leader, quorum, lag",
    "leases": "who holds what",
    "revoke": "end a lease that someone else holds",
    "members": "who belongs to the raft group: list, add, remove",
    "transfer": "let another member lead the raft group",
    "snapshot": "save, inspect or restore a backup",
    "recover": "go on with a surviving node when the majority is lost for good",
}

# Commands of several actions; the module of an action is named after both.
ACTIONS: dict[str, dict[str, str]] = {
    "members": {
        "list": "who belongs to the raft group",
        "add": "add a node that was started with an empty data directory",
        "remove": "remove a node, dead or alive",
    },
    "snapshot": {
        "save": "write a backup of a running raft group into a file",
        "inspect": "verify a backup and say what is in it",
        "restore": "make the data directory of a node of a new raft group",
    },
}

_TOP_HELP = """\
usage: {prog} COMMAND [OPTIONS]

Leases and leader election among processes, by a Raft group of your own.

commands:
{commands}

options:
  -h, --help   show this, or with a command its help and an example
  --version    show the version

Start with '{prog} demo'. Every option can also come from the environment: --lease-time is TENURE_LEASE_TIME.
"""


def run(argv: Sequence[str], *, prog: str) -> int:
    """Run one command line; errors become one line on stderr. Returns the exit status."""
    _open_what_is_closed()
    try:
        return _run(list(argv), prog)
    finally:
        voice.finish(LAST_WORDS_S)


def _open_what_is_closed() -> None:
    """Give the place of a closed standard stream to nothing: else the next pipe or socket gets it, and takes what is said for its own."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one.
            found = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(found, True)
            setattr(sys, name, os.fdopen(found, "w" if number else "r"))


def _run(argv: list[str], prog: str) -> int:
    try:
        return _dispatch(argv, prog)
    except UsageError as error:
        return complain(error, EXIT_USAGE)
    except (Unavailable, Indeterminate) as error:
        return complain(error, EXIT_UNAVAILABLE)
    except CoordinationError as error:
        return complain(error, EXIT_FAILURE)
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except OSError as error:
        return complain(error, EXIT_FAILURE)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def complain(error: BaseException, status: int) -> int:
    """Say on stderr, in one line, what went wrong; returns ``status``. Neither raises nor waits, whatever has become of stderr."""
    if isinstance(error, CoordinationError):
        text = f"{error.detail}. {error.hint}" if error.hint else error.detail
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    else:
        text = str(error) or type(error).__name__
    voice.write("tenure: " + " ".join(text.split()) + "\n")
    return status


def _action(name: str, argv: list[str], prog: str) -> str:
    """Take the action of a command that has several off its arguments; empty if help was asked for, and given."""
    actions = ACTIONS[name]
    width = max(map(len, actions))
    listed = "\n".join(f"  {action:<{width}}   {text}" for action, text in actions.items())
    if argv and argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(f"usage: {prog} {name} ACTION [OPTIONS]\n\nactions:\n{listed}\n\nEach explains itself with --help.\n")
        return ""
    if not argv or argv[0] not in actions:
        said = f"there is no {name} {argv[0]!r}" if argv else f"{name} needs an action"
        raise UsageError(said, f"choose one of {', '.join(actions)}; '{prog} {name} --help' explains them")
    return argv.pop(0)


def _dispatch(argv: list[str], prog: str) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        commands = "\n".join(f"  {name:<{width}}   {text}" for name, text in COMMANDS.items())
        sys.stdout.write(_TOP_HELP.format(prog=prog, commands=commands))
        return 0 if argv else EXIT_USAGE
    if argv[0] == "--version":
        from importlib.metadata import version

        sys.stdout.write(f"tenure {version('tenure')}\n")
        return 0
    name = argv.pop(0)
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, 1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"there is no command {name!r}", f"{guess}'{prog} --help' lists the commands")
    if name in ACTIONS:
        action = _action(name, argv, prog)
        if not action:
            return 0
        name = f"{name} {action}"
    # A command's own arguments start after the first "--" and are none of ours.
    rest: list[str] | None = None
    if "--" in argv:
        at = argv.index("--")
        argv, rest = argv[:at], argv[at + 1 :]
    module: Any = importlib.import_module(f"cluster.cli.{name.replace(' ', '_')}")
    parser = Parser(
        prog=f"{prog} {name}",
        description=module.DESCRIPTION.strip(),
        epilog=module.EXAMPLE.replace("{prog}", prog).strip(),
    )
    module.declare(parser)
    found = parser.finish(parser.parse_args(argv))
    found.rest = rest
    if rest is not None and name != "lock":
        raise UsageError(f"{name} takes no command after --", f"'{prog} {name} --help' shows what is accepted")
    from cluster.cli.logs import configure

    # Between the loss of a lease and the end of its command there must be nothing to wait for; nor may whoever reads a node's log, or has
    # stopped to, stop its loop.
    configure(found.log_level, found.log_format, voice if name in ("lock", "node") else sys.stderr)
    status: int = module.execute(found)
    sys.stdout.flush()
    return status
