"""The secrets of a raft group: one for all roles, or one for each.

Knows: roles, and how a secret is written down. Must not know: files, how a secret is proven. No text of an object or error here shows one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cluster.errors import UsageError

ROLES: Final = ("peer", "client", "admin")
SECRET_MIN_BYTES: Final = 16
SECRET_MAX_BYTES: Final = 4096
SECRETS_FILE_MAX_BYTES: Final = 4 * SECRET_MAX_BYTES
"""Of a file of secrets, comments too: a longer one is refused, never cut."""
_FORMS: Final = f"give one secret for all roles, or a mapping with some of {', '.join(ROLES)}"


class Secrets:
    """Which secret proves which role. Without any, everybody is let in, in every role."""

    __slots__ = ("_by_role",)

    def __init__(self, by_role: Mapping[str, bytes]) -> None:
        self._by_role = dict(by_role)

    @classmethod
    def of(cls, given: object) -> Secrets:
        """From what an application gives: None, one secret (text or bytes) for every role, or a mapping from roles to secrets.

        Raises:
            UsageError: something else, an empty secret, an unknown role. The message shows no secret.
        """
        if given is None:
            return cls({})
        if isinstance(given, Secrets):
            return given
        if isinstance(given, Mapping):
            unknown = [str(role)[:20] for role in given if role not in ROLES]
            if unknown or not given:
                raise UsageError(
                    f"the secrets name {unknown[0]!r}, which is no role" if unknown else "the secrets name no role",
                    _FORMS,
                )
            return cls({role: _secret(value) for role, value in given.items()})
        return cls(dict.fromkeys(ROLES, _secret(given)))

    def __bool__(self) -> bool:
        return bool(self._by_role)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self._by_role) or 'none'})"

    def named(self, role: str) -> bool:
        """Whether somebody may prove this role, or nobody has to."""
        return not self._by_role or role in self._by_role

    def of_role(self, role: str) -> bytes | None:
        """The secret of a role; None where there are none at all.

        Raises:
            UsageError: there are secrets, and none for this role.
        """
        if not self._by_role:
            return None
        if role not in self._by_role:
            raise UsageError(
                f"there is no secret for the role {role}", f"add a line '{role}: SECRET' to the secret file"
            )
        return self._by_role[role]

    def shortest(self) -> int:
        """Bytes of the shortest one; raises ValueError without any."""
        return min(map(len, self._by_role.values()))


NO_SECRETS: Final = Secrets({})
Secret = bytes | str | Mapping[str, bytes | str] | Secrets | None
"""What applications give: nothing, one secret for all roles, or one for each role that they name."""


def _secret(value: object) -> bytes:
    if isinstance(value, str):
        value = value.encode("utf-8")
    if not isinstance(value, (bytes, bytearray)) or not value:
        raise UsageError(
            "secret must be non-empty bytes or text", f"leave it out where the raft group has none, or {_FORMS}"
        )
    return bytes(value)


def parse_secrets(text: bytes, where: str) -> Secrets:
    """From a file's bytes: one secret, or lines ``role: secret``. White space around a secret, empty lines and ``#`` lines are dropped.

    Raises:
        UsageError: there are more than ``SECRETS_FILE_MAX_BYTES``, a secret is too short or too long, or a line of a file with roles has
            none. The message names ``where`` and shows no secret.
    """
    if len(text) > SECRETS_FILE_MAX_BYTES:
        raise UsageError(
            f"{where} has more than {SECRETS_FILE_MAX_BYTES} bytes", f"keep {', '.join(ROLES)}, one line each, and shorten its comments"
        )
    named = _role_of(text.strip()) is not None or text.lstrip().startswith(b"#")
    if not named:
        return Secrets.of(_sized(text.strip(), where))
    found: dict[str, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        role = _role_of(line.strip())
        if role is None:
            raise UsageError(
                f"{where}, line {number} begins with no role",
                f"write each line as 'role: SECRET', with a role of {', '.join(ROLES)}",
            )
        if role in found:
            raise UsageError(f"{where}, line {number}: the role {role} is there twice", "keep one of the lines")
        found[role] = _sized(line.strip().partition(b":")[2].strip(), f"{where}, line {number}")
    return Secrets.of(found)


def _role_of(line: bytes) -> str | None:
    head = line.partition(b":")[0].strip() if b":" in line else b""
    return next((role for role in ROLES if head == role.encode()), None)


def _sized(secret: bytes, where: str) -> bytes:
    if not SECRET_MIN_BYTES <= len(secret) <= SECRET_MAX_BYTES:
        raise UsageError(
            f"{where} holds {len(secret)} bytes",
            f"a secret has {SECRET_MIN_BYTES} to {SECRET_MAX_BYTES} bytes: try 'openssl rand -hex 32'",
        )
    return secret
