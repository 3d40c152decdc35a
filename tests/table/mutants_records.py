"""Models that are wrong in one rule of records each; see ``mutants``.

Knows: the model's methods. Must not know: how a mistake is found.
"""

from __future__ import annotations

from typing import Any

from tests.table.model import Model
from tests.table.model_records import OK, Writer


class BindingUnchecked(Model):
    def is_fenced(self, bound: bytes, by: Writer) -> bool:
        return super().is_fenced(b"", by)


class NobodysWriteIsLetIn(Model):
    def is_fenced(self, bound: bytes, by: Writer) -> bool:
        return bool(by.name) and super().is_fenced(bound, by)


class TokenUnchecked(Model):
    def is_fenced(self, bound: bytes, by: Writer) -> bool:
        return bool(bound) and bound != by.name


class TokenChecksTheBoundOnly(Model):
    def is_fenced(self, bound: bytes, by: Writer) -> bool:
        return bool(bound) and super().is_fenced(bound, by)


class OverButUnsweptWrites(Model):
    def live_tokens(self, name: bytes) -> set[int]:
        return {lease.token for lease in self.leases if lease.name == name and not lease.dead}


class DeadTokenWrites(Model):
    def live_tokens(self, name: bytes) -> set[int]:
        return {lease.token for lease in self.occupants(name)}


class RevokedTokenRefused(Model):
    def live_tokens(self, name: bytes) -> set[int]:
        return {lease.token for lease in self.occupants(name) if not lease.dead and not lease.revoked}


class OldestTokenOnly(Model):
    def live_tokens(self, name: bytes) -> set[int]:
        return set(sorted(super().live_tokens(name))[:1])


class NeverBound(Model):
    def binding(self, key: bytes, by: Writer) -> bytes:
        return b""


class BoundAnew(Model):
    def is_fenced(self, bound: bytes, by: Writer) -> bool:
        return super().is_fenced(b"" if by.name else bound, by)


class RetryIsAppliedAgain(Model):
    def known_or_refused(self, key: bytes, by: Writer) -> list[Any] | None:
        self.writes = [write for write in self.writes if write[0] != by.write_id]
        return super().known_or_refused(key, by)


class ForgottenIsApplied(Model):
    def known_or_refused(self, key: bytes, by: Writer) -> list[Any] | None:
        return super().known_or_refused(key, Writer(by.write_id, by.name, by.token, by.expected, None))


class RefusalIsRemembered(Model):
    def known_or_refused(self, key: bytes, by: Writer) -> list[Any] | None:
        answer = super().known_or_refused(key, by)
        if answer and answer[0] != OK:
            self.writes.append((by.write_id, 1, by.token))
        return answer


class VersionIgnored(Model):
    def known_or_refused(self, key: bytes, by: Writer) -> list[Any] | None:
        return super().known_or_refused(key, Writer(by.write_id, by.name, by.token, None, by.known))


class VersionsCountFromOne(Model):
    def next_version(self, key: bytes) -> int:
        record = self.records.get(key)
        return record.version + 1 if record else 1


class OldestIdStays(Model):
    def remember(self, by: Writer, version: int) -> list[Any]:
        if len(self.writes) >= self.writes_max:
            self.forgotten = version
            return [OK, version, by.token]
        return super().remember(by, version)


# Which a witness alone must find, and what it then says.
BREAKS_AN_INVARIANT: dict[type[Model], str] = {
    BindingUnchecked: "I10: written under another name",
    NobodysWriteIsLetIn: "I10: written under another name",
    TokenUnchecked: "I10: written with a token that is not live",
    TokenChecksTheBoundOnly: "I10: written with a token that is not live",
    OverButUnsweptWrites: "I10: written with a token that is not live",
    DeadTokenWrites: "I10: written with a token that is not live",
    RevokedTokenRefused: "I10: a live holder was refused",
    OldestTokenOnly: "I10: a live holder was refused",
    NeverBound: "I10: bound without a token",
    BoundAnew: "I10: written under another name",
    RetryIsAppliedAgain: "I10: a write was applied again",
    ForgottenIsApplied: "I10: a write was applied again",
    VersionIgnored: "I10: written over another version",
    VersionsCountFromOne: "I2: a version that is not new",
}

ALL: list[type[Model]] = sorted(
    (mutant for mutant in Model.__subclasses__() if mutant.__module__ == __name__), key=lambda mutant: mutant.__name__
)
