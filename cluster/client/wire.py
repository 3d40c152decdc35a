"""One connection to one node: numbered frames out, with the time at which each was sent; replies and pushes in.

Knows: framing, request numbers, which frame a reply says was heard. Must not know: which node is the right one, retries.

The time of a frame is read before it is written. A lease's deadline is counted from the sent time of the frame that the reply names,
so an earlier time is safe and a later one never is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from cluster.codec import frame, pack, unpack
from cluster.limits import REPLY_MAX_BYTES
from cluster.opcodes import Op
from cluster.ports import Connection, Env, Welcome

if TYPE_CHECKING:
    from cluster.client.call import Call

SENT_LOG_STEP_S: Final = 0.001
SENT_LOG_MAX: Final = 4096
# How much the node may not have read yet. A reply to a frame says that all frames before it were read.
UNREAD_MAX_BYTES: Final = 4 << 20
_PING = (int(Op.PING),)


class WireOwner(Protocol):
    def replied(self, wire: Wire, call: Call, answer: list[Any], base: float) -> None:
        """``base``: when the frame was sent that the answer counts from, by the env's clock."""

    def pushed(self, wire: Wire, push: list[Any]) -> None: ...
    def wire_closed(self, wire: Wire, reason: str) -> None: ...
    def chunk_done(self) -> None:
        """All replies of one read are handed out."""


class SentLog:
    """When frames were sent, by request number, bounded in memory.

    Invariant: ``at(rid)`` is never later than the time at which ``rid`` was sent. Frames within a millisecond share the first one's time;
    when the log is full, its older half keeps every other entry, and what falls out reads as the entry before it.
    """

    __slots__ = ("_rids", "_times")

    def __init__(self) -> None:
        self._rids: list[int] = []
        self._times: list[float] = []

    def __len__(self) -> int:
        return len(self._rids)

    def note(self, rid: int, now: float, *, exactly: bool = False) -> None:
        times = self._times
        if times and not exactly and now - times[-1] < SENT_LOG_STEP_S:
            return
        self._rids.append(rid)
        times.append(now)
        if len(times) > SENT_LOG_MAX:
            half = len(times) // 2
            self._rids[:half] = self._rids[:half:2]
            times[:half] = times[:half:2]

    def at(self, rid: int) -> float | None:
        index = bisect_right(self._rids, rid) - 1
        return self._times[index] if index >= 0 else None


class Wire:
    """Takes a connection over. ``address`` is what we dialled, ``node_id`` what the node calls itself."""

    def __init__(self, env: Env, connection: Connection, welcome: Welcome, address: str, owner: WireOwner) -> None:
        self._env = env
        self._owner = owner
        self._connection = connection
        self._tail = b""
        self._out: list[bytes] = []
        self._sent = SentLog()
        self._next_rid = 1
        self._closed = False
        self._sent_bytes = 0
        self._read_bytes = 0
        self._pings: dict[int, int] = {}
        self.address = address
        self.node_id = welcome.node_id
        self.waiting: dict[int, Call | None] = {}
        self.heard_at = env.clock()
        connection.on_closed = self._on_closed
        connection.on_data = self._on_data

    def send(self, call: Call, operation: Sequence[Any], epoch: int, now: float) -> None:
        """Queue one request; ``now`` was read from the clock before this. ``flush`` writes."""
        rid = self._next_rid
        self._next_rid = rid + 1
        data = frame(pack((rid, epoch, operation)))
        self._out.append(data)
        self._sent_bytes += len(data)
        self._sent.note(rid, now)
        self.waiting[rid] = call
        call.rid = rid
        call.sent_at = now
        call.sent_bytes = self._sent_bytes

    @property
    def full(self) -> bool:
        """Whether more would only pile up in front of the node, until it closes the connection."""
        return self._sent_bytes - self._read_bytes > UNREAD_MAX_BYTES

    def ask_how_far(self, epoch: int) -> None:
        """Find out what the node has read, where no reply may come for long."""
        if not self._pings:
            self.ping(epoch)

    def ping(self, epoch: int) -> None:
        now = self._env.clock()
        rid = self._next_rid
        self._next_rid = rid + 1
        self._out.append(frame(pack((rid, epoch, _PING))))
        self._pings[rid] = self._sent_bytes
        # A waiter's grant often names a ping, so its time is kept as it is.
        self._sent.note(rid, now, exactly=True)
        self.flush()

    def flush(self) -> None:
        if self._out:
            data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
            self._out.clear()
            if not self._closed:
                self._connection.write(data)

    def forget(self, call: Call) -> None:
        """Its answer is not wanted any more."""
        if self.waiting.get(call.rid) is call:
            self.waiting[call.rid] = None

    def close(self, reason: str) -> list[Call]:
        """Be done with this connection at once: nothing more comes from it. Returns who waits for an answer, oldest first."""
        self._closed = True
        calls = [call for call in self.waiting.values() if call is not None]
        self.waiting.clear()
        self._out.clear()
        self._connection.close(reason)
        return calls

    def _on_closed(self, reason: str) -> None:
        if not self._closed:
            self._owner.wire_closed(self, reason)

    def _on_data(self, data: bytes) -> None:
        if self._closed:
            return
        self.heard_at = self._env.clock()
        buffer = self._tail + data if self._tail else data
        size = len(buffer)
        start = 0
        try:
            while size - start >= 4:
                body = start + 4
                end = body + int.from_bytes(buffer[start:body], "big")
                if end - body > REPLY_MAX_BYTES:
                    raise ValueError(f"a frame of {end - body} bytes")
                if end > size:
                    break
                start = end
                self._take(unpack(buffer[body:end]))
                if self._closed:
                    return
        except ValueError as error:
            self._owner.wire_closed(self, f"protocol error: {error}")
            return
        self._tail = buffer[start:] if start < size else b""
        self._owner.chunk_done()

    def _take(self, message: Any) -> None:
        """One frame. Raises ValueError if it is none of this protocol."""
        if type(message) is not list or not 2 <= len(message) <= 3 or type(message[0]) is not int:
            raise ValueError("not a reply")
        rid, answer = message[0], message[1]
        if type(answer) is not list or not answer or type(answer[0]) is not int:
            raise ValueError("not an answer")
        if rid == 0:
            self._owner.pushed(self, answer)
            return
        if rid in self._pings:
            self._answered_ping(rid)
            return
        if rid not in self.waiting:
            raise ValueError(f"a reply to request {rid}, which waits for none")
        call = self.waiting.pop(rid)
        if call is not None:
            self._read_bytes = max(self._read_bytes, call.sent_bytes)
            base = call.sent_at
            if len(message) == 3:
                base = self._heard(message[2], rid, base)
            self._owner.replied(self, call, answer, base)

    def _answered_ping(self, rid: int) -> None:
        """Pings are answered at once, in their order. One that was left out means that something on the way loses whole replies, maybe a
        grant among them: this connection cannot be believed, and on another one everything is asked again."""
        if rid != next(iter(self._pings)):
            raise ValueError("replies were lost on the way")
        self._read_bytes = max(self._read_bytes, self._pings.pop(rid))

    def _heard(self, heard: Any, rid: int, own: float) -> float:
        """When the heard frame was sent. Never before the request itself, which was read before it."""
        if type(heard) is not int or not rid <= heard < self._next_rid:
            raise ValueError("a reply heard a frame that was not sent after its request")
        found = self._sent.at(heard) if heard != rid else None
        return own if found is None else max(own, found)
