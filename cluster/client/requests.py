"""From checked arguments to calls: what the blocking and the asyncio verbs share.

Knows: which operation a verb is, how its answer becomes a value. Must not know: who waits, or how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from cluster.client import answers, checks
from cluster.client.answers import Answer
from cluster.client.attempt import AcquireCall
from cluster.client.engine import refuse_closed
from cluster.client.errands import AnyNodeCall, ContactCall, PlainCall, ReadCall
from cluster.client.handoff import Waiter
from cluster.client.port import Port
from cluster.client.values import LeaseInfo, Row, cluster_status, group_state, leader_state, lease_page, member_infos
from cluster.client.watched import position
from cluster.limits import LEASES_PAGE_MAX
from cluster.opcodes import Op


class Begun(Protocol):
    """What is handed over to the I/O thread."""

    def begin(self) -> None: ...


class Requests:
    """Makes calls for one client. Used from any thread."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._engine = port.engine

    def begin(self, call: Begun) -> None:
        """Hand a call over. Raises UsageError if the client has ended."""
        if not self._port.hand_over(call.begin):
            refuse_closed(self._engine, "ask")
            raise answers.closing("ask")

    def check(self, about: str) -> None:
        """Raises UsageError in a forked child, or when the client takes nothing new."""
        self._engine.check_process()
        refuse_closed(self._engine, about)

    def timeout_s(self, timeout: object) -> float:
        """A verb's own timeout, or the coordinator's."""
        return self._port.timeout_s if timeout is None else checks.timeout_s(timeout)

    def spec(
        self,
        names: tuple[bytes, ...],
        lease_time: object,
        wait_time: object,
        max_leaders: object,
        min_lease_time: object,
        auto_extend: object,
        metadata: object,
        node_id: object,
    ) -> checks.AcquireSpec:
        shown = self._engine.node_id if node_id is None else checks.node_id(node_id)
        return checks.acquire_spec(names, lease_time, wait_time, max_leaders, min_lease_time, auto_extend, metadata, shown)

    def acquire(self, spec: checks.AcquireSpec, timeout: object, waiter: Waiter, *, many: bool) -> AcquireCall:
        timeout_s = self.timeout_s(timeout)
        self.check("acquire")
        return AcquireCall(self._engine, spec, self._engine.new_id(), timeout_s, waiter, many=many)

    def state(self, waiter: Waiter, name: object, consistent: object, timeout: object) -> PlainCall:
        op = (int(Op.STATE), checks.name(name), checks.flag(consistent, "consistent"))
        return self._read(waiter, f"state of {name!r}", op, timeout, lambda answer: leader_state(str(name), answer, self._wall()))

    def group_state(self, waiter: Waiter, name: object, consistent: object, timeout: object) -> PlainCall:
        op = (int(Op.STATE), checks.name(name), checks.flag(consistent, "consistent"))
        return self._read(waiter, f"state of {name!r}", op, timeout, lambda answer: group_state(str(name), answer, self._wall()))

    def _wall(self) -> float:
        return self._engine.wall()

    def _read(self, waiter: Waiter, about: str, op: tuple[object, ...], timeout: object, parse: Callable[[Answer], Any]) -> PlainCall:
        timeout_s = self.timeout_s(timeout)
        self.check(about)
        return ReadCall(self._engine, about, op, parse, timeout_s, waiter)

    def pages(self, prefix: object, timeout: object) -> Pages:
        checked = checks.prefix(prefix)
        timeout_s = self.timeout_s(timeout)
        self.check("leases")
        return Pages(self, checked, timeout_s)

    def page(self, waiter: Waiter, prefix: bytes, name: bytes, slot: int, timeout_s: float) -> PlainCall:
        op = (int(Op.LEASES), prefix, name, slot, LEASES_PAGE_MAX)
        self.check("leases")
        return ReadCall(self._engine, "leases", op, lease_page, timeout_s, waiter)

    def status(self, waiter: Waiter, timeout: object) -> PlainCall:
        timeout_s = self.timeout_s(timeout)
        self.check("status")
        return AnyNodeCall(self._engine, "status", (int(Op.STATUS),), cluster_status, timeout_s, waiter)

    def revoke(self, waiter: Waiter, name: object, slot: object, force: object, timeout: object) -> PlainCall:
        op = (int(Op.REVOKE), checks.name(name), checks.slot(slot), checks.flag(force, "force"))
        timeout_s = self.timeout_s(timeout)
        self.check("revoke")
        return PlainCall(self._engine, f"revoke {name!r}", op, _count, timeout_s, waiter)

    def watched(self, prefix: object, after: object, extended: object) -> tuple[bytes, int | None, bool]:
        """The checked arguments of a watch."""
        checked = checks.prefix(prefix), checks.sequence(after), checks.flag(extended, "extended")
        self.check("watch")
        return checked

    def newest_event(self, waiter: Waiter, timeout: object) -> PlainCall:
        op = (int(Op.WATCH), self._engine.new_id(), b"", None, False)
        return self._read(waiter, "watch", op, timeout, position)

    def members(self, waiter: Waiter, timeout: object) -> PlainCall:
        return self._read(waiter, "members", (int(Op.MEMBERS),), timeout, member_infos)

    def change_members(self, waiter: Waiter, add: bool, node_id: object, timeout: object) -> PlainCall:
        verb, op = ("add", Op.MEMBER_ADD) if add else ("remove", Op.MEMBER_REMOVE)
        address = checks.member(node_id)
        timeout_s = self.timeout_s(timeout)
        self.check(f"members {verb}")
        # The same id when it is asked again: so it is known whether it was done already.
        operation = (int(op), address, self._engine.new_id())
        return PlainCall(self._engine, f"members {verb} {address}", operation, _nothing, timeout_s, waiter)

    def transfer(self, waiter: Waiter, to: object, timeout: object) -> PlainCall:
        address = "" if to is None else checks.member(to)
        timeout_s = self.timeout_s(timeout)
        self.check("transfer")
        about = f"transfer {address}" if address else "transfer"
        return PlainCall(self._engine, about, (int(Op.TRANSFER), address), _nothing, timeout_s, waiter)

    def contact(self, waiter: Waiter, endpoints: Iterable[str], timeout_s: float) -> PlainCall:
        return ContactCall(self._engine, list(endpoints), timeout_s, waiter)


def _nothing(answer: Answer) -> None:
    """An OK that says no more."""


def _count(answer: Answer) -> int:
    return answers.number(answer, 1)


class Pages:
    """Where a listing of leases stands."""

    def __init__(self, requests: Requests, prefix: bytes, timeout_s: float) -> None:
        self._requests = requests
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._name = b""
        self._slot = 0
        self.done = False

    def next(self, waiter: Waiter) -> PlainCall:
        return self._requests.page(waiter, self._prefix, self._name, self._slot, self._timeout_s)

    def take(self, page: tuple[list[Row], bool]) -> list[LeaseInfo]:
        """The live leases of a page; the listing goes on after its last row."""
        rows, more = page
        self.done = not more or not rows
        if rows:
            self._name, self._slot = rows[-1].name.encode("ascii"), rows[-1].slot
        return [row.info() for row in rows if row.live]
