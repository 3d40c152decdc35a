"""Options that come from the command line or, failing that, from the environment (``TENURE_<OPTION>``).

Knows: argparse, texts and their values. Must not know: what any command does with them; sockets, clocks, the protocol.
Bad input becomes ``UsageError`` here, in one line that names where the value came from.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cluster.errors import UsageError

if TYPE_CHECKING:
    from cluster.secrets import Secrets
    from cluster.tls import Tls

T = TypeVar("T")
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Option:
    """One option of one command.

    Attributes:
        flag: ``--lease-time``; the environment's name is derived from it.
        help: one sentence; the environment's name and the default are added to it.
        read: turns text into the value; raises UsageError or ValueError. None makes the option a switch.
        default: taken when neither the command line nor the environment names a value.
        required: whether a value must come from one of the two.
        metavar: what the help calls the value.
        choices: the only texts that are accepted, where there are such.
        named: the environment's name, where the derived one means something else to a command that runs under ``lock``.
    """

    flag: str
    help: str
    read: Callable[[str], Any] | None = None
    default: Any = None
    required: bool = False
    metavar: str = "VALUE"
    choices: tuple[str, ...] = ()
    named: str = ""

    @property
    def dest(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        return self.named or "TENURE_" + self.dest.upper()


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are UsageErrors: the caller prints one line and exits with 2.

    ``surplus``: what to do about words that are no options, where a command knows better than "unrecognized".
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self.options: list[Option] = []
        self.surplus = ""

    def error(self, message: str) -> NoReturn:
        surplus = message.removeprefix("unrecognized arguments: ")
        if self.surplus and surplus != message and not surplus.startswith("-"):
            raise UsageError(f"{surplus!r} is not expected here", self.surplus)
        raise UsageError(message, f"'{self.prog} --help' shows what is accepted")

    def add_options(self, options: Sequence[Option]) -> None:
        for option in options:
            self.options.append(option)
            text = f"{option.help} [{option.variable}"
            if option.default not in (None, "", ()):
                shown = f"{option.default:g}" if isinstance(option.default, float) else option.default
                text += f"; default: {shown}"
            text = (text + "]").replace("%", "%%")
            if option.read is None:
                self.add_argument(option.flag, action="store_true", default=None, help=text)
            else:
                metavar = "|".join(option.choices) or option.metavar
                self.add_argument(option.flag, default=None, metavar=metavar, help=text)

    def finish(self, found: argparse.Namespace, environ: Mapping[str, str] | None = None) -> argparse.Namespace:
        """Turn the texts into values, taking from the environment what the command line does not say.

        Raises:
            UsageError: naming the option or the variable, the text, and what is accepted.
        """
        environ = os.environ if environ is None else environ
        for option in self.options:
            given = getattr(found, option.dest)
            if given is not None:
                value = given if option.read is None else _read(option, given, option.flag)
            elif environ.get(option.variable, ""):
                # An empty variable is as good as none: that is how shells and unit files switch one off.
                value = _read(option, environ[option.variable], option.variable)
            elif option.required:
                raise UsageError(
                    f"{option.flag} is missing",
                    f"give {option.flag} {option.metavar} or set {option.variable}; '{self.prog} --help' shows an example",
                )
            else:
                value = option.default
            setattr(found, option.dest, value)
        return found


def _read(option: Option, text: str, source: str) -> Any:
    try:
        if option.choices and text not in option.choices:
            raise ValueError(f"it must be {' or '.join(option.choices)}")
        return switch(text) if option.read is None else option.read(text)
    except UsageError as error:
        raise UsageError(f"{source}: {error.detail}", error.hint) from None
    except ValueError as error:
        raise UsageError(f"{source} {text!r}: {error}", f"{option.flag}: {option.help}") from None


def switch(text: str) -> bool:
    """Read a switch from the environment."""
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("it must be 1 or 0")


def seconds(least: float = 0.0, most: float = math.inf) -> Callable[[str], float]:
    """A reader of durations in seconds, from ``least`` to ``most`` (both included)."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("it must be a number of seconds, such as 0.5 or 30") from None
        if not math.isfinite(value):
            raise ValueError("it must be a finite number of seconds")
        if not least <= value <= most:
            raise ValueError(f"it must be {_range(least, most)} seconds")
        return value

    return read


def _range(least: float, most: float) -> str:
    return f"at least {least:g}" if math.isinf(most) else f"between {least:g} and {most:.10g}"


def count(least: int, most: int) -> Callable[[str], int]:
    """A reader of whole numbers from ``least`` to ``most`` (both included)."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("it must be a whole number") from None
        if not least <= value <= most:
            raise ValueError(f"it must be between {least} and {most}")
        return value

    return read


def addresses(text: str) -> tuple[str, ...]:
    """Read a list of addresses, separated by commas; each is checked, repetitions are dropped."""
    from cluster.address import Address

    found: dict[str, None] = {}
    for part in text.split(","):
        if part.strip():
            found[str(Address.parse(part))] = None
    if not found:
        raise ValueError("it names no address")
    return tuple(found)


def read_secrets(path: str) -> Secrets:
    """Read a file with one secret for all roles, or with lines ``role: secret``.

    Raises:
        UsageError: the file cannot be read, or does not hold secrets. The message never shows what it holds.
    """
    from cluster.secrets import SECRETS_FILE_MAX_BYTES, parse_secrets

    try:
        with open(path, "rb") as file:
            text = file.read(SECRETS_FILE_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"secret file {path!r}: {error.strerror}", "name a file that this user may read") from None
    return parse_secrets(text, f"secret file {path!r}")


def read_tls(args: argparse.Namespace) -> Tls | None:
    """The three files of TLS, or None where none is named.

    Raises:
        UsageError: one or two of them are missing.
    """
    named = {option.flag: getattr(args, option.dest) for option in TLS}
    missing = [flag for flag, path in named.items() if path is None]
    if len(missing) == len(named):
        return None
    if missing:
        raise UsageError(f"{' and '.join(missing)} missing", "TLS needs all of --tls-cert, --tls-key and --tls-ca")
    from cluster.tls import Tls

    return Tls(args.tls_cert, args.tls_key, args.tls_ca)


LOG_FORMAT = Option("--log-format", "how logs look on stderr", str, "text", choices=("text", "json"))
JSON = Option("--json", "print JSON instead of text, one object")
SECRET_FILE = Option(
    "--secret-file",
    "file with the secret that nodes and clients share, or with a line 'role: secret' for each role",
    read_secrets,
    metavar="FILE",
)
TLS: tuple[Option, ...] = (
    Option("--tls-cert", "PEM file with this side's certificate; TLS is used where the three are given", str, metavar="FILE"),
    Option("--tls-key", "PEM file with the certificate's key, not encrypted", str, metavar="FILE"),
    Option("--tls-ca", "PEM file with the authority whose certificates are believed", str, metavar="FILE"),
)
CONNECT = Option(
    "--connect",
    "addresses of the nodes, separated by commas",
    addresses,
    required=True,
    metavar="HOST:PORT[,HOST:PORT]",
)
TIMEOUT = Option("--timeout", "seconds to look for an answer before giving up", seconds(0.05, 3600), 5.0, metavar="S")


def log_level(default: str) -> Option:
    """The option ``--log-level`` with a default that suits the command."""
    return Option(
        "--log-level", "least level that is logged", str, default, choices=("debug", "info", "warning", "error")
    )


CLIENT: tuple[Option, ...] = (CONNECT, SECRET_FILE, *TLS, TIMEOUT, LOG_FORMAT, log_level("error"))
