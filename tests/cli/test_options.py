"""Options: from the command line, else from the environment, else the default; bad ones in one line that says what to do.

Knows: the parser. Must not know: the commands.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from cluster.cli.options import Option, Parser, addresses, count, read_secrets, seconds, switch
from cluster.errors import UsageError
from cluster.secrets import SECRETS_FILE_MAX_BYTES

pytestmark = pytest.mark.fast

LEASE = Option("--lease-time", "seconds of a lease", seconds(1, 100), 60.0)
JSON = Option("--json", "print JSON")
MODE = Option("--mode", "how", str, "fast", choices=("fast", "slow"))
CONNECT = Option("--connect", "where", addresses, required=True)


def parse(options: tuple[Option, ...], argv: list[str], environ: dict[str, str] | None = None) -> argparse.Namespace:
    parser = Parser(prog="t")
    parser.add_options(options)
    return parser.finish(parser.parse_args(argv), environ or {})


def test_the_command_line_wins_over_the_environment_and_that_over_the_default() -> None:
    assert parse((LEASE,), ["--lease-time", "2"], {"TENURE_LEASE_TIME": "3"}).lease_time == 2.0
    assert parse((LEASE,), [], {"TENURE_LEASE_TIME": "3"}).lease_time == 3.0
    assert parse((LEASE,), []).lease_time == 60.0


@pytest.mark.parametrize(("text", "value"), [("1", True), ("yes", True), ("0", False), ("", None), ("OFF", False)])
def test_a_switch_from_the_environment(text: str, value: bool | None) -> None:
    assert parse((JSON,), [], {"TENURE_JSON": text}).json is value


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert parse((LEASE,), [], {"TENURE_LEASE_TIME": ""}).lease_time == 60.0
    with pytest.raises(UsageError, match="--connect is missing"):
        parse((CONNECT,), [], {"TENURE_CONNECT": ""})


def test_a_bad_value_names_where_it_came_from() -> None:
    with pytest.raises(UsageError, match=r"TENURE_LEASE_TIME 'soon': it must be a number of seconds"):
        parse((LEASE,), [], {"TENURE_LEASE_TIME": "soon"})
    with pytest.raises(UsageError, match=r"--lease-time '-1': it must be between 1 and 100 seconds"):
        parse((LEASE,), ["--lease-time=-1"])
    with pytest.raises(UsageError, match=r"TENURE_JSON 'perhaps'"):
        parse((JSON,), [], {"TENURE_JSON": "perhaps"})
    with pytest.raises(UsageError, match=r"--mode 'odd': it must be fast or slow"):
        parse((MODE,), ["--mode", "odd"])


def test_a_missing_value_names_option_and_variable() -> None:
    with pytest.raises(UsageError, match=r"--connect is missing.*TENURE_CONNECT"):
        parse((CONNECT,), [])


def test_abbreviations_are_refused_since_they_change_meaning_with_new_options() -> None:
    with pytest.raises(UsageError, match="unrecognized arguments"):
        parse((LEASE,), ["--lease", "2"])


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "1m", "", "0x10"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="it must be"):
        seconds()(text)


@pytest.mark.parametrize("text", ["1.5", "many", "", "0", "17"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(ValueError, match="it must be"):
        count(1, 16)(text)


def test_addresses_are_checked_one_by_one_and_kept_once() -> None:
    assert addresses("a:1, [::1]:2,a:1,unix:/x") == ("a:1", "[::1]:2", "unix:/x")
    with pytest.raises(UsageError, match="has no port"):
        addresses("a:1,b")
    with pytest.raises(UsageError, match="has a zone, and means another machine on each"):
        addresses("[fe80::1%eth0]:1")
    with pytest.raises(ValueError, match="names no address"):
        addresses(" , ")


def test_a_secret_file_is_read_and_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef\n")
    assert read_secrets(str(path)).of_role("peer") == b"0123456789abcdef"
    path.write_text("hush")
    with pytest.raises(UsageError, match="holds 4 bytes") as caught:
        read_secrets(str(path))
    assert "hush" not in str(caught.value)
    with pytest.raises(UsageError, match="No such file"):
        read_secrets(str(tmp_path / "none"))


def test_a_secret_file_that_is_too_long_is_refused_and_never_cut(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    last = b"\nadmin: " + b"a" * 32
    fill = b"peer: " + b"p" * 16 + b"\n#"
    path.write_bytes(fill + b"#" * (SECRETS_FILE_MAX_BYTES - len(fill) - len(last)) + last)
    assert read_secrets(str(path)).of_role("admin") == b"a" * 32
    path.write_bytes(path.read_bytes() + b"a")
    with pytest.raises(UsageError, match=rf"secret' has more than {SECRETS_FILE_MAX_BYTES} bytes"):
        read_secrets(str(path))
    path.write_bytes(path.read_bytes() + b"a" * SECRETS_FILE_MAX_BYTES)
    with pytest.raises(UsageError, match="has more than"):
        read_secrets(str(path))


def test_switch_refuses_anything_else() -> None:
    with pytest.raises(ValueError, match="1 or 0"):
        switch("2")
