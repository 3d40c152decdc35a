"""What can go wrong, for callers: one base, and whether the operation was applied.

Knows: the error types and how their text is built. Must not know: the network, the log. Refusals are values below the client;
exceptions begin in ``cluster.client.answers``.
"""

from __future__ import annotations

from typing import Literal

Applied = Literal["no", "unknown"]


class CoordinationError(Exception):
    """Base of every error of this library.

    Attributes:
        detail: what happened, and to which name.
        hint: what to do next.
        applied: ``"no"`` if the operation certainly had no effect, ``"unknown"`` if it may have had one.
        retryable: whether the same call may succeed later, unchanged.
    """

    applied: Applied = "no"
    retryable: bool = False

    def __init__(self, detail: str, hint: str = "", *, applied: Applied | None = None, retryable: bool | None = None) -> None:
        self.detail = detail
        self.hint = hint
        if applied is not None:
            self.applied = applied
        if retryable is not None:
            self.retryable = retryable
        super().__init__(f"{detail}. {hint}" if hint else detail)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.detail, self.hint, self.applied, self.retryable))


def _rebuild(kind: type[CoordinationError], detail: str, hint: str, applied: Applied, retryable: bool) -> CoordinationError:
    return kind(detail, hint, applied=applied, retryable=retryable)


class UsageError(CoordinationError, ValueError):
    """The call itself is wrong: a bad name, duration, address or combination. Nothing was sent."""


class LeaseLostError(CoordinationError):
    """The lease is over: its time passed, it was revoked, or a renewal was refused. Another may hold the name."""


class NotLeaderError(CoordinationError):
    """The caller does not hold the name."""


class FencedError(CoordinationError):
    """A write with a token that is not the name's live one was refused."""


class VersionConflictError(CoordinationError):
    """A write that expected another version of the record was refused. Read it, and decide anew."""


class Unavailable(CoordinationError):
    """It certainly did not happen: no raft leader with a majority could be reached in time."""

    retryable = True


class Indeterminate(CoordinationError):
    """It may have happened: the answer was lost and asking again did not settle it in time."""

    applied: Applied = "unknown"
    retryable = True


class ProtocolError(CoordinationError):
    """The other side sent something that is not this protocol, or another version of it."""


class AuthenticationError(CoordinationError):
    """The other side does not know the shared secret, or is not who it claims to be."""
