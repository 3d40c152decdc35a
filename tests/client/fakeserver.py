"""A raft group that is not one: addresses, one table, one leader, and whatever faults a test scripts.

Knows: the protocol's frames and answers, the real lease table. Must not know: the client. Waiting is as simple as it can be: in
order of arrival, looked at whenever something was applied and every ``LOOK_S``.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cluster._table import LeaseTable
from cluster.codec import frame, pack, unpack, unpack_stream
from cluster.opcodes import Op, Push, Status
from cluster.ports import Connection, Env, Handle, Hello, Welcome

_HEADER = struct.Struct("<BBHIQq")
LOOK_S = 0.01


@dataclass
class Request:
    """One frame as the node read it."""

    conn: ServerEnd
    rid: int
    epoch: int
    op: list[Any]
    at: float

    @property
    def code(self) -> int:
        return int(self.op[0])

    @property
    def address(self) -> str:
        return self.conn.address


@dataclass
class Fate:
    """What a rule makes of a request: ``applied`` or not, ``answer`` instead of the real one, ``replied`` or not, then ``severed`` or not,
    the reply ``late_s`` seconds late."""

    applied: bool = True
    answer: list[Any] | None = None
    replied: bool = True
    severed: bool = False
    late_s: float = 0.0


LOST_REPLY = Fate(replied=False)
LOST_REQUEST = Fate(applied=False, replied=False)
SEVERED_AFTER = Fate(replied=False, severed=True)
SEVERED_BEFORE = Fate(applied=False, replied=False, severed=True)

Rule = Callable[[Request], "Fate | None"]


class ClientEnd:
    """See ``ports.Connection``: the end that the client holds."""

    def __init__(self, env: Env, hello: Hello, server: ServerEnd) -> None:
        self.id = id(self)
        self.hello = hello
        self.heard_at = env.clock()
        self.on_data: Callable[[bytes], None] = lambda data: None
        self.on_closed: Callable[[str], None] = lambda reason: None
        self.reason: str | None = None
        self._env = env
        self._server = server

    @property
    def closed(self) -> bool:
        return self.reason is not None

    def write(self, data: bytes) -> None:
        if not self.closed:
            self._env.call_later(self._server.cluster.delay_s, self._server.received, data)

    def unsent(self) -> int:
        return 0

    def close(self, reason: str = "") -> None:
        self.ended(reason or "closed here")
        self._env.call_later(self._server.cluster.delay_s, self._server.ended)

    def ended(self, reason: str) -> None:
        if not self.closed:
            self.reason = reason
            self._env.call_soon(lambda: self.on_closed(reason))


@dataclass
class Waiting:
    request: Request
    until: float
    late_s: float


class ServerEnd:
    """One client connection as a node sees it."""

    def __init__(self, cluster: FakeCluster, address: str, hello: Hello) -> None:
        self.cluster = cluster
        self.address = address
        self.hello = hello
        self.client = ClientEnd(cluster.env, hello, self)
        self.heard = 0
        self.open = True
        self._tail = b""

    def received(self, data: bytes) -> None:
        if not self.open or self.address in self.cluster.silent:
            return
        buffer = self._tail + data
        at = 0
        while len(buffer) >= at + 4 and len(buffer) >= (end := at + 4 + int.from_bytes(buffer[at : at + 4], "big")):
            rid, epoch, op = unpack(buffer[at + 4 : end])
            at = end
            self.heard = rid
            self.cluster.read(Request(self, rid, epoch, op, self.cluster.env.clock()))
        self._tail = buffer[at:]

    def send(self, message: list[Any], late_s: float = 0.0) -> None:
        self.cluster.env.call_later(self.cluster.delay_s + late_s, self._deliver, frame(pack(message)))

    def raw(self, data: bytes) -> None:
        self.cluster.env.call_later(self.cluster.delay_s, self._deliver, data)

    def _deliver(self, data: bytes) -> None:
        if self.open and self.address not in self.cluster.silent and not self.client.closed:
            self.client.on_data(data)

    def sever(self) -> None:
        self.ended()
        self.cluster.env.call_later(self.cluster.delay_s, self.client.ended, "connection reset")

    def ended(self) -> None:
        self.open = False
        if self in self.cluster.conns:
            self.cluster.conns.remove(self)


class FakeDoor:
    """See ``client.door.Door``."""

    def __init__(self, cluster: FakeCluster, endpoints: list[str]) -> None:
        self.endpoints = endpoints
        self._cluster = cluster

    async def open(self, env: Env, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        return await self._cluster.connect(address, hello)


@dataclass
class FakeCluster:
    """Attributes:
    up: addresses that answer.
    silent: addresses whose connections stay open and carry nothing.
    errors: what connecting to an address raises.
    rules: asked in order for every request; the first that says something decides.
    seen: every request read, in order.
    dialled: (address, time) of every attempt.
    """

    env: Env
    addresses: tuple[str, ...] = ("n1:1", "n2:1", "n3:1")
    delay_s: float = 0.001
    dial_s: float = 0.001
    cluster_id: bytes = b"c" * 16
    leader: str = ""
    epoch: int = 0
    table: LeaseTable = field(default_factory=LeaseTable)
    up: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    errors: dict[str, Exception] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    seen: list[Request] = field(default_factory=list)
    conns: list[ServerEnd] = field(default_factory=list)
    dialled: list[tuple[str, float]] = field(default_factory=list)
    most_dials: int = 0
    waiting: list[Waiting] = field(default_factory=list)
    watching: list[Request] = field(default_factory=list)
    events: list[list[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._started = self.env.clock()
        self._dialling = 0
        self._look_timer: Handle | None = None
        self._looking = False
        self.up.update(self.addresses)
        self.lead(self.addresses[0])
        self.apply([int(Op.INIT), self.cluster_id, int(self.env.wall() * 1000)])

    def door(self, *endpoints: str) -> FakeDoor:
        return FakeDoor(self, list(endpoints or self.addresses))

    # Faults.

    def lead(self, address: str, *, push: bool = True) -> None:
        """A new raft leader, or none."""
        self.leader = address
        for waiter in self.waiting:
            waiter.request.conn.send([waiter.request.rid, [int(Status.NOT_LEADER), address, 0]])
        for watcher in self.watching:
            watcher.conn.send([watcher.rid, [int(Status.NOT_LEADER), address, 0]])
        self.waiting.clear()
        self.watching.clear()
        if address:
            self.epoch += 1
            self.table.apply(_HEADER.pack(1, 0, 0, 1, self.epoch, 0) + pack([int(Op.EPOCH)]))
        if push:
            for conn in list(self.conns):
                conn.send([0, [int(Push.LEADER), self.epoch if conn.address == address else 0, address]])

    def kill(self, address: str) -> None:
        self.up.discard(address)
        for conn in [conn for conn in self.conns if conn.address == address]:
            self.waiting = [waiter for waiter in self.waiting if waiter.request.conn is not conn]
            self.watching = [watcher for watcher in self.watching if watcher.conn is not conn]
            conn.sever()
        if self.leader == address:
            self.leader = ""

    def once(self, code: int, fate: Fate) -> None:
        """The next request with this code meets ``fate``."""

        def rule(request: Request) -> Fate | None:
            if request.code != code:
                return None
            self.rules.remove(rule)
            return fate

        self.rules.append(rule)

    def always(self, code: int, fate: Fate) -> Rule:
        def rule(request: Request) -> Fate | None:
            return fate if request.code == code else None

        self.rules.append(rule)
        return rule

    def codes(self, *, pings: bool = False) -> list[int]:
        return [request.code for request in self.seen if pings or request.code != Op.PING]

    def of(self, code: int) -> list[Request]:
        return [request for request in self.seen if request.code == code]

    # Serving.

    async def connect(self, address: str, hello: Hello) -> tuple[Connection, Welcome]:
        self.dialled.append((address, self.env.clock()))
        self._dialling += 1
        self.most_dials = max(self.most_dials, self._dialling)
        try:
            await pause(self.env, self.dial_s)
        finally:
            self._dialling -= 1
        if address in self.errors:
            raise self.errors[address]
        if address not in self.up:
            raise ConnectionRefusedError(f"{address}: connection refused")
        conn = ServerEnd(self, address, hello)
        for old in [old for old in self.conns if old.address == address and old.hello.incarnation == hello.incarnation]:
            old.sever()
        self.conns.append(conn)
        leading = address == self.leader
        return conn.client, Welcome(address, self.cluster_id, self.epoch if leading else 0, self.leader)

    def stamp(self) -> int:
        return int((self.env.clock() - self._started) * 1000)

    def apply(self, op: list[Any]) -> list[Any]:
        number = self.table.next_event
        replies, events = self.table.apply(_HEADER.pack(1, 0, 0, 1, self.epoch, self.stamp()) + pack(op))
        self.events += [[number + at, *event] for at, event in enumerate(unpack_stream(events))]
        self.watching = [watcher for watcher in self.watching if not self._told(watcher)]
        answer: list[Any] = unpack(replies)
        return answer

    def _told(self, watcher: Request) -> bool:
        _, _, prefix, after, _ = watcher.op
        rows = [row for row in self.events if row[0] > after and row[2].startswith(prefix)]
        if rows:
            watcher.conn.send([watcher.rid, [0, after + 1, self.table.next_event - 1, rows]])
        return bool(rows)

    def read(self, request: Request) -> None:
        self.seen.append(request)
        fate = next((fate for rule in list(self.rules) if (fate := rule(request)) is not None), Fate())
        if fate.applied and fate.answer is None:
            self._serve(request, fate)
        elif fate.replied and fate.answer is not None:
            request.conn.send([request.rid, fate.answer], fate.late_s)
        if fate.severed:
            request.conn.sever()

    def _member(self, address: str) -> dict[str, Any]:
        role = "leader" if address == self.leader else "follower"
        return {"node_id": address, "role": role, "voter": True, "connected": True, "match_index": 1, "lag": 0}

    def _serve(self, request: Request, fate: Fate) -> None:
        answer: list[Any] | None
        op, code = request.op, request.code
        if code == Op.PING:
            answer = [0]
        elif code == Op.STATUS:
            answer = [0, {"node_id": request.address, "role": "leader", "leader": self.leader, "term": self.epoch}]
        elif request.address != self.leader:
            answer = [int(Status.NOT_LEADER), self.leader, 0]
        elif request.epoch != self.epoch:
            answer = [int(Status.STALE_EPOCH), self.epoch]
        elif code == Op.MEMBERS:
            answer = [0, {"members": [self._member(address) for address in self.addresses]}]
        elif code == Op.WAIT:
            self.waiting.append(Waiting(request, self.env.clock() + op[1] / 1000, fate.late_s))
            self._look_soon()
            return
        elif code == Op.WATCH:
            if not self._told(request):
                self.watching.append(request)
            return
        elif code == Op.CANCEL:
            self.watching = [watcher for watcher in self.watching if watcher.op[1] != op[1]]
            self._cancel(op[1])
            answer = [0]
        elif code == Op.STATE:
            answer = [0, self.stamp(), self.table.rows(op[1], self.stamp()), len(self.waiting)]
        elif code == Op.RECORD_GET:
            found = self.table.record(op[1])
            answer = [0, self.table.next_token - 1] + ([] if found is None else [*found[1:], found[0]])
        elif code == Op.CANDIDATES:
            now = self.stamp()
            free_in = max(0, self.table.next_free(op[1], 1, now) - now)
            revision, last_token, infos = self.table.candidates(op[1], now)
            answer = [0, now, revision, last_token, free_in, max(0, self.table.grants_from - now), self.table.next_event - 1, infos]
        elif code == Op.LEASES:
            rows, more = self.table.scan(op[1], op[2], op[3], op[4], self.stamp())
            answer = [0, self.stamp(), rows, more]
        else:
            answer = self.apply(op)
            self._look_soon()
        if fate.replied:
            request.conn.send([request.rid, answer], fate.late_s)

    def _cancel(self, acq_id: bytes) -> None:
        for waiter in [waiter for waiter in self.waiting if waiter.request.op[2][1] == acq_id]:
            self.waiting.remove(waiter)
            waiter.request.conn.send([waiter.request.rid, [int(Status.CANCELLED)]])

    def _look_soon(self) -> None:
        if not self._looking:
            self._looking = True
            self.env.call_soon(self._look)

    def _look(self) -> None:
        """Give each waiter what it may have, in order; the answer names the last frame that was read from it."""
        self._looking = False
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None
        taken: set[bytes] = set()
        left: list[Waiting] = []
        for waiter in self.waiting:
            request = waiter.request
            op = request.op[2]
            names = [op[2]] if op[0] == Op.ACQUIRE else op[2]
            late = self.env.clock() >= waiter.until
            if not request.conn.open:
                continue
            if late or not taken.intersection(names):
                answer = self.apply(op)
                if late or answer[0] != Status.HELD:
                    request.conn.send([request.rid, answer, request.conn.heard], waiter.late_s)
                    continue
            taken.update(names)
            left.append(waiter)
        self.waiting = left
        if left:
            self._look_timer = self.env.call_later(LOOK_S, self._look)


async def pause(env: Env, seconds: float) -> None:
    """Wait by the env's timer."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = env.call_later(seconds, done.set_result, None)
    try:
        await done
    finally:
        timer.cancel()
