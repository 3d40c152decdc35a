"""A raft group of real processes with TLS and a secret for each role, used from the command line: who may do what, what is said to whom
may not, and that no secret is in any log or error (G3, G6).

Knows: the command line. Must not know: the product's inside.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.tls import Tls
from tests.certificates import HOST, Authority, options
from tests.cli.support_cli import is_one_line, tenure
from tests.support_cluster import NodeGroup

SECRETS = {role: base64.b64encode(f"the {role} secret, 32 bytes of it".encode()).decode() for role in ("peer", "client", "admin")}


class Place:
    """A group, and the files of those who want something of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority(directory)
        self.node = self.authority.issue("node", HOST)
        self.client = self.authority.issue("client")
        self.everything = self._secrets("all", *SECRETS)
        self.operator = self._secrets("operator", "client", "admin")
        self.user = self._secrets("user", "client")
        self.said: list[str] = []
        access: dict[str, Any] = {"secret": {"client": SECRETS["client"]}, "tls": self.client}
        secured = ["--secret-file", self.everything, *options(self.node), "--log-level", "debug", "--durability", "process"]
        self.group = NodeGroup(directory, options=secured, **access)

    def _secrets(self, name: str, *roles: str) -> str:
        path = self.directory / f"{name}.secrets"
        path.write_text("".join(f"{role}: {SECRETS[role]}\n" for role in roles))
        return str(path)

    def run(self, *arguments: str, secrets: str | None = None, tls: Tls | None = None) -> tuple[int, str, str]:
        more = ["--secret-file", secrets] if secrets else []
        more += options(tls) if tls else []
        at = arguments.index("--") if "--" in arguments else len(arguments)
        line = [*arguments[:at], "--connect", self.group.endpoints, *more, *arguments[at:]]
        result = tenure(line, self.directory)
        self.said += [result.stdout, result.stderr]
        return result.returncode, result.stdout, result.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("secured"))
    with place.group:
        yield place


def test_each_role_may_do_its_own__G6(place: Place) -> None:
    assert place.run("lock", "job", "--", "true", secrets=place.user, tls=place.client)[0] == 0
    status, out, _ = place.run("status", "--json", secrets=place.user, tls=place.client)
    assert status == 0
    assert json.loads(out)["has_quorum"]
    status, out, err = place.run("revoke", "job", secrets=place.operator, tls=place.client)
    assert (status, out) == (0, "0 leases of job revoked\n"), err


def test_who_may_not_is_told_in_one_line__G6(place: Place) -> None:
    theirs = Authority(place.directory, "theirs").issue("client", ca=place.authority.ca)
    expired = place.authority.issue("expired", ends_in=timedelta(seconds=-60))
    wrong = place.directory / "wrong.secrets"
    wrong.write_text("hunter2hunter2hunter2hunter2")
    as_admin = place.directory / "pretender.secrets"
    as_admin.write_text(f"admin: {SECRETS['client']}\n")
    cases: list[tuple[tuple[str, ...], str | None, Tls | None, int, str]] = [
        (("status",), place.user, theirs, 1, "refused this side's TLS or certificate"),
        (("status",), place.user, expired, 1, "certificate expired"),
        (("status",), place.user, None, 1, "requires TLS"),
        (("status",), None, place.client, 1, "requires a secret"),
        (("status",), str(wrong), place.client, 1, "different secrets for the role client"),
        (("revoke", "job"), place.user, place.client, 2, "no secret for the role admin"),
        (("revoke", "job"), str(as_admin), place.client, 1, "different secrets for the role admin"),
    ]
    for arguments, secrets, tls, status, text in cases:
        returned, out, err = place.run(*arguments, "--timeout", "8", secrets=secrets, tls=tls)
        assert (returned, out) == (status, ""), err
        assert is_one_line(err), err
        assert text in err
    assert place.run("status", secrets=place.user, tls=place.client)[0] == 0, "the group is unharmed"


def test_no_secret_and_no_key_is_in_any_log_or_error__G3(place: Place) -> None:
    """After all of the above, at the most talkative level."""
    keys = [line for tls in (place.node, place.client) for line in Path(tls.key).read_text().splitlines() if "-----" not in line]
    hidden = [*SECRETS.values(), *(secret.encode().hex() for secret in SECRETS.values()), "hunter2", *keys]
    logs = [node.log() for node in place.group.nodes]
    assert all("handshake.refused" in log for log in logs) or len("".join(logs)) > 1000
    for text in (*logs, *place.said):
        assert not [secret for secret in hidden if secret in text]
        assert "Traceback" not in text


def test_the_environment_says_the_same(place: Place) -> None:
    variables = {
        "TENURE_CONNECT": place.group.endpoints,
        "TENURE_SECRET_FILE": place.user,
        "TENURE_TLS_CERT": place.client.cert,
        "TENURE_TLS_KEY": place.client.key,
        "TENURE_TLS_CA": place.client.ca,
    }
    result = tenure(["status"], place.directory, env=variables)
    assert result.returncode == 0, result.stderr
