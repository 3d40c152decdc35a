"""Records: small replicated values, and who may write them.

Knows: the verbs of ``coordinator.records``, their arguments, what each answer means. Must not know: frames, connections, when a call is
asked again. Whether a writer is fenced is decided in the log, never here.

A write has one id for its whole life, and is asked again under it until it is answered or its time is over: it is applied once at most.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from cluster.client import answers, checks
from cluster.client.answers import Answer
from cluster.client.errands import PlainCall, ReadCall
from cluster.client.handoff import Waiter
from cluster.client.lease import AsyncLease, Handle, Lease
from cluster.client.port import Port
from cluster.client.requests import Requests
from cluster.client.values import Record
from cluster.errors import CoordinationError, UsageError
from cluster.opcodes import Op, Status

_NO_LEASE: Final = (b"", 0)


class WriteCall(PlainCall):
    """One write. ``op`` is what comes before the number that an asked-again write carries."""

    def __init__(
        self,
        port: Port,
        about: str,
        op: Sequence[Any],
        parse: Callable[[Answer], Any],
        timeout_s: float,
        waiter: Waiter,
        known: int,
    ) -> None:
        super().__init__(port.engine, about, op, parse, timeout_s, waiter)
        self._known = known

    def operation(self, now: float) -> Sequence[Any]:
        return (*self._op, self._known if self.unknown else None)

    def answered(self, answer: Answer, base: float) -> None:
        status = answer[0]
        if status == Status.OK:
            self._engine.note_number(answers.number(answer, 1))
            self._waiter.finish(self._parse(answer))
        else:
            self._waiter.finish(None, self._refusal(status, answer))

    def _refusal(self, status: int, answer: Answer) -> CoordinationError:
        # The writer's name, its token and what it expected stand before the end of both operations.
        name, token, expected = self._op[-3:]
        if status == Status.FENCED and type(answer[1]) is bytes:
            return answers.fenced(self._about, answer[1].decode("ascii"), name.decode("ascii"), token)
        if status == Status.VERSION_DIFFERS:
            return answers.version_differs(self._about, expected, answers.number(answer, 1))
        if status == Status.FORGOTTEN:
            return answers.forgotten(self._about)
        return answers.refusal(answer, self._about)

    def overdue(self, unknown: bool) -> float | None:
        trouble = self._engine.trouble_of(self)
        self._waiter.finish(None, answers.unwritten(self._about, self._timeout_s, trouble, applied_unknown=unknown))
        return None


class RecordRequests:
    """From checked arguments to calls, for both forms. Used from any thread."""

    def __init__(self, port: Port, requests: Requests) -> None:
        self._port = port
        self._requests = requests

    def get(self, waiter: Waiter, key: object, timeout: object) -> PlainCall:
        op = (int(Op.RECORD_GET), checks.name(key, "key"))
        timeout_s = self._requests.timeout_s(timeout)
        self._requests.check("get")
        return ReadCall(self._port.engine, f"get {key!r}", op, self._read, timeout_s, waiter)

    def _read(self, answer: Answer) -> Record | None:
        self._port.engine.note_number(answers.number(answer, 1))
        if len(answer) == 2:
            return None
        if type(answer[4]) is not bytes:
            raise ValueError("not a record")
        return Record(answer[4], answers.number(answer, 2), answers.number(answer, 3) or None)

    def put(
        self, waiter: Waiter, key: object, value: object, lease: object, expected_version: object, timeout: object
    ) -> PlainCall:
        data = checks.record_value(value)

        def parse(answer: Answer) -> Record:
            return Record(data, answers.number(answer, 1), answers.number(answer, 2) or None)

        return self._write(waiter, "put", int(Op.RECORD_PUT), key, (data,), lease, expected_version, timeout, parse)

    def delete(
        self, waiter: Waiter, key: object, lease: object, expected_version: object, timeout: object
    ) -> PlainCall:
        return self._write(
            waiter, "delete", int(Op.RECORD_DELETE), key, (), lease, expected_version, timeout,
            lambda answer: answers.number(answer, 1) > 0,
        )  # fmt: skip

    def _write(
        self,
        waiter: Waiter,
        verb: str,
        code: int,
        key: object,
        values: tuple[bytes, ...],
        lease: object,
        expected_version: object,
        timeout: object,
        parse: Callable[[Answer], Any],
    ) -> PlainCall:
        checked = checks.name(key, "key")
        name, token = _writer(lease)
        expected = checks.expected_version(expected_version)
        timeout_s = self._requests.timeout_s(timeout)
        self._requests.check(verb)
        engine = self._port.engine
        # Whatever number the cluster gave out before this write is smaller than the version that it may get.
        known = max(engine.newest_number, token, expected or 0)
        op = (code, engine.new_id(), checked, *values, name, token, expected)
        return WriteCall(self._port, f"{verb} {key!r}", op, parse, timeout_s, waiter, known)


def _writer(lease: object) -> tuple[bytes, int]:
    """The name and token that a write carries."""
    if lease is None:
        return _NO_LEASE
    if not isinstance(lease, Handle):
        raise UsageError(f"lease must be one lease or None, not {type(lease).__name__}", "give what acquire() returned")
    return lease.name.encode("ascii"), lease.token


class Records:
    """Small values that all nodes keep, and that check the token of who writes them; got by ``coordinator.records``.

    Markers, checkpoints, idempotency keys. The first write with a lease binds a key to that lease's name: from then on only a live
    holder of that name writes or deletes it. A record that was deleted is bound to nothing any more.

    A key is like a name: 1 to 255 characters of ``A-Z a-z 0-9 _ - : . /``, the first one a letter or digit; keys and names do not meet.
    A value is 0 to 65,536 bytes.
    """

    def __init__(self, requests: RecordRequests, ask: Callable[..., Any]) -> None:
        self._requests = requests
        self._ask = ask

    def get(self, key: str, *, timeout: checks.Seconds | None = None) -> Record | None:
        """The record, or None if there is none. Linearizable: it sees every write that was answered before this call.

        Args:
            key: which record.
            timeout: seconds; None: the coordinator's.

        Raises:
            UsageError, Unavailable, ProtocolError. Nothing was changed.
        """
        record: Record | None = self._ask(self._requests.get, key, timeout)
        return record

    def put(
        self,
        key: str,
        value: bytes,
        *,
        lease: Lease | AsyncLease | None = None,
        expected_version: int | None = None,
        timeout: checks.Seconds | None = None,
    ) -> Record:
        """Write a record whole.

        Args:
            key: which record.
            value: 0 to 65,536 bytes.
            lease: the lease that this write is made under; its token is checked in the log. None: only for a record that is bound to
                no name.
            expected_version: write only if the record has this version; 0: only if it does not exist. None: whatever it is.
            timeout: seconds for finding out what happened; None: the coordinator's.

        Returns:
            The record as it was written, with its new version: larger than every version and token before it, also of other keys.

        Raises:
            FencedError: the record is bound to another name than the lease's, or the lease's token is not a live one. Nothing was changed.
            VersionConflictError: the record has another version. Nothing was changed.
            Unavailable: it did not happen, or a limit of the cluster is reached.
            Indeterminate: no answer in time, and it may have been written, or may still be in a moment; it is not asked again.
            UsageError: a bad argument, a closed coordinator, a forked child. Nothing was sent.
        """
        record: Record = self._ask(self._requests.put, key, value, lease, expected_version, timeout)
        return record

    def delete(
        self,
        key: str,
        *,
        lease: Lease | AsyncLease | None = None,
        expected_version: int | None = None,
        timeout: checks.Seconds | None = None,
    ) -> bool:
        """Delete a record. Arguments and errors as ``put``.

        Returns:
            Whether there was one.
        """
        existed: bool = self._ask(self._requests.delete, key, lease, expected_version, timeout)
        return existed


class AsyncRecords:
    """``Records`` for tasks; got by ``coordinator.aio.records``.

    A write whose task is cancelled may or may not have happened; it is not asked again.
    """

    def __init__(self, requests: RecordRequests, ask: Callable[..., Awaitable[Any]]) -> None:
        self._requests = requests
        self._ask = ask

    async def get(self, key: str, *, timeout: checks.Seconds | None = None) -> Record | None:
        """See ``Records.get``."""
        record: Record | None = await self._ask(self._requests.get, key, timeout)
        return record

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        lease: Lease | AsyncLease | None = None,
        expected_version: int | None = None,
        timeout: checks.Seconds | None = None,
    ) -> Record:
        """See ``Records.put``."""
        record: Record = await self._ask(self._requests.put, key, value, lease, expected_version, timeout)
        return record

    async def delete(
        self,
        key: str,
        *,
        lease: Lease | AsyncLease | None = None,
        expected_version: int | None = None,
        timeout: checks.Seconds | None = None,
    ) -> bool:
        """See ``Records.delete``."""
        existed: bool = await self._ask(self._requests.delete, key, lease, expected_version, timeout)
        return existed
