"""What answers mean to a caller: values, and the one place where exceptions begin.

Knows: the answers of docs/protocol.md, the error types. Must not know: connections, retries, threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cluster.errors import (
    CoordinationError,
    FencedError,
    Indeterminate,
    LeaseLostError,
    ProtocolError,
    Unavailable,
    UsageError,
    VersionConflictError,
)
from cluster.opcodes import Status

Answer = list[Any]

# Answers that settle nothing: the same operation is asked again.
ASK_AGAIN = frozenset(
    (Status.WRONG_EPOCH, Status.NOT_LEADER, Status.OVERLOADED, Status.STALE_EPOCH, Status.CLOSING, Status.UNSURE)
)

_LIMITS: dict[object, str] = {
    1: "LEASES_MAX",
    2: "SESSIONS_MAX",
    3: "TOKEN_MAX",
    4: "LEASES_TEXT_MAX_BYTES",
    5: "RECORDS_MAX",
    6: "RECORDS_MAX_BYTES",
    7: "CANDIDATES_MAX",
    8: "CANDIDATES_MAX_BYTES",
    9: "CANDIDATES_PER_NAME_MAX",
}
_INVALID_HINT = "the two sides may be of different versions"


class Grant(NamedTuple):
    token: int
    slot: int
    remaining_ms: int
    revoked: bool


class Trouble(NamedTuple):
    """Why no answer came: per address, and whether every one refused us for the same kind of reason."""

    text: str
    kind: type[CoordinationError] | None = None


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a whole number")
    return value


def malformed(about: str) -> ProtocolError:
    return ProtocolError(f"{about}: the answer is not one of this protocol", _INVALID_HINT, applied="unknown")


def grants(answer: Answer, count: int, *, many: bool) -> list[Grant]:
    """The leases of an OK. Raises ValueError if it has another shape."""
    rows = answer[1] if many else [answer[1:]]
    if type(rows) is not list or len(rows) != count:
        raise ValueError("not as many grants as names")
    found = []
    for row in rows:
        if type(row) is not list or len(row) < 4:
            raise ValueError("not a grant")
        found.append(Grant(_whole(row[0]), _whole(row[1]), _whole(row[2]), bool(row[3])))
    return found


def number(answer: Answer, at: int) -> int:
    """One whole number of an answer. Raises ValueError if it is none."""
    if len(answer) <= at:
        raise ValueError("the answer is too short")
    return _whole(answer[at])


def refusal(answer: Answer, about: str) -> CoordinationError:
    """The error for an answer that refuses for good. None of them was applied."""
    status = answer[0]
    detail = answer[1] if len(answer) > 1 else ""
    if status == Status.NOT_YET:
        wait_s = detail / 1000 if isinstance(detail, int) else 0.0
        return Unavailable(
            f"{about}: nothing is granted yet, holders from before the restore may still run",
            f"grants begin in {wait_s:.1f} s",
        )
    if status == Status.LIMIT:
        limit = _LIMITS.get(detail, str(detail))
        return Unavailable(f"{about}: the cluster is at its limit {limit}", "end something first, or spread over several clusters")
    if status == Status.REFUSED and len(answer) >= 4 and isinstance(detail, str) and isinstance(answer[2], str):
        return (Unavailable if answer[3] else UsageError)(f"{about}: {detail}", answer[2])
    if status == Status.BAD_REQUEST:
        if isinstance(detail, str) and "admin" in detail:
            return UsageError(f"{about}: {detail}", "connect with the admin role")
        return ProtocolError(f"{about}: the node refused the request: {detail}", _INVALID_HINT)
    if status == Status.INVALID:
        return ProtocolError(f"{about}: the cluster refused argument {detail}", _INVALID_HINT)
    return malformed(about)


def unanswered(
    about: str, timeout_s: float, trouble: Trouble, *, applied_unknown: bool, undone: bool
) -> CoordinationError:
    """The error for an operation whose time is over.

    Args:
        about: the verb and the name.
        timeout_s: how long it was tried.
        trouble: what was met on the way.
        applied_unknown: it was written somewhere and may have happened.
        undone: it is being undone in the background.
    """
    why = f" ({trouble.text})" if trouble.text else ""
    if applied_unknown:
        hint = "it is being undone in the background; ask again" if undone else "ask again: the same call settles it"
        return Indeterminate(f"{about}: it may have happened, no answer came within {timeout_s:g} s{why}", hint)
    if trouble.kind is not None:
        return trouble.kind(f"{about}: refused{why}", "check the secret and the addresses")
    return Unavailable(
        f"{about}: no raft leader with a majority answered within {timeout_s:g} s{why}",
        "it did not happen; check that a majority of the nodes runs and can be reached",
    )


def fenced(about: str, bound: str, name: str, token: int) -> FencedError:
    """The error for a write that the log refused.

    Args:
        about: the verb and the key.
        bound: the name that the record is bound to, or empty.
        name, token: the writer's, or empty and 0.
    """
    if bound and bound != name:
        writer = f"the write was made under {name!r}" if name else "the write was made under no lease"
        return FencedError(f"{about}: the record is bound to {bound!r}, and {writer}", f"write it under a lease on {bound!r}")
    return FencedError(
        f"{about}: token {token} is not a live one of {name!r}", "stop this work: its lease is over, and another may hold the name"
    )


def version_differs(about: str, expected: int, found: int) -> VersionConflictError:
    wanted = f"version {expected} was expected" if expected else "it was expected not to exist"
    is_now = f"it has version {found}" if found else "it does not exist"
    return VersionConflictError(f"{about}: {wanted}, and {is_now}", "read it, and decide anew")


_READ_IT = "read the record to see; a version that you expect makes a second write harmless"


def forgotten(about: str) -> Indeterminate:
    return Indeterminate(f"{about}: it may have happened, and so many writes followed that the cluster does not remember", _READ_IT)


def unwritten(about: str, timeout_s: float, trouble: Trouble, *, applied_unknown: bool) -> CoordinationError:
    """The error for a write of a record whose time is over."""
    error = unanswered(about, timeout_s, trouble, applied_unknown=applied_unknown, undone=False)
    return Indeterminate(error.detail, _READ_IT) if isinstance(error, Indeterminate) else error


def closing(about: str, *, applied_unknown: bool = False) -> CoordinationError:
    if applied_unknown:
        return Indeterminate(f"{about}: the coordinator was closed before an answer came", "the lease, if any, runs out by itself")
    return Unavailable(f"{about}: the coordinator is being closed", "it did not happen", retryable=False)


def broken(about: str, error: BaseException) -> CoordinationError:
    return Indeterminate(f"{about}: the client's I/O failed: {type(error).__name__}: {error}", "close the coordinator, and report this")


_LOST = {
    "expired": "its time was over before it was extended",
    "session_ended": "its session ended: renewals did not arrive in time",
    "not_held": "the cluster says that it is over",
    "revoked": "an operator revoked it",
    "closing": "the coordinator is being closed",
    "released": "it was released",
    "forked": "it belongs to the process that this one was forked from",
    "cluster_changed": "the nodes now serve another cluster",
}


def lost(name: str, token: int, reason: str) -> LeaseLostError:
    return LeaseLostError(
        f"the lease on {name!r} (token {token}) is over: {_LOST.get(reason, reason)}",
        "stop the work that it protects; another may hold the name",
    )


def unreachable(endpoints: Sequence[str], timeout_s: float, trouble: Trouble) -> CoordinationError:
    """The error for a first contact that failed."""
    if trouble.kind is not None:
        return trouble.kind(f"no node accepted this client ({trouble.text})", "check the secret and the addresses")
    return Unavailable(
        f"no node could be reached within {timeout_s:g} s ({trouble.text or ', '.join(endpoints)})",
        "check the addresses, and that the nodes run",
    )
